#include "app/spec_options.h"

#include <charconv>

#include "app/draft_vocabulary.h"
#include "app/memory_plan.h"
#include "app/model_name.h"
#include "base/bounded_reader.h"
#include "base/memory.h"
#include "engine/limits.h"
#include "io/in_quotes.h"
#include "model/mtp.h"
#include "model/short_head.h"
#include "spec/several.h"

namespace quire {

// Of a server that guesses nothing else: room for what a few streams can use, and little memory for logits.
static constexpr int kForcedRows = 32;

// Of --draft: the first layers of the target itself; the head that its file carries.
static constexpr std::string_view kExit = "exit:", kMtp = "mtp";

// Whether who guesses was left to us: they give way where that is costly.
static bool gives_way(const SpecChoice& choice) { return choice.mode == "auto" && !choice.has_draft(); }

// 0: it names something else.
static Result<int> exit_layers(std::string_view draft) {
  if (!draft.starts_with(kExit)) return 0;
  const std::string_view digits = draft.substr(kExit.size());
  int n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error == std::errc() && end == digits.data() + digits.size() && n > 0) return n;
  return fail(Code::invalid, "--draft exit:E needs a number of layers of 1 or more, got " + in_quotes(draft));
}

void declare_spec_options(CommandLine& line, SpecChoice& choice) {
  line.option("--spec", choice.mode,
              "who guesses tokens ahead, which changes no answer: draft (what --draft names), ngram (what followed "
              "the same tokens before), suffix (the same, and in earlier answers to requests with the same "
              "cache_salt), grammar "
              "(what a grammar leaves no choice about; in a server the other ways try this first), off, or auto: draft "
              "where --draft names "
              "something, else grammar");
  line.option("--draft", choice.draft,
              "what guesses ahead: a smaller model, a folder of Medusa heads or of an EAGLE head "
              "for this model, mtp, the head that the model's own file carries, or exit:E, its first E layers");
  line.option(
      "--draft-vocab", choice.vocabulary,
      "of a model that drafts, which of its tokens it can guess, so that each guess costs less: the N lowest ids, "
      "or those of \"d2t\" in a file of safetensors (an EAGLE-3 head's, or from tools/train/frequent_tokens.py); "
      "empty: all");
  line.option("--spec-depth", choice.depth, {0, kMostDraft},
              "tokens of every guess, 0: as many as pay, none where none do");
  line.option("--spec-width", choice.width, {1, 1 + kMostSide},
              "tokens that heads guess in the place of a guess's first, of which one can be right; where --spec-depth "
              "is 0 as many of them as pay");
}

static DraftKind kind_of(const std::string& draft) {
  if (draft.starts_with(kExit)) return DraftKind::exit;
  if (draft == kMtp) return DraftKind::mtp;
  if (is_medusa_folder(draft)) return DraftKind::medusa;
  return is_eagle_folder(draft) ? DraftKind::eagle : DraftKind::model;
}

// Who guesses with it.
static std::string proposer_of(DraftKind kind) {
  switch (kind) {
    case DraftKind::none: return "";
    case DraftKind::model: return "draft";
    case DraftKind::medusa: return "medusa";
    case DraftKind::eagle: return "eagle";
    case DraftKind::mtp: return "mtp";
    case DraftKind::exit: return "exit";
  }
  return "";
}

// Whether it guesses several tokens for one place.
static bool guesses_beside(DraftKind kind) {
  return kind == DraftKind::medusa || kind == DraftKind::eagle || kind == DraftKind::mtp;
}

Status apply(SpecChoice& choice, EngineOptions& options) {
  const std::string& mode = choice.mode;
  const bool needs_none = mode == "ngram" || mode == "suffix" || mode == "grammar";
  if (mode != "auto" && mode != "off" && mode != "draft" && !needs_none)
    return fail(Code::invalid, "--spec must be auto, off, grammar, ngram, suffix or draft, got \"" + mode + "\"");
  if (mode == "draft" && choice.draft.empty())
    return fail(Code::invalid,
                "--spec draft needs --draft: a model, a folder of Medusa heads or of an EAGLE head, mtp, or exit:E");
  if (needs_none && !choice.draft.empty())
    return fail(Code::invalid, "--draft is for --spec draft or auto, got --spec " + mode);
  if (!choice.vocabulary.empty() && choice.draft.empty())
    return fail(Code::invalid,
                "--draft-vocab " + choice.vocabulary + ": needs a model that drafts, --draft names none");
  QR_TRY(const int n_first, exit_layers(choice.draft));
  if (choice.has_draft() && choice.kind == DraftKind::none) choice.kind = kind_of(choice.draft);
  if (!choice.vocabulary.empty() && choice.has_draft() && choice.kind != DraftKind::model)
    return fail(Code::invalid,
                "--draft-vocab " + choice.vocabulary + ": needs a model that drafts, got --draft " + choice.draft);
  options.exit_layers = choice.has_draft() ? n_first : 0;
  options.proposer = needs_none ? mode : proposer_of(choice.kind);
  options.max_draft = choice.depth;
  options.max_side = guesses_beside(choice.kind) ? choice.width - 1 : 0;
  options.adapt_draft = choice.depth == 0;
  return {};
}

