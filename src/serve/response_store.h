// Answers of /v1/responses that their client may ask for again or go on from: in memory, for a bounded time, in a
// bounded number of bytes, the oldest going first. Each belongs to who made it; nobody else finds it. Any thread.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "serve/limits.h"

namespace quire {

struct StoredResponse {
  std::string body;          // the answer, as JSON
  std::string input;         // a JSON array: its own input as messages, without instructions
  std::string conversation;  // a JSON array of messages: what came before, its input, its answer
};

class ResponseStore {
 public:
  ResponseStore(const ServeLimits& limits, Clock& clock)
      : max_bytes_(limits.stored_bytes), ttl_ns_(limits.stored_s * 1'000'000'000), clock_(clock) {}

  // One that is larger than all that may be kept is not kept.
  void put(std::string id, uint64_t tenant, StoredResponse response);
  std::shared_ptr<const StoredResponse> find(std::string_view id, uint64_t tenant);  // null where there is none
  bool erase(std::string_view id, uint64_t tenant);                                  // false where there is none
  int64_t bytes() const;

 private:
  struct Entry {
    std::string id;
    uint64_t tenant;
    int64_t until_ns, bytes;
    std::shared_ptr<const StoredResponse> response;
  };
  using Entries = std::list<Entry>;

  Entries::iterator lookup(std::string_view id, uint64_t tenant);
  void drop(Entries::iterator at);
  void drop_old();

  const int64_t max_bytes_, ttl_ns_;
  Clock& clock_;
  mutable std::mutex mu_;  // guards what follows
  Entries entries_;        // the oldest first
  std::unordered_map<std::string_view, Entries::iterator> by_id_;
  int64_t bytes_ = 0;
};

}  // namespace quire
