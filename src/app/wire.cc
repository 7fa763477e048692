#include "app/wire.h"

#include "app/carried_tokenizer.h"
#include "app/context_shift.h"
#include "app/memory_plan.h"
#include "app/progress.h"
#include "app/tokenizer_hash.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cuda/cuda_ops.h"
#include "backend/ref/ref_ops.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "model/gguf_form.h"
#include "model/weight_loader.h"
#include "quant/kv_codec.h"
#include "text/tokenizer_files.h"

namespace quire {

void declare_model_options(CommandLine& line, ModelOptions& options) {
  line.positional(
      "MODEL", options.model, false,
      "a GGUF file, a Hugging Face folder, or ORG/NAME[:TAG] of a hub, which is pulled; none: SmolLM2-135M");
  line.option("--backend", options.backend,
              "auto, cpu, cuda, cuda-tensor (BF16 by tensor cores, with bits of its own) or ref (plain loops, slow)");
  line.option("--isa", options.isa,
              "cpu kernels: scalar, avx2, avx512, avx512_bf16 or amx; empty for the fastest that run here");
  line.option("--threads", options.threads, kThreads,
              "compute threads, 0 for one on each physical core that this process may use");
  line.option("--kv-type", options.kv_type,
              "how keys and values are cached: f16, bf16, q8 (half of it), k8v4 (three eighths), f32, f8, q4 and kivi2 "
              "(for research), or auto: bf16 for BF16 weights, else f16");
  line.option("--weights", options.weights,
              "convert matrices to this format while loading, such as q8_0 or bf16; empty: as stored");
}

namespace {

// What this program has to know of a backend; the first one is what "auto" means.
struct Backend {
  std::string_view name;
  Result<std::unique_ptr<Ops>> (*make)(const ModelOptions& options);
  int (*n_threads)(const ModelOptions& options);
  Result<UnitPeak> (*probe)(const ModelOptions& options);
  int64_t (*linear_bytes)(const WeightFormat& format, int64_t n_out, int64_t n_in);
  // For layers like these; null: it has everything.
  Status (*check_has)(std::span<const AttnParams> attention) = nullptr;
  // Of a device's memory; −1: there is no device. Null: it computes in the system's.
  int64_t (*free_bytes)() = nullptr;
};

CpuOptions cpu_options(const ModelOptions& options) { return {.n_threads = options.threads, .isa = options.isa}; }

Result<UnitPeak> probe_cpu(const ModelOptions& options) {
  QR_TRY(const CpuPeak peak, measure_cpu_peak(cpu_options(options)));
  return UnitPeak{peak.int8, peak.f32, peak.bf16, peak.fork_ns};
}

constexpr Backend cuda_backend(std::string_view name,
                               Result<std::unique_ptr<Ops>> (*make)(const ModelOptions& options)) {
  return {.name = name,
          .make = make,
          .n_threads = [](const ModelOptions&) { return 1; },
          .probe = [](const ModelOptions&) -> Result<UnitPeak> { return UnitPeak{}; },
          .linear_bytes = cuda_linear_bytes,
          .check_has = check_cuda_has,
          .free_bytes = cuda_free_bytes};
}

template <CudaArithmetic kArithmetic>
Result<std::unique_ptr<Ops>> make_cuda(const ModelOptions&) {
  return make_cuda_ops(cpu_sample_kernels(), kArithmetic);
}

constexpr Backend kBackends[] = {
    {.name = "cpu",
     .make = [](const ModelOptions& options) { return make_cpu_ops(cpu_options(options)); },
     .n_threads = [](const ModelOptions& options) { return options.threads > 0 ? options.threads : n_usable_cores(); },
     .probe = probe_cpu,
     .linear_bytes = cpu_linear_bytes},
    cuda_backend("cuda", make_cuda<CudaArithmetic::portable>),
    cuda_backend("cuda-tensor", make_cuda<CudaArithmetic::tensor>),
    {.name = "ref",
     .make = [](const ModelOptions&) -> Result<std::unique_ptr<Ops>> { return make_ref_ops(); },
     .n_threads = [](const ModelOptions&) { return 1; },
     .probe = [](const ModelOptions&) -> Result<UnitPeak> { return UnitPeak{}; },
     .linear_bytes = [](const WeightFormat&, int64_t n_out, int64_t n_in) { return n_out * n_in * 4; }},
};

const Backend* find_backend(std::string_view name) {
  if (name == "auto") return kBackends;
  const auto* found = std::ranges::find(kBackends, name, &Backend::name);
  return found != std::end(kBackends) ? found : nullptr;
}

// Of options that make_ops() may have refused, or will.
const Backend& backend_of(const ModelOptions& options) {
  const Backend* found = find_backend(options.backend);
  return found != nullptr ? *found : *kBackends;
}

}  // namespace

// The options that say what computes.
static Status check_machine(const ModelOptions& options) {
  if (find_backend(options.backend) == nullptr) {
    std::string known = "auto";
    for (const Backend& backend : kBackends) {
      known += (&backend == std::end(kBackends) - 1 ? " or " : ", ") + std::string(backend.name);
    }
    return fail(Code::invalid, "--backend must be " + known + ", got \"" + options.backend + "\"");
  }
  const std::vector<std::string> isas = usable_isas();
  if (options.isa.empty() || std::ranges::find(isas, options.isa) != isas.end()) return {};
  std::string known;
  for (const std::string& isa : isas) known += " " + isa;
  return fail(Code::unsupported, "--isa \"" + options.isa + "\" is not available here; there are:" + known);
}

Result<std::unique_ptr<Ops>> make_ops(const ModelOptions& options) {
  QR_TRY_VOID(check_machine(options));
  return backend_of(options).make(options);
}

int n_threads(const ModelOptions& options) { return backend_of(options).n_threads(options); }

Result<UnitPeak> probe_peak(const ModelOptions& options) { return backend_of(options).probe(options); }

// Bytes that are left of the backend's own memory, −1: it has none.
static int64_t own_memory_of(const ModelOptions& options) {
  const Backend& backend = backend_of(options);
  return backend.free_bytes != nullptr ? backend.free_bytes() : -1;
}

int64_t memory_of(const ModelOptions& options) {
  const int64_t own = own_memory_of(options);
  return own < 0 ? available_memory() : own;
}

bool has_own_memory(const ModelOptions& options) { return own_memory_of(options) >= 0; }

int64_t linear_bytes(const ModelOptions& options, const WeightFormat& format, int64_t n_out, int64_t n_in) {
  return backend_of(options).linear_bytes(format, n_out, n_in);
}

std::vector<std::string> usable_isas() { return cpu_isas(); }

namespace {

Result<const WeightFormat*> wanted_weights(const ModelOptions& options) {
  if (options.weights.empty()) return nullptr;
  if (const WeightFormat* format = find_weight_format(options.weights)) return format;
  std::string known;
  for (const WeightFormat* f : weight_formats()) known += " " + std::string(f->name);
  return fail(Code::invalid, "--weights \"" + options.weights + "\" is unknown; there are:" + known);
}

// The ids that end a sequence by a folder's generation_config.json, or else its config.json, or as carried along.
std::vector<Token> end_ids(const Metadata& meta, int n_vocab) {
  const MetaValue* value = nullptr;
  for (const std::string_view key :
       {std::string_view("hf_generation.eos_token_id"), std::string_view("hf.eos_token_id"), kEndTokensKey}) {
    value = value == nullptr ? meta.find(key) : value;
  }
  std::vector<int64_t> ids;
  if (value != nullptr && std::get_if<int64_t>(value) != nullptr) ids = {std::get<int64_t>(*value)};
  if (value != nullptr && std::get_if<std::vector<int64_t>>(value) != nullptr) {
    ids = std::get<std::vector<int64_t>>(*value);
  }
  std::vector<Token> out;
  for (const int64_t id : ids) {
    if (id >= 0 && id < n_vocab) out.push_back(static_cast<Token>(id));
  }
  return out;
}

// Where a tokenizer comes from: a folder's files, tokenizer.json and what stands beside it, or as carried along by a
// file; without any, the file's own facts, where it has some.
struct TokenizerSource {
  TokenizerFiles files;
  bool is_spec = false;
};

Result<TokenizerSource> tokenizer_source(const ModelFile& file) {
  TokenizerSource source{.files = tokenizer_files_in(file.meta)};
  const bool carried = source.files.size() > 1;
  source.is_spec = file.has_tokenizer && !carried;
  if (source.is_spec) {
    source.files.clear();
  } else if (file.is_hugging_face && has_tokenizer_files(file.path)) {
    QR_TRY(source.files, read_tokenizer_files(file.path));
  }
  return source;
}

// Null where the file or folder has none. Takes the file's facts.
Result<std::unique_ptr<Tokenizer>> make_tokenizer_of(ModelFile& file, const TokenizerSource& source) {
  if (!source.is_spec && source.files.empty()) return nullptr;
  std::unique_ptr<Tokenizer> tokenizer;
  if (source.is_spec) {
    QR_TRY(tokenizer, make_tokenizer(std::move(file.tokenizer)));
  } else {
    QR_TRY(tokenizer, load_tokenizer(source.files));
  }
  tokenizer->add_ends(end_ids(file.meta, tokenizer->n_vocab()));
  return tokenizer;
}

Hash128 hash_of_tokenizer(const ModelFile& file, const TokenizerSource& source) {
  const std::vector<Token> ends = end_ids(file.meta, std::numeric_limits<int>::max());
  if (source.is_spec) return tokenizer_hash(file.tokenizer, ends);
  return source.files.empty() ? Hash128{} : tokenizer_hash(source.files, ends);
}

// Whether most of its weights will be in formats that are so.
bool most_are(bool WeightFormat::* what, const ModelFile& file, const LoadOptions& how) {
  int64_t balance = 0;
  for (const HostWeight& weight : file.tensors) {
    const int64_t n = weight.n_rows() * weight.n_cols();
    balance += loaded_format(weight, how).*what ? n : -n;
  }
  return balance > 0;
}

// What rounds no more than the products of the weights do.
const KvCodec* codec_for(const ModelFile& file, const LoadOptions& how) {
  return find_kv_codec(most_are(&WeightFormat::rounded, file, how) ? "bf16" : "f16");
}

// Of what can be made again; empty where the environment names none.
std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/quire";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/quire" : "";
}

// A codec's name, or "k=NAME,v=NAME" for one that has keys and values in these forms.
const KvCodec* named_codec(std::string_view given) {
  const size_t comma = given.find(",v=");
  if (!given.starts_with("k=") || comma == std::string_view::npos) return find_kv_codec(given);
  return find_kv_codec(given.substr(2, comma - 2), given.substr(comma + 3));
}

}  // namespace

