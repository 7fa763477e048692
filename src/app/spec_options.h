// Who guesses ahead: the options of the commands that generate, what they make of the engine's, and the model that
// drafts.
#pragma once
#include <memory>
#include <string>

#include "app/wire.h"
#include "engine/engine.h"

namespace quire {

struct SpecChoice {
  std::string mode = "auto";  // auto, off, ngram, draft
  std::string draft = {};     // a model
  int depth = 0;              // tokens of a guess, 0: as it pays

  // Whether a model drafts.
  bool has_draft() const { return !draft.empty() && (mode == "auto" || mode == "draft"); }
};
// --spec, --spec-depth, --draft.
void declare_spec_options(CommandLine& line, SpecChoice& choice);
// Puts it into the engine's options. Code::invalid names option and range.
Status apply(const SpecChoice& choice, EngineOptions& options);
// The model that drafts for `target`, on its backend; null where none does. Code::invalid where the two have not the
// same tokens, with the first that differs. `target` outlives it.
Result<std::unique_ptr<Model>> load_draft(const SpecChoice& choice, const ModelOptions& how, const LoadedModel& target);
// How a draft is loaded beside a model that is loaded so: as stored.
ModelOptions draft_options(const SpecChoice& choice, const ModelOptions& how);
// Code::invalid names the first token that is another.
Status check_same_tokens(const Tokenizer& target, const Tokenizer& draft);

}  // namespace quire
