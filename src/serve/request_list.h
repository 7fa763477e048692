// What every request that is here waits for, in one sentence each: what the service knows before the engine has it, and
// the scheduler's own values behind that. Nothing of a prompt or an answer is in it. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/request_view.h"

namespace quire {

// How far a request is on its way into the engine.
enum class RequestStage : uint8_t { none, queued, read, compiled, submitted };

// A request as its session knows it.
struct RequestLine {
  std::string id;  // as sent in x-request-id
  std::string_view endpoint;
  std::string key;  // its name; empty: nobody's
  int64_t age_ns = 0;
  RequestStage progress = RequestStage::none;
  struct Sequence {
    SeqId id = 0;  // 0: the engine has not taken it yet
    bool over = false;
  };
  std::vector<Sequence> sequences;  // once it is submitted
};

struct RequestList {
  std::vector<RequestLine> lines;
  RequestViews engine;
  int64_t now_ns = 0;    // by the clock of the views
  int64_t n_unread = 0;  // requests that wait to be read
};

inline constexpr size_t kMostListed = 1024;  // sequences that one list tells of; the oldest

// {"object":"list","seen_ms_ago":…,"data":[…],"left_out":…}: an entry for each sequence of a request, the oldest first.
Json describe_requests(RequestList list);

}  // namespace quire
