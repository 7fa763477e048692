// Answers of /v1/responses that their client may ask for again or go on from: in memory, for a bounded time, in a
// bounded number of bytes. Each belongs to who made it; nobody else finds it. The one idea: what is full makes room at
// the cost of whoever takes most of it, so nobody's answers are pushed out by one who keeps more. Any thread.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/sha256.h"
#include "serve/limits.h"

namespace quire {

struct StoredResponse {
  std::string body;          // the answer, as JSON
  std::string input;         // a JSON array: its own input as messages, without instructions
  std::string conversation;  // a JSON array of messages: what came before, its input, its answer
};

class ResponseStore {
 public:
  // Who may have it again, and on whose share it counts.
  struct Whose {
    uint64_t owner = 0, tenant = 0;
  };

  ResponseStore(const ServeLimits& limits, Clock& clock)
      : max_bytes_(limits.stored_bytes),
        tenant_bytes_(limits.stored_bytes_each),
        ttl_ns_(limits.stored_s * 1'000'000'000),
        clock_(clock) {}

  // One that is larger than all that may be kept of its tenant is not kept.
  void put(std::string_view id, Whose whose, StoredResponse response);
  std::shared_ptr<const StoredResponse> find(std::string_view id, uint64_t owner);  // null where there is none
  bool erase(std::string_view id, uint64_t owner);                                  // false where there is none
  // Forgets those whose time is up; to be called now and then.
  void expire();
  int64_t bytes() const;
  int64_t max_bytes() const { return max_bytes_; }

 private:
  struct Entry;
  using Entries = std::list<Entry>;
  struct Entry {
    Sha256 id;  // looked up by what it hashes to: how long that takes tells nothing of ids
    Whose whose;
    int64_t until_ns, bytes;
    std::shared_ptr<const StoredResponse> response;
    std::list<Entries::iterator>::iterator of_tenant;
  };
  struct Share {
    int64_t bytes = 0;
    std::list<Entries::iterator> entries;  // the oldest first
  };

  Entries::iterator lookup(std::string_view id, uint64_t owner);
  void drop(Entries::iterator at);
  void drop_old();
  void count(uint64_t tenant, Share& share, int64_t bytes);

  const int64_t max_bytes_, tenant_bytes_, ttl_ns_;
  Clock& clock_;
  mutable std::mutex mu_;  // guards what follows
  Entries entries_;        // the oldest first
  std::map<Sha256, Entries::iterator> by_id_;
  std::map<uint64_t, Share> shares_;                 // by tenant; none is empty
  std::set<std::pair<int64_t, uint64_t>> by_bytes_;  // of shares_, the largest last
  int64_t bytes_ = 0;
};

}  // namespace quire
