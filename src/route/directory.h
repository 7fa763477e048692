// Which worker a session was last at, as several routers know it: a Redis or Valkey between them. The one idea: it is a
// hint. A question has a deadline of milliseconds, nobody waits for a note to be taken, and without the server, or with
// one that is slow or lies, requests go where they would have gone without it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/hash128.h"
#include "base/metrics.h"
#include "base/result.h"
#include "redis/redis_client.h"

namespace quire {

struct DirectoryOptions {
  RedisOptions redis;      // no host: there is none
  int deadline_ms = 5;     // of a question
  int64_t keep_s = 3'600;  // a note
};

// As parse_redis_url and read_redis_tls.
Result<DirectoryOptions> parse_directory(const std::string& url, const RedisTlsFiles& files = {});

class Directory {
 public:
  using Found = std::function<void(uint64_t worker)>;

  // Connects when it can, for as long as it lives. `metrics` outlives it.
  Directory(const DirectoryOptions& options, Metrics& metrics);  // its end calls what still waits

  // `found` is called once, by this call or on another thread within the deadline; 0: nobody knows. Any thread; `found`
  // must not block or throw.
  void find(const Hash128& session, const Found& found);
  // A session is at this worker now. Any thread; never waits.
  void note(const Hash128& session, uint64_t worker);
  bool up() const { return redis_.up(); }

 private:
  const int deadline_ms_;
  const int64_t keep_s_;
  Counter &questions_, &found_, &late_, &errors_, &dropped_;
  Gauge& up_gauge_;
  RedisClient redis_;
};

}  // namespace quire
