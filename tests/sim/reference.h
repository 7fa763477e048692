// What a request must answer, from its script alone: the scripted model's definition (engine/test_model.h), the
// sampling definition, and the request's own rules. No engine, no blocks, no batch, no clock.
#pragma once
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "engine/test_model.h"
#include "tests/sim/script.h"

namespace quire::sim {

// Forbids the token before, and fails in the ways that a script asks for.
class ScriptRule final : public LogitsRule {
 public:
  explicit ScriptRule(const RequestScript& request)
      : no_repeats_(request.no_repeats), fault_(request.fault), at_(request.at) {}
  void edits(LogitEdits& out) const override {
    if (no_repeats_ && last_ >= 0) out.sparse.push_back({last_, -1e9F, 1.0F});
    if (n_ != at_) return;
    if (fault_ == RowFault::nan_edit) out.sparse.push_back({3, std::numeric_limits<float>::quiet_NaN(), 1.0F});
    if (fault_ == RowFault::nan_row) out.sparse.push_back({kPoison, 1e6F, 1.0F});
    if (fault_ == RowFault::throw_edits) throw std::runtime_error("edits");
  }
  void accept(Token id) override {
    if (fault_ == RowFault::throw_accept && n_ == at_) throw std::bad_alloc();
    before_.push_back(last_);
    last_ = id;
    ++n_;
  }
  void rollback(int n) override {
    for (n_ -= n; n > 0; --n) {
      last_ = before_.back();
      before_.pop_back();
    }
  }

 private:
  bool no_repeats_;
  RowFault fault_;
  int at_;
  int n_ = 0;
  Token last_ = -1;
  std::vector<Token> before_;  // what last_ was
};

class ScriptEnd final : public EndRule {
 public:
  explicit ScriptEnd(const RequestScript& request)
      : end_after_(request.end_after), fault_(request.fault), at_(request.at) {}
  bool accept(Token) override {
    if (fault_ == RowFault::throw_end && n_ == at_) throw std::runtime_error("end");
    return ++n_ == end_after_;
  }
  void rollback(int) override { QR_CHECK(false, "an end rule hears committed tokens alone"); }

 private:
  int end_after_;
  RowFault fault_;
  int at_;
  int n_ = 0;
};

inline Request request_of(const RequestScript& script) {
  Request out;
  out.prompt = prompt_of(script);
  out.max_tokens = script.max_tokens;
  out.sampling.temperature = script.temperature;
  out.sampling.top_k = script.top_k;
  out.sampling.seed = script.seed;
  if (script.stop_id >= 0) out.stop_ids.push_back(script.stop_id);
  if (script.end_after > 0 || script.fault == RowFault::throw_end) out.end = std::make_unique<ScriptEnd>(script);
  if (script.no_repeats || script.fault != RowFault::none) out.rules.push_back(std::make_unique<ScriptRule>(script));
  out.cache_salt = script.salt;
  out.n_public = n_public_of(script);
  out.priority = script.priority;
  out.tenant = script.tenant;
  out.deadline_ns = script.deadline_ns;
  out.weight = script.weight;
  return out;
}

// The context as the scripted model reads it.
class Context {
 public:
  void take(Token id) {
    past_ = next_past(past_, id);
    state_ = next_state(state_, past_);
    poisoned_ |= id == kPoison;
  }
  void logits(float* out) const { test_logits(state_, poisoned_, out); }

 private:
  uint64_t past_ = 0, state_ = 0;
  bool poisoned_ = false;
};

// Whether the request ends here: stop, length or error are in `out`.
inline bool take_reference_token(Request& request, int n_tokens, int n_ctx, Sampled& sampled, ExpectedAnswer& out) {
  out.finish = sampled.ok ? Finish::stop : Finish::error;
  if (!sampled.ok || std::count(request.stop_ids.begin(), request.stop_ids.end(), sampled.token) > 0) return true;
  bool ended = false;
  try {
    for (const auto& rule : request.rules) rule->accept(sampled.token);
    ended = request.end != nullptr && request.end->accept(sampled.token);
  } catch (const std::exception&) {
    out.finish = Finish::error;
    return true;
  }
  out.tokens.push_back(sampled.token);
  out.logprobs.push_back(sampled.logprob);
  if (ended) return true;
  out.finish = Finish::length;
  return n_tokens + 1 >= n_ctx || static_cast<int>(out.tokens.size()) >= request.max_tokens;
}

inline ExpectedAnswer reference(const RequestScript& script, int n_ctx) {
  Request request = request_of(script);
  ExpectedAnswer out;
  Context context;
  for (const Token id : request.prompt) context.take(id);
  SampleScratch scratch;
  std::vector<float> logits(kTestVocab);
  for (int n = static_cast<int>(request.prompt.size());; ++n) {
    context.logits(logits.data());
    LogitEdits edits;
    Sampled sampled;
    try {
      for (const auto& rule : request.rules) rule->edits(edits);
      test_sample(logits.data(), sample_params(request.sampling, n, &edits), scratch, sampled);
    } catch (const std::exception&) {
      sampled.ok = false;
    }
    if (take_reference_token(request, n, n_ctx, sampled, out)) return out;
    context.take(out.tokens.back());
  }
}

}  // namespace quire::sim