void add_grammars(const SpecChoice& choice, EngineOptions& options) {
  if (choice.mode == "off" || options.proposer == "grammar") return;
  if (options.proposer.empty()) options.draft_rows = kForcedRows;
  options.proposer = options.proposer.empty() ? "grammar" : "grammar," + options.proposer;
}

void drop_if_costly(const SpecChoice& choice, const ModelInfo& model, EngineOptions& options) {
  if (gives_way(choice) && model.kv_layout.state_bytes() > 0) options.proposer.clear();
}

ProposerEnv proposer_shapes(const Model& target, const EngineOptions& options) {
  ProposerEnv env;
  env.target = &target;
  env.n_ctx = options.n_ctx;
  env.max_seqs = options.max_seqs;
  env.block_tokens = options.block_tokens;
  env.n_out = max_out_rows(options);
  env.n_rows = options.step_tokens;
  env.exit_layers = options.exit_layers;
  return env;
}

DraftMemory draft_memory(const Model& target, const Drafter& drafter, const Engine& engine) {
  const EngineOptions& options = engine.options();
  ProposerEnv env = proposer_shapes(target, options);
  env.draft = drafter.model.get();
  env.medusa = drafter.heads.get();
  env.eagle = drafter.eagle.get();
  DraftMemory out;
  out.scratch = proposer_bytes(options.proposer, {options.max_draft, options.max_side}, env);
  if (drafter.heads != nullptr) out.weights = drafter.heads->weight_bytes;
  const EngineStats stats = engine.stats();
  const int64_t n_tokens = int64_t{stats.n_blocks - stats.n_learned_blocks} * options.block_tokens;
  if (drafter.eagle != nullptr) {
    out.weights = drafter.eagle->weight_bytes;
    out.cache = n_tokens * drafter.eagle->kv_layout.token_bytes();
  }
  if (drafter.model != nullptr) {
    out.weights = drafter.model->info().weight_bytes;
    out.cache = n_tokens * drafter.model->info().kv_layout.token_bytes();
  }
  return out;
}

DraftSource draft_source(const SpecChoice& choice, const ModelOptions& how) {
  DraftSource out{choice.kind, how, how.weights, choice.vocabulary, gives_way(choice)};
  if (choice.kind == DraftKind::none) return out;
  const bool is_own = choice.kind == DraftKind::exit || choice.kind == DraftKind::mtp;
  out.how.model = is_own ? "" : choice.draft;
  out.how.kv_type = "auto";
  if (!is_own) out.how.weights.clear();
  out.how.context_shift.clear();  // it guesses as far as its own context goes
  out.how.ctx = 0;
  return out;
}

bool needs_bridge(const Tokenizer& target, int n_target, const Tokenizer& draft, int n_draft) {
  if (n_draft < n_target || target.n_vocab() != draft.n_vocab()) return true;
  std::string ours, its;
  for (Token id = 0; id < target.n_vocab(); ++id) {
    ours.clear();
    its.clear();
    target.append_bytes(id, true, ours);
    draft.append_bytes(id, true, its);
    if (ours != its) return true;
  }
  return false;
}

Result<std::unique_ptr<Model>> shorten(
    std::unique_ptr<Model> model, const ModelFile& file, const DraftSource& draft, Ops& ops, bool counts) {
  QR_TRY(std::vector<Token> tokens, draft_vocabulary(draft.vocabulary, model->info().n_vocab));
  if (tokens.empty()) return model;
  QR_TRY(const WeightFormat* format, heads_format(file, draft.how));
  return with_short_head(std::move(model), file, std::move(tokens), ops, {format, n_threads(draft.how), counts});
}

