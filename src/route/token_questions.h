// The tokens of a prompt, for the index of what workers hold. The router has no tokenizer: a prompt that is given as
// tokens is read, and for any other a worker is asked, with the same body, at vLLM's …/render, so that template and
// tokenizer are those which will be used. The one idea: it is a hint with a deadline. Whoever is late, or says nothing
// that can be read, is not asked again for a while, and the prompt is known by its text.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/types.h"
#include "http/byte_budget.h"
#include "http/server.h"
#include "http/upstream.h"
#include "route/asked.h"
#include "route/worker.h"

namespace quire {

// Where a worker says the tokens of what is posted at `path`; empty: nowhere.
std::string_view render_path(std::string_view path);
// A list of numbers, as `prompt` may be; empty where it is anything else.
std::vector<Token> tokens_in_prompt(std::string_view written);
// The first list that is called token_ids; empty where there is none.
std::vector<Token> tokens_in_answer(std::string_view body);

class TokenQuestions {
 public:
  // All that is referred to outlives it. `deadline_ms`: for an answer.
  TokenQuestions(int64_t deadline_ms, const UpstreamLimits& limits, Clock& clock, Metrics& metrics);
  ~TokenQuestions();
  TokenQuestions(const TokenQuestions&) = delete;
  TokenQuestions& operator=(const TokenQuestions&) = delete;

  using Found = std::function<void(std::vector<Token>&&)>;
  class Question;
  // `found` is called once on the io thread that calls this, unless drop() comes first; empty: they are not known. The
  // answer is held in `account`.
  std::shared_ptr<Question> ask(std::shared_ptr<Worker> worker,
                                UpstreamRequest request,
                                ReplyPtr reply,
                                std::shared_ptr<ByteAccount> account,
                                Found found);
  // Nobody waits for it any more. The same io thread.
  static void drop(Question& question);

 private:
  struct Due {
    std::chrono::steady_clock::time_point at;
    std::weak_ptr<Question> question;
  };
  void run();

  const int64_t deadline_ms_;
  const UpstreamLimits limits_;
  Clock& clock_;
  Counter &n_asked_, &n_unsaid_;
  std::mutex mu_;
  std::condition_variable wakes_;
  std::deque<Due> due_;  // guarded by mu_; the soonest first
  bool ending_ = false;  // likewise
  std::thread thread_;   // last: it uses the others
};

}  // namespace quire
