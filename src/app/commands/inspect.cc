// quire inspect: what a file says, and what the engine would make of it.
#include <cstdio>

#include "app/memory_plan.h"
#include "app/wire.h"
#include "base/json.h"
#include "base/memory.h"
#include "io/describe.h"
#include "io/hf_folder.h"
#include "quant/kv_codec.h"
#include "text/tokenizer_files.h"

namespace quire {
namespace {

struct Args {
  ModelOptions model;
  EngineOptions engine;
  bool json = false;
};

int64_t int_of(const Json* hyper, std::string_view key, int64_t fallback) {
  const Json* value = hyper != nullptr ? hyper->find(key) : nullptr;
  return value != nullptr && value->as_int() != nullptr ? *value->as_int() : fallback;
}

// A Hugging Face folder's whole numbers under the names that cache_facts knows; empty where no architecture is found.
Json neutral_hyper(const std::string& path) {
  Json out(Json::Object{});
  const Result<ModelFile> folder = open_model_metadata(path);
  if (!folder) return out;
  const Result<ModelFile> neutral = neutral_form(*folder);
  if (!neutral) return out;
  const std::string prefix = neutral->meta.get_string_or("general.architecture", "").value_or("") + ".";
  for (const auto& [key, value] : neutral->meta.values) {
    const auto* number = std::get_if<int64_t>(&value);
    if (number != nullptr && key.starts_with(prefix)) out.set(key.substr(prefix.size()), *number);
  }
  return out;
}

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

// Memory of the cache for `ctx` tokens, as the engine would claim it; null where the file does not say enough.
Json cache_facts(const Json* hyper, const KvCodec& codec, int64_t ctx) {
  const int64_t n_layers = int_of(hyper, "block_count", 0);
  const int64_t n_heads = int_of(hyper, "attention.head_count", 0);
  const int64_t n_embd = int_of(hyper, "embedding_length", 0);
  const int64_t n_kv_heads = int_of(hyper, "attention.head_count_kv", n_heads);
  if (ctx == 0) ctx = int_of(hyper, "context_length", 0);
  if (n_layers <= 0 || n_heads <= 0 || n_kv_heads <= 0 || ctx <= 0) return {};
  const int64_t dim = int_of(hyper, "attention.key_length", n_embd / n_heads);
  if (n_layers > 4096 || n_kv_heads > 4096 || dim < 1 || dim > 512 || ctx > int64_t{1} << 28) return {};
  const int64_t token_bytes = n_layers * n_kv_heads * 2 * codec.row_bytes(static_cast<int>(dim));
  Json out;
  out.set("kv_type", codec.name);
  out.set("bytes_per_token", token_bytes);
  out.set("n_ctx", ctx);
  out.set("bytes", token_bytes * ctx);
  return out;
}

// What `quire serve` takes with a cache for that many tokens; null where the engine could not load the model.
Json memory_facts(const Args& args, const std::string& path) {
  const Result<ModelFile> file = open_model(path);
  if (!file) return {};
  EngineOptions options = args.engine;
  const Result<MemoryNeeds> needs = measure_needs(*file, args.model, options);
  if (!needs) return {};
  const int64_t n_ctx = options.n_ctx > 0 ? options.n_ctx : needs->n_ctx;
  Json out;
  out.set("n_ctx", n_ctx);
  out.set("weights", needs->weights);
  out.set("cache", needs->kv_bytes(n_ctx));
  out.set("scratch", needs->scratch);
  out.set("process", needs->process);
  out.set("total", needs->weights + needs->kv_bytes(n_ctx) + needs->scratch + needs->process);
  out.set("available", available_memory());
  return out;
}

void print_memory(const Json& memory) {
  const auto text = [&memory](const char* part) { return memory_text(*memory.find(part)->as_int()); };
  std::printf("memory: %s for %ld tokens (weights %s, cache %s, a step %s, the rest %s); available: %s\n",
              text("total").c_str(), static_cast<long>(*memory.find("n_ctx")->as_int()), text("weights").c_str(),
              text("cache").c_str(), text("scratch").c_str(), text("process").c_str(), text("available").c_str());
}

Status run(const Args& args) {
  QR_TRY(const std::string path, model_path(args.model.model));
  if (args.engine.n_ctx < 0)
    return fail(Code::invalid, "--ctx must be at least 0, got " + std::to_string(args.engine.n_ctx));
  QR_TRY(const LoadOptions how, load_options(args.model));
  QR_TRY(Json description, describe_model(path));
  const bool is_folder = is_hf_folder(path);
  if (is_folder) add_tokenizer(path, description);
  const Json neutral = is_folder ? neutral_hyper(path) : Json();
  Json cache = cache_facts(is_folder ? &neutral : description.find("hyper"), *how.k_codec, args.engine.n_ctx);
  Json memory = memory_facts(args, path);
  if (args.json) {
    if (!cache.is_null()) description.set("cache", std::move(cache));
    if (!memory.is_null()) description.set("memory", std::move(memory));
    std::printf("%s\n", description.dump().c_str());
    return {};
  }
  std::printf("%s", describe_text(description).c_str());
  if (!cache.is_null()) {
    std::printf("cache: %s, %ld bytes per token, %.1f MiB for %ld tokens\n", args.model.kv_type.c_str(),
                static_cast<long>(*cache.find("bytes_per_token")->as_int()), cache.find("bytes")->number() / (1 << 20),
                static_cast<long>(*cache.find("n_ctx")->as_int()));
  }
  if (!memory.is_null()) print_memory(memory);
  return {};
}

QR_REGISTER(Command,
            "inspect",
            Command{"print what a model file says", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("MODEL", args->model.model, false,
                                      "a GGUF file or a Hugging Face folder; none for the bundled model");
                      line.option("--ctx", args->engine.n_ctx,
                                  "tokens to size the cache for, 0 for what the model was trained for");
                      line.option("--kv-type", args->model.kv_type, "how keys and values would be cached");
                      line.option("--weights", args->model.weights,
                                  "matrices would be converted to this format; empty: as stored");
                      line.option("--max-seqs", args->engine.max_seqs,
                                  "as for the server: sequences that run together");
                      line.option("--step-tokens", args->engine.step_tokens,
                                  "as for the server: tokens computed in one step at most");
                      line.flag("--json", args->json, "print one JSON object");
                      return [args] {
                        const Status done = run(*args);
                        return done ? kExitDone : report(done.error());
                      };
                    }});

}  // namespace
}  // namespace quire