namespace {

Result<std::unique_ptr<Tokenizer>> tokenizer_of_draft(const std::string& path) {
  auto tokenizer = load_tokenizer_of(path);
  if (tokenizer || tokenizer.error().code != Code::not_found) return tokenizer;
  return fail(Code::invalid, path + " has no tokenizer: a draft needs one, the model's own or another to go by text");
}

Result<Drafter> load_model_that_drafts(const SpecChoice& choice, const ModelOptions& how, const LoadedModel& target) {
  QR_TRY(const std::string path, model_path(choice.draft));
  Drafter out;
  QR_TRY(out.tokenizer, tokenizer_of_draft(path));
  if (target.tokenizer == nullptr) return fail(Code::invalid, target.path + " has no tokenizer to compare with");
  const DraftSource source = draft_source(choice, how);
  QR_TRY(const ModelFile file, open_model(path));
  QR_TRY_VOID(check_weights_fit(file, source.how));
  QR_TRY(const LoadOptions as, load_options(source.how, &file));
  QR_TRY(out.model, load_model(file, *target.ops, as));
  QR_TRY(out.model, shorten(std::move(out.model), file, source, *target.ops, false));
  QR_TRY_VOID(file.check_unchanged());
  const int n_target = target.model->info().n_vocab, n_draft = out.model->info().n_vocab;
  if (!needs_bridge(*target.tokenizer, n_target, *out.tokenizer, n_draft)) {
    out.tokenizer.reset();
    return out;
  }
  auto bridge = TokenBridge::make({target.tokenizer.get(), n_target}, {out.tokenizer.get(), n_draft});
  if (!bridge) return error_within(path, std::move(bridge).error());
  out.bridge = std::move(*bridge);
  return out;
}

Status check_heads_fit(const std::string& folder, const Result<int64_t>& bytes) {
  if (!bytes) return tl::make_unexpected(bytes.error());
  const int64_t available = available_memory();
  if (*bytes <= available) return {};
  return fail(Code::exhausted,
              folder + ": heads of " + memory_text(*bytes) + " do not fit: there are " + memory_text(available));
}

// As the target was loaded, but for what draft_source() says.
Result<Drafter> load_own_head(const SpecChoice& choice, const ModelOptions& how, const LoadedModel& target) {
  Drafter out;
  const ModelOptions options = draft_source(choice, how).how;
  QR_TRY(const ModelFile file, open_model(target.path));
  QR_TRY(const LoadOptions as, load_options(options, &file));
  QR_TRY(out.model, load_mtp(file, *target.model, *target.ops, as));
  QR_TRY_VOID(file.check_unchanged());
  return out;
}

Result<Drafter> load_heads(const SpecChoice& choice, const ModelOptions& how, const LoadedModel& target) {
  const std::string& folder = choice.draft;
  const ModelInfo& info = target.model->info();
  Drafter out;
  QR_TRY(const ModelFile file, open_model(target.path));
  QR_TRY(const WeightFormat* format, heads_format(file, how));
  if (choice.kind == DraftKind::medusa) {
    QR_TRY_VOID(check_heads_fit(folder, medusa_bytes(folder)));
    QR_TRY(out.heads, load_medusa(folder, info, *target.ops, format));
    return out;
  }
  QR_TRY_VOID(check_heads_fit(folder, eagle_bytes(folder)));
  QR_TRY(LoadOptions as, load_options(draft_source(choice, how).how, &file));
  as.weights = format;
  QR_TRY(out.eagle, load_eagle(folder, {info, &file, &as}, *target.ops));
  QR_TRY_VOID(file.check_unchanged());
  return out;
}

}  // namespace

Result<Drafter> load_drafter(const SpecChoice& choice, const ModelOptions& how, const LoadedModel& target) {
  if (choice.kind == DraftKind::none || choice.kind == DraftKind::exit) return Drafter{};
  if (choice.kind == DraftKind::medusa || choice.kind == DraftKind::eagle) {
    auto heads = load_heads(choice, how, target);
    if (!heads) return error_within("--draft", std::move(heads).error());
    return std::move(*heads);
  }
  auto out =
      choice.kind == DraftKind::mtp ? load_own_head(choice, how, target) : load_model_that_drafts(choice, how, target);
  if (!out) return error_within("--draft " + choice.draft, std::move(out).error());
  return out;
}

}  // namespace quire