Result<const WeightFormat*> heads_format(const ModelFile& file, const ModelOptions& options) {
  QR_TRY(const LoadOptions how, load_options(options, &file));
  return most_are(&WeightFormat::integer, file, how) ? find_weight_format("q8_0") : nullptr;
}

Result<LoadOptions> load_options(const ModelOptions& options, const ModelFile* file) {
  QR_TRY_VOID(check_machine(options));
  const bool is_auto = options.kv_type == "auto";
  const KvCodec* codec = named_codec(options.kv_type);
  if (codec == nullptr && !is_auto) {
    std::string known = " auto";
    for (const KvCodec* c : kv_codecs()) {
      known += " " + std::string(c->name);
      if (c->keys != c->values) known += " (k=" + std::string(c->keys) + ",v=" + std::string(c->values) + ")";
    }
    return fail(Code::invalid, "--kv-type \"" + options.kv_type + "\" is unknown; there are:" + known);
  }
  LoadOptions how{codec, codec};
  QR_TRY(how.weights, wanted_weights(options));
  QR_TRY(how.shift, parse_context_shift(options.context_shift));
  how.n_ctx = options.ctx;
  how.n_threads = n_threads(options);
  if (is_auto && file != nullptr) how.k_codec = how.v_codec = codec_for(*file, how);
  return how;
}

