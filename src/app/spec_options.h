// Who guesses ahead: the options of the commands that generate, what they make of the engine's, and the model or the
// heads that draft.
#pragma once
#include <memory>
#include <string>

#include "app/draft_source.h"
#include "app/wire.h"
#include "engine/engine.h"
#include "model/eagle.h"
#include "model/medusa.h"
#include "spec/proposer.h"
#include "text/token_bridge.h"

namespace quire {

struct SpecChoice {
  std::string mode = "auto";    // auto, off, grammar, ngram, suffix, draft
  std::string draft = {};       // a model, a folder of Medusa heads or of an EAGLE head, mtp or exit:E
  std::string vocabulary = {};  // of a model that drafts: --draft-vocab (draft_vocabulary.h)
  int depth = 0;                // tokens of a guess, 0: as it pays
  int width = 1;                // tokens in the place of its first
  DraftKind kind = {};          // of the draft; apply() finds it out

  // Whether something drafts that --draft names.
  bool has_draft() const { return !draft.empty() && (mode == "auto" || mode == "draft"); }
};
// --spec, --spec-depth, --spec-width, --draft, --draft-vocab.
void declare_spec_options(CommandLine& line, SpecChoice& choice);
// Puts it into the engine's options; the first time it looks what the draft is. Code::invalid names option and range.
Status apply(SpecChoice& choice, EngineOptions& options);
// Of a server, whose requests may have grammars: what these leave no choice about is guessed first, unless nothing is
// to be.
void add_grammars(const SpecChoice& choice, EngineOptions& options);
// No guesses where nobody asked for them and layers keep a state: each takes room for one.
void drop_if_costly(const SpecChoice& choice, const ModelInfo& model, EngineOptions& options);
// What drafts for a model, at most one of them.
struct Drafter {
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;  // of the model, where its tokens are not the target's
  std::unique_ptr<TokenBridge> bridge;   // likewise
  std::unique_ptr<MedusaHeads> heads;
  std::unique_ptr<EagleHead> eagle;
  // It outlives the engine.
  void put_into(EngineEnv& env) const {
    env.draft = model.get();
    env.bridge = bridge.get();
    env.medusa = heads.get();
    env.eagle = eagle.get();
  }
};
// The one that drafts for `target`, on its backend; a model with other tokens comes with a bridge. Code::invalid where
// one of the two has no tokenizer; heads as load_medusa, load_eagle and load_mtp. `target` outlives it. REQUIRES a
// choice that was applied, as draft_source does.
Result<Drafter> load_drafter(const SpecChoice& choice, const ModelOptions& how, const LoadedModel& target);
// Whether a draft's tokens are not the target's; n_target and n_draft: ids that their embeddings have.
bool needs_bridge(const Tokenizer& target, int n_target, const Tokenizer& draft, int n_draft);
// A model that drafts, of `file`, with the tokens that --draft-vocab names: itself where there are none. counts: as
// with_short_head. Errors as draft_vocabulary's and with_short_head's.
Result<std::unique_ptr<Model>> shorten(
    std::unique_ptr<Model> model, const ModelFile& file, const DraftSource& draft, Ops& ops, bool counts);
// Shapes that memory depends on, of an engine whose options have n_ctx and max_draft filled in.
ProposerEnv proposer_shapes(const Model& target, const EngineOptions& options);
// What it takes beside the model's own memory, in an engine that guesses with it.
struct DraftMemory {
  int64_t weights = 0, cache = 0, scratch = 0;
};
DraftMemory draft_memory(const Model& target, const Drafter& drafter, const Engine& engine);
// What drafts, loaded beside a model that is loaded so: as stored.
DraftSource draft_source(const SpecChoice& choice, const ModelOptions& how);

}  // namespace quire
