// One request of a run: its reference, what was heard of it so far, and whether the two agree. The first disagreement
// of the run is kept in Failure.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/reference.h"

namespace quire::sim {

class Failure {
 public:
  void set(std::string text) {
    if (text_.empty()) text_ = std::move(text);
  }
  bool any() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Stream final : public EventSink {
 public:
  Stream(const RequestScript& request, int n_ctx, Failure& failure)
      : script(&request), truth(reference(request, n_ctx)), failure_(failure) {}

  void on_token(SeqId id, const TokenEvent& event) override {
    const size_t i = n_heard++;
    if (n_finish > 0) failure_.set(name() + " hears a token after its end");
    if (id != seq) failure_.set(name() + " hears a token of sequence " + std::to_string(id));
    if (i >= truth.tokens.size() || event.id != truth.tokens[i] || event.logprob != truth.logprobs[i]) {
      failure_.set(name() + ": token " + std::to_string(i) + " is " + std::to_string(event.id) +
                   ", its reference has " +
                   (i < truth.tokens.size() ? std::to_string(truth.tokens[i]) : std::string("ended")));
    }
  }
  void on_finish(SeqId id, Finish how, const Usage& used, const std::string& message) override {
    if (++n_finish > 1) failure_.set(name() + " ends twice");
    if (id != seq) failure_.set(name() + " ends as sequence " + std::to_string(id));
    finish = how;
    usage = used;
    error = message;
  }

  bool live() const { return n_finish == 0; }
  std::string name() const { return "sequence " + std::to_string(seq); }

  const RequestScript* script;
  ExpectedAnswer truth;
  SeqId seq = 0;
  int64_t submitted_ns = 0;  // by the engine's clock
  int64_t cancel_at_ns = -1;
  bool cancelled = false;   // we asked for it
  bool in_queue = true;     // no step was for it yet
  bool step_threw = false;  // it was part of a step that threw
  size_t n_heard = 0;
  int n_finish = 0;
  Finish finish = Finish::stop;
  Usage usage;
  std::string error;

 private:
  Failure& failure_;
};

// The prompt and the whole answer.
inline std::vector<Token> tokens_of(const Stream& stream) {
  std::vector<Token> out = prompt_of(*stream.script);
  out.insert(out.end(), stream.truth.tokens.begin(), stream.truth.tokens.end());
  return out;
}

}  // namespace quire::sim
