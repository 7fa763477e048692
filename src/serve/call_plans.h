// What a request's tools come to: what its answer has to be, and how calls in it are read. A dialogue sends the same
// tools at every turn, so this is made once for each content and kept for the next ones, whoever sends them. Bounded by
// bytes, the one used last stays longest; a request keeps what it has. Any thread.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "serve/structured.h"
#include "serve/tools.h"
#include "text/parse/tool_format.h"

namespace quire {

struct CallPlan {
  WantedGrammar wanted;
  std::shared_ptr<const CallRules> rules;
};

class CallPlans {
 public:
  static constexpr size_t kMaxEntries = 256;
  static constexpr int64_t kBytes = 32 << 20;

  explicit CallPlans(int64_t max_bytes = kBytes) : max_bytes_(max_bytes) {}

  // The calls beside `document`, which the request wants otherwise. Refuses as add_call_grammar does; what is refused
  // is not kept. REQUIRES tools.given(), and one format, with a form, for all of them.
  ApiResult<std::shared_ptr<const CallPlan>> get(const Tools& tools, const ToolFormat& format, MaybeGrammar document);

  struct Stats {
    int64_t n_made = 0, n_found = 0, n_entries = 0, bytes = 0;
  };
  Stats stats() const;
  int64_t max_bytes() const { return max_bytes_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CallPlan> plan;
    int64_t bytes = 0;
  };
  std::shared_ptr<const CallPlan> find(const std::string& key);
  void keep(std::string key, const std::shared_ptr<const CallPlan>& plan);

  const int64_t max_bytes_;
  mutable std::mutex mu_;
  std::list<Entry> entries_;                                                 // the one used last first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;  // views the entries' own
  int64_t bytes_ = 0, n_made_ = 0, n_found_ = 0;
};

}  // namespace quire
