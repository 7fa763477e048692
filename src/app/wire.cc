#include "app/wire.h"

#include "backend/cpu/cpu_ops.h"
#include "backend/ref/ref_ops.h"
#include "base/clock.h"
#include "base/thread.h"
#include "quant/kv_codec.h"
#include "text/tokenizer_files.h"

namespace quire {

void declare_model_options(CommandLine& line, ModelOptions& options) {
  line.positional("MODEL", options.model, false, "a GGUF file");
  line.option("--backend", options.backend, "auto, cpu or ref (plain loops, slow)");
  line.option("--isa", options.isa, "cpu kernels: scalar, avx2 or avx512; empty for the widest that runs here");
  line.option("--threads", options.threads, "compute threads, 0 for every usable CPU");
  line.option("--kv-type", options.kv_type, "how keys and values are cached: f16 or f32");
}

Result<std::unique_ptr<Ops>> make_ops(const ModelOptions& options) {
  if (options.backend == "ref") return make_ref_ops();
  if (options.backend == "auto" || options.backend == "cpu") {
    return make_cpu_ops(CpuOptions{.n_threads = options.threads, .isa = options.isa});
  }
  return fail(Code::invalid, "--backend must be auto, cpu or ref, got \"" + options.backend + "\"");
}

int n_threads(const ModelOptions& options) {
  if (options.backend == "ref") return 1;
  return options.threads > 0 ? options.threads : n_usable_cpus();
}

Result<double> probe_peak(const ModelOptions& options) {
  if (options.backend == "ref") return 0.0;
  QR_TRY(const CpuPeak peak, measure_cpu_peak(CpuOptions{.n_threads = options.threads, .isa = options.isa}));
  return peak.int8;
}

Result<LoadedModel> load(const ModelOptions& options) {
  if (options.model.empty()) return fail(Code::not_found, "no model given: name a GGUF file");
  const KvCodec* codec = find_kv_codec(options.kv_type);
  if (codec == nullptr) {
    std::string known;
    for (const KvCodec* c : kv_codecs()) known += " " + std::string(c->name);
    return fail(Code::invalid, "--kv-type \"" + options.kv_type + "\" is unknown; there are:" + known);
  }
  SystemClock clock;
  const int64_t start = clock.now_ns();
  QR_TRY(ModelFile file, open_model(options.model));
  LoadedModel out;
  out.path = options.model;
  QR_TRY(out.ops, make_ops(options));
  QR_TRY(out.model, load_model(file, *out.ops, LoadOptions{codec, codec}));
  QR_TRY_VOID(file.check_unchanged());  // nothing reads the file from here on
  if (file.has_tokenizer) {
    QR_TRY(out.tokenizer, make_tokenizer(std::move(file.tokenizer)));
    if (out.tokenizer->n_vocab() > out.model->info().n_vocab) {
      return fail(Code::corrupt, options.model + ": the tokenizer has " + std::to_string(out.tokenizer->n_vocab()) +
                                     " tokens, the embedding only " + std::to_string(out.model->info().n_vocab));
    }
  }
  out.load_seconds = static_cast<double>(clock.now_ns() - start) * 1e-9;
  return out;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer_of(const std::string& path) {
  if (path.empty()) return fail(Code::not_found, "no model given: name a GGUF file");
  if (has_tokenizer_files(path)) return load_tokenizer(path);
  QR_TRY(ModelFile file, open_model_metadata(path));
  if (!file.has_tokenizer) return fail(Code::not_found, path + ": the file has no tokenizer");
  return make_tokenizer(std::move(file.tokenizer));
}

}  // namespace quire