namespace {

// What a codec that was asked for loses.
void warn_of(const KvCodec& codec) {
  const std::string asked = "--kv-type " + std::string(codec.name);
  if (codec.for_research) {
    log_warn(asked + " is for research: some models answer nonsense with it (docs/kv.md); q8 and k8v4 are not");
  } else if (codec.keys != codec.values) {  // values of four bits
    log_warn(asked + " costs some models a little over 1 % of perplexity (docs/kv.md); q8 does not");
  }
}

void warn_of_context(const std::string& path, const ModelInfo& info, int n_ctx) {
  if (info.shift.is_on() || info.n_ctx == 0 || n_ctx <= info.n_ctx) return;
  log_warn("--ctx " + std::to_string(n_ctx) + ": " + path + " was trained for " + std::to_string(info.n_ctx) +
           " positions; what it writes beyond is often nonsense");
}

Result<LoadedModel> load_file(const ModelOptions& options, ModelFile file, WrapOps wrap) {
  QR_TRY(LoadOptions how, load_options(options, &file));
  warn_of(*how.k_codec);
  const std::string path = file.path;
  LoadedModel out;
  out.path = path;
  out.sampling = model_sampling(file.meta);
  QR_TRY(out.ops, make_ops(options));
  if (const auto check_has = backend_of(options).check_has; check_has != nullptr) {
    QR_TRY(const ModelInfo info, model_info(file, how));
    QR_TRY_VOID(check_has(info.attention));
  }
  if (wrap != nullptr) out.ops = wrap(std::move(out.ops));
  const auto bar = std::make_shared<Progress>("loading " + path, 0, Progress::Unit::bytes);
  how.on_progress = [bar](int64_t done, int64_t total) { bar->update(done, total); };
  QR_TRY(const TokenizerSource source, tokenizer_source(file));
  how.tokenizer = hash_of_tokenizer(file, source);
  how.hash_folder = cache_folder();
  QR_TRY(out.model, load_model(file, *out.ops, how));
  warn_of_context(path, out.model->info(), options.ctx);
  QR_TRY_VOID(file.check_unchanged());  // nothing reads the file from here on
  QR_TRY(out.tokenizer, make_tokenizer_of(file, source));
  if (out.tokenizer) {
    if (out.tokenizer->n_vocab() > out.model->info().n_vocab) {
      return fail(Code::corrupt, path + ": the tokenizer has " + std::to_string(out.tokenizer->n_vocab()) +
                                     " tokens, the embedding only " + std::to_string(out.model->info().n_vocab));
    }
  }
  return out;
}

}  // namespace

