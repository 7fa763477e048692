// A step's pass over the model: the plan as a batch, through embedding, layers and head to one sampled token per row of
// output, and what prompts want beside. It decides nothing and advances nobody. Owns the step's arena. One engine's;
// engine thread.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/laps.h"
#include "engine/plan.h"
#include "engine/pooling.h"
#include "engine/prompt_scores.h"
#include "engine/row_params.h"
#include "engine/virtual_tokens.h"
#include "ops/ahead_ops.h"
#include "spec/proposer.h"
#include "tensor/arena.h"

namespace quire {

class StepPass {
 public:
  // `model`, `ops` and `options` outlive it. `scratch`: as scratch_bytes says.
  StepPass(const Model& model, Ops& ops, const EngineOptions& options, Buffer scratch)
      : model_(model), ops_(ops), options_(options), tables_(scratch.tables()), arena_(std::move(scratch)) {
    reserve();
  }

  // Takes memory for steps that overlap; false, and nothing is kept: there is none for them.
  bool prepare_ahead();
  // For the plan and for one behind it, of the same sequences.
  bool has_room_ahead(const Plan& plan) const { return plan.n_out <= n_sent_rows_ && fit_tables(plan); }

  // From now on runs write to these; they outlive it.
  void tap_into(std::span<const Tap> taps, std::span<const StreamTap> all_rows) {
    taps_ = taps;
    all_rows_ = all_rows;
  }
  // An error is the device's. Throws what the pass throws (no memory, say). Nothing of it counts then, and whoever
  // catches calls abandon().
  Status run(const Plan& plan, const KvView& kv, Laps& laps);
  // The same in two parts, of a plan whose rows of output are one of each grant, behind prepare_ahead(): another may be
  // asked for between them, and two at most. Its ids may be those that the one asked for before picks
  // (Grant::ids_from). What was dropped of the plan in between is not sampled. An error in one means that neither
  // counts; one is that another token was picked than is sampled.
  void ask(const Plan& plan, const KvView& kv, Laps& laps);
  Status take(const Plan& plan, Laps& laps);
  // Waits for all that was asked for.
  void abandon() {
    static_cast<void>(ops_.take_error());
    n_taken_ = n_asked_;
  }
  // Writes the plan's rows, of one sequence that has virtual tokens alone.
  void write(const Plan& plan, const KvView& kv, const VirtualTokens& tokens);
  const Status& written() const { return written_; }  // whether all of that could be done
  // One for each row of output of the last run, in plan order.
  std::span<Sampled> sampled() { return std::span(sampled_).first(n_sampled_); }
  // Tells the sinks what the prompts' rows gave; before their answers' tokens.
  void emit_prompts() {
    scores_.emit(prompt_rows_.scored);
    pooling_.emit(prompt_rows_.pooled);
  }

 private:
  void reserve();
  Tensor layers(Tensor x, const Pass& pass);
  bool fit_tables(const Plan& plan) const;
  StepRows sent(int slot, int first, int64_t n) const;

  const Model& model_;
  Ops& ops_;
  HostAhead host_ahead_{ops_};
  AheadOps& ahead_ = ops_.ahead() != nullptr ? *ops_.ahead() : host_ahead_;
  const EngineOptions& options_;
  const Tables* tables_;  // the arena's; null: it has none
  Arena arena_;
  Status written_;
  std::span<const Tap> taps_;
  std::span<const StreamTap> all_rows_;
  // Reused from step to step, and as large as a step's may be: a step that needs more than the last one needs no memory
  // for it, which all others of the step would miss too.
  RowParams params_;
  std::vector<Sampled> sampled_;
  size_t n_sampled_ = 0;
  // Of steps that overlap: what the last one picked, and the logits of two, in turns.
  Buffer picked_;
  std::array<Buffer, 2> sent_;
  int n_sent_rows_ = 0;
  int64_t n_asked_ = 0, n_taken_ = 0;
  PromptRows prompt_rows_;
  PromptScores scores_;
  Pooling pooling_;
};

}  // namespace quire
