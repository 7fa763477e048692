// quire inspect: what a file says, and what the engine would make of it.
#include <cstdio>

#include "app/context_shift.h"
#include "app/memory_plan.h"
#include "app/progress.h"
#include "app/spec_options.h"
#include "app/wire.h"
#include "base/bounded_reader.h"
#include "base/json.h"
#include "base/memory.h"
#include "engine/limits.h"
#include "engine/option_ranges.h"
#include "io/describe.h"
#include "io/hf_folder.h"
#include "quant/kv_codec.h"
#include "quant/verify.h"
#include "text/tokenizer_files.h"

namespace quire {
namespace {

struct Args {
  ModelOptions model;
  EngineOptions engine;
  SpecChoice spec;
  bool json = false, verify = false;
};

// What a folder's tokenizer files make; the GGUF reader describes its own.
void add_tokenizer(const std::string& path, Json& description) {
  if (!has_tokenizer_files(path)) return;
  const auto tokenizer = load_tokenizer(path);
  Json out;
  if (tokenizer) {
    out.set("model", (*tokenizer)->spec().model);
    out.set("n_tokens", (*tokenizer)->n_vocab());
    out.set("chat_template_bytes", static_cast<int64_t>((*tokenizer)->spec().chat_template.size()));
  } else {
    out.set("error", tokenizer.error().message);
  }
  description.set("tokenizer", std::move(out));
}

// Memory of the cache for one sequence of `ctx` tokens, as the engine would claim it; null where there is no model in
// the file that this program knows.
Json cache_facts(const ModelFile& file, LoadOptions load, int ctx) {
  load.n_ctx = ctx;
  const Result<ModelInfo> info = model_info(file, load);
  if (!info) return {};
  const KvLayout& layout = info->kv_layout;
  EngineOptions options;
  options.n_ctx = ctx > 0 ? ctx : info->n_ctx;
  Json out;
  out.set("kv_type", load.k_codec->name);
  out.set("bytes_per_token", layout.token_bytes(0));
  int64_t n_tail = 0;  // bytes of a token that is not packed yet
  for (int g = 1; g < layout.n_groups(); ++g) {
    if (layout.group(g).kind == KvGroup::Kind::state) continue;
    if (layout.group(g).is_private) {
      n_tail += layout.token_bytes(g);
      out.set("tail_bytes_per_token", n_tail);
      continue;
    }
    out.set("window", layout.group(g).window);
    out.set("window_bytes_per_token", layout.token_bytes(g));
  }
  if (layout.state_bytes() > 0) {
    out.set("bytes_per_state", layout.state_bytes());
    out.set("n_states", kStatesPerSequence);
  }
  out.set("n_ctx", options.n_ctx);
  out.set("bytes", cache_bytes(options, layout, 1));
  out.set("bytes_without_windows", (layout.token_bytes() - n_tail) * options.n_ctx);
  return out;
}

// What `quire serve` takes with a cache for that many tokens; null where the engine could not load the model. What
// drafts has to be there.
Result<Json> memory_facts(const Args& args, const ModelFile& file) {
  const bool drafts = args.spec.has_draft();
  const DraftSource draft = draft_source(args.spec, args.model);
  const Result<MemoryNeeds> needs = measure_needs(file, args.model, args.engine, draft);
  if (!needs && drafts) return error_within("--draft " + args.spec.draft, needs.error());
  if (!needs) return Json();
  const int64_t n_ctx = args.engine.n_ctx > 0 ? args.engine.n_ctx : needs->n_ctx;
  const int64_t draft_cache = needs->draft.kv_bytes(n_ctx, needs->block_tokens);
  Json out;
  out.set("n_ctx", n_ctx);
  out.set("weights", needs->weights - needs->draft.weights);
  out.set("cache", needs->kv_bytes(n_ctx) - draft_cache);
  out.set("scratch", needs->scratch - needs->draft.scratch);
  if (drafts) {
    Json its;
    its.set("weights", needs->draft.weights);
    its.set("cache", draft_cache);
    its.set("scratch", needs->draft.scratch);
    out.set("draft", std::move(its));
  }
  out.set("process", needs->process);
  out.set("total", needs->weights + needs->kv_bytes(n_ctx) + needs->scratch + needs->process);
  out.set("available", available_memory());
  return out;
}

void print_memory(const Json& memory) {
  const auto text = [](const Json& of, const char* part) { return memory_text(*of.find(part)->as_int()); };
  const auto parts = [&text](const Json& of) {
    return "weights " + text(of, "weights") + ", cache " + text(of, "cache") + ", a step " + text(of, "scratch");
  };
  const Json* draft = memory.find("draft");
  std::printf("memory: %s for %ld tokens (%s%s, the rest %s); available: %s\n", text(memory, "total").c_str(),
              static_cast<long>(*memory.find("n_ctx")->as_int()), parts(memory).c_str(),
              draft == nullptr ? "" : ("; what drafts: " + parts(*draft)).c_str(), text(memory, "process").c_str(),
              text(memory, "available").c_str());
}

void print_cache(const Json& cache) {
  const auto whole = [&](std::string_view key) { return static_cast<long>(*cache.find(key)->as_int()); };
  const auto mib = [&](std::string_view key) { return cache.find(key)->number() / (1 << 20); };
  std::printf("cache: %s, %ld bytes per token, %.1f MiB for %ld tokens\n",
              std::string(*cache.find("kv_type")->as_string()).c_str(), whole("bytes_per_token"), mib("bytes"),
              whole("n_ctx"));
  if (cache.find("bytes_per_state") != nullptr) {
    std::printf("       with %ld states of %.1f MiB, whatever the length\n", whole("n_states"), mib("bytes_per_state"));
  }
  if (cache.find("tail_bytes_per_token") != nullptr) {
    std::printf("       with %ld bytes more for each token of a step, and of blocks that are not full\n",
                whole("tail_bytes_per_token"));
  }
  if (cache.find("window") == nullptr) return;
  std::printf("       with %ld bytes more for each of the last %ld tokens; %.1f MiB if these layers kept every token\n",
              whole("window_bytes_per_token"), whole("window"), mib("bytes_without_windows"));
}

// Reads every number of every tensor; a line for each tensor that holds one that is none.
Status verify(const std::string& path, int n_threads) {
  QR_TRY(const ModelFile file, open_model(path));
  int64_t bytes = 0;
  int64_t n_bad = 0;
  Progress progress(path, file.file_bytes, Progress::Unit::bytes);
  for (const HostWeight& weight : file.tensors) {
    const BadNumbers bad = find_bad_numbers(weight, n_threads);
    file.release(weight);
    bytes += weight.stored_bytes();
    progress.update(bytes);
    if (bad.count == 0) continue;
    ++n_bad;
    std::printf("%s: %ld of %ld numbers are not finite; the first is %g in row %ld, column %ld\n", weight.name.c_str(),
                static_cast<long>(bad.count), static_cast<long>(weight.n_rows() * weight.n_cols()),
                static_cast<double>(bad.value), static_cast<long>(bad.row), static_cast<long>(bad.column));
  }
  QR_TRY_VOID(file.check_unchanged());
  if (n_bad > 0) {
    return fail(Code::corrupt, path + ": " + std::to_string(n_bad) + " of " + std::to_string(file.tensors.size()) +
                                   " tensors hold numbers that are not finite");
  }
  std::printf("%s: %zu tensors, %ld bytes, every number is finite\n", path.c_str(), file.tensors.size(),
              static_cast<long>(bytes));
  return {};
}

Status run(Args& args) {
  QR_TRY(const std::string path, model_path(args.model.model));
  if (args.verify) return verify(path, n_threads(args.model));
  if (args.engine.n_ctx < 0)
    return fail(Code::invalid, "--ctx must be at least 0, got " + std::to_string(args.engine.n_ctx));
  QR_TRY_VOID(load_options(args.model, nullptr));  // a wrong one is told before the file is opened
  QR_TRY_VOID(apply(args.spec, args.engine));
  add_grammars(args.spec, args.engine);
  QR_TRY(Json description, describe_model(path));
  if (is_hf_folder(path)) add_tokenizer(path, description);
  Json cache, memory;
  if (const Result<ModelFile> file = open_model(path)) {
    QR_TRY(const LoadOptions how, load_options(args.model, &*file));
    cache = cache_facts(*file, how, args.engine.n_ctx);
    QR_TRY(memory, memory_facts(args, *file));
  }
  if (args.json) {
    if (!cache.is_null()) description.set("cache", cache);
    if (!memory.is_null()) description.set("memory", std::move(memory));
    std::printf("%s\n", description.dump().c_str());
    return {};
  }
  std::printf("%s", describe_text(description).c_str());
  if (!cache.is_null()) print_cache(cache);
  if (!memory.is_null()) print_memory(memory);
  return {};
}

QR_REGISTER(
    Command,
    "inspect",
    Command{
        "print what a model file says", false, [](CommandLine& line) -> std::function<int()> {
          auto args = std::make_shared<Args>();
          line.positional(
              "MODEL", args->model.model, false,
              "a GGUF file, a Hugging Face folder, or ORG/NAME[:TAG] of a hub, which is pulled; none: SmolLM2-135M");
          line.option("--ctx", args->engine.n_ctx, {2, kMostContext, 0},
                      "tokens to size the cache for, 0 for what the model was trained for");
          line.option("--kv-type", args->model.kv_type, "how keys and values would be cached");
          declare_shift_option(line, args->model);
          line.option("--weights", args->model.weights, "matrices would be converted to this format; empty: as stored");
          line.option("--max-seqs", args->engine.max_seqs, {1, kMostSeqs},
                      "as for the server: sequences that run together");
          line.option("--step-tokens", args->engine.step_tokens, {1, kMostStepTokens},
                      "as for the server: tokens computed in one step at most");
          declare_spec_options(line, args->spec);
          line.flag("--verify", args->verify,
                    "read every tensor instead and name those with numbers that are not finite");
          line.flag("--json", args->json, "print one JSON object");
          return [args] { return exit_code(run(*args)); };
        }});

}  // namespace
}  // namespace quire