Status find_model(ModelOptions& options) {
  QR_TRY_VOID(load_options(options, nullptr));
  QR_TRY(options.model, model_path(options.model));
  return {};
}

Result<LoadedModel> load(const ModelOptions& options, WrapOps wrap) {
  QR_TRY_VOID(load_options(options, nullptr));  // a wrong one is told before the file is looked for
  QR_TRY(const std::string path, model_path(options.model));
  QR_TRY(ModelFile file, open_model(path));
  QR_TRY_VOID(check_weights_fit(file, options));
  return load_file(options, std::move(file), wrap);
}

Result<LoadedModel> load(const ModelOptions& options) { return load(options, nullptr); }

Result<LoadedModel> load(const ModelOptions& options, ModelFile file) {
  return load_file(options, std::move(file), nullptr);
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer_of(const std::string& named) {
  QR_TRY(const std::string path, model_path(named));
  if (has_tokenizer_files(path)) return load_tokenizer(path);
  QR_TRY(ModelFile file, open_model_metadata(path));
  QR_TRY(const TokenizerSource source, tokenizer_source(file));
  QR_TRY(std::unique_ptr<Tokenizer> tokenizer, make_tokenizer_of(file, source));
  if (!tokenizer) return fail(Code::not_found, path + ": the file has no tokenizer");
  return tokenizer;
}

}  // namespace quire
