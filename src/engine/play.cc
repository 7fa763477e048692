#include "engine/play.h"

#include <algorithm>

#include "base/rng.h"
#include "ops/no_ops.h"

namespace quire {
namespace {

constexpr Token kFails = -2;  // as the wanted token: the row could not be sampled

class PlayRule final : public LogitsRule {
 public:
  PlayRule(const PlayedAnswer& answer, Token stop, int64_t* n_invented)
      : answer_(answer), stop_(stop), n_invented_(n_invented) {}
  void edits(LogitEdits& out) const override { out.sparse.assign(1, {next(), 0.0F, 1.0F}); }
  void accept(Token) override {
    if (n_++ >= answer_.tokens.size()) ++*n_invented_;
  }
  void rollback(int n) override {
    for (; n > 0; --n) {
      if (--n_ >= answer_.tokens.size()) --*n_invented_;
    }
  }

 private:
  Token next() const {
    if (n_ < answer_.tokens.size()) return answer_.tokens[n_];
    if (n_ == answer_.tokens.size() && answer_.finish == Finish::stop && stop_ >= 0) return stop_;
    if (n_ == answer_.tokens.size() && answer_.finish == Finish::error) return kFails;
    return static_cast<Token>(mix64(n_) % static_cast<uint64_t>(answer_.n_vocab));
  }
  const PlayedAnswer& answer_;
  Token stop_;
  int64_t* n_invented_;
  size_t n_ = 0;
};

class PlayEnd final : public EndRule {
 public:
  explicit PlayEnd(const PlayedAnswer& answer) : answer_(answer) {}
  bool accept(Token) override { return ++n_ == answer_.tokens.size() && answer_.by_rule; }
  void rollback(int n) override { n_ -= static_cast<size_t>(n); }

 private:
  const PlayedAnswer& answer_;
  size_t n_ = 0;
};

class PlayOps final : public NoOps {
 public:
  std::string describe() const override { return "replay"; }
  Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes); }
  void sample(std::span<Sampled> out, Tensor, std::span<const SampleParams> params) override {
    for (size_t i = 0; i < out.size(); ++i) {
      const LogitEdits* edits = params[i].edits;
      out[i] = Sampled{};
      if (edits == nullptr || edits->sparse.empty()) continue;
      out[i].token = edits->sparse.back().id;
      out[i].ok = out[i].token != kFails;
    }
  }
};

}  // namespace

void play(Request& request, const PlayedAnswer& answer, int64_t* n_invented) {
  const bool by_id = answer.finish == Finish::stop && !answer.by_rule && !request.stop_ids.empty();
  const Token stop = by_id ? request.stop_ids.front() : -1;
  const int scored = std::min(request.sampling.n_prompt_logprobs, 0);  // such a request matches nothing
  request.sampling = SamplingParams{};
  request.sampling.n_prompt_logprobs = scored;
  request.rules.clear();
  request.rules.push_back(std::make_unique<PlayRule>(answer, stop, n_invented));
  request.end = played_end(answer);
  if (!by_id) request.stop_ids.clear();  // an invented token must not end it
}

std::unique_ptr<EndRule> played_end(const PlayedAnswer& answer) { return std::make_unique<PlayEnd>(answer); }

std::unique_ptr<Ops> make_play_ops() { return std::make_unique<PlayOps>(); }

StepShape shape_of(const Batch& batch) {
  StepShape out;
  const auto* cu_q = batch.attn.cu_q.ptr<int32_t>();
  const std::span<const int32_t> out_rows = batch.out_rows.span<int32_t>();
  size_t n_out = 0;
  for (int64_t s = 0; s + 1 < batch.attn.cu_q.dim(0); ++s) {
    const size_t before = n_out;
    while (n_out < out_rows.size() && out_rows[n_out] < cu_q[s + 1]) ++n_out;
    const int n_drafted = std::max(static_cast<int>(n_out - before) - 1, 0);
    out += StepShape::rows(batch.pos.ptr<int32_t>()[cu_q[s]], cu_q[s + 1] - cu_q[s], n_drafted);
  }
  return out;
}

PlayModel::PlayModel(int n_ctx, int n_vocab, uint64_t fingerprint, int window) {
  info_.arch = info_.name = "replay";
  info_.n_layers = 1;
  info_.n_vocab = n_vocab;
  info_.n_ctx = n_ctx;
  info_.fingerprint = fingerprint;
  info_.strip_tokens = 1;
  info_.kv_layout.claim(KvGroup{}, kPlayTokenBytes);
  if (window > 0) info_.kv_layout.claim({KvGroup::Kind::window, window}, kPlayTokenBytes);
}

int64_t PlayModel::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  return (n_tokens + 3 * n_out) * 4 + 6 * Arena::kAlign;  // prompts that are scored have rows of output before
}

Tensor PlayModel::embed(const Pass& pass) const { return pass.arena->alloc(DType::f32, {pass.batch->ids.dim(0), 1}); }

Tensor PlayModel::layers(Tensor x, LayerRange, const Pass& pass) const {
  if (on_pass) on_pass(shape_of(*pass.batch));
  return x;
}

Tensor PlayModel::head(Tensor, const Pass& pass) const {
  return pass.arena->alloc(DType::f32, {pass.batch->out_rows.dim(0), 1});
}

}  // namespace quire
