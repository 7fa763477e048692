// A model without numbers for replays: requests bring their answers along in a rule, and what looks like sampling takes
// the token from there. The scheduler, the cache and the batches are the real ones; keys and values take four bytes.
// Engine thread only.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/request.h"
#include "engine/step_cost.h"
#include "model/model.h"

namespace quire {

// What a request answered. `by_rule`: its end rule ended it with its last token; otherwise a Finish::stop is the first
// of its stop ids.
struct PlayedAnswer {
  std::vector<Token> tokens;
  Finish finish = Finish::length;
  bool by_rule = false;
  int n_vocab = 1;
};

// Puts the rules into `request` that make it answer so; `answer` outlives it. Where it goes on past what was recorded
// (it was cancelled then), its tokens are made up from their positions and *n_invented counts them.
void play(Request& request, const PlayedAnswer& answer, int64_t* n_invented);
// The end rule alone, for the real model.
std::unique_ptr<EndRule> played_end(const PlayedAnswer& answer);

StepShape shape_of(const Batch& batch);

inline constexpr int64_t kPlayTokenBytes = 4;  // of each of its groups

class PlayModel final : public Model {
 public:
  // REQUIRES n_ctx, n_vocab ≥ 1. window 0: none.
  PlayModel(int n_ctx, int n_vocab, uint64_t fingerprint, int window = 0);
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;
  Tensor embed(const Pass& pass) const override;
  Tensor layers(Tensor x, LayerRange range, const Pass& pass) const override;
  Tensor head(Tensor x, const Pass& pass) const override;

  std::function<void(const StepShape&)> on_pass;  // sees every step; may be empty
};

std::unique_ptr<Ops> make_play_ops();

}  // namespace quire
