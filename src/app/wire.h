// Puts the rooms together: which backend, which codec, which files. The only place that names concrete backends.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/model_name.h"
#include "app/sampling_options.h"
#include "app/step_needs.h"
#include "base/result.h"
#include "engine/engine.h"
#include "io/model_file.h"
#include "model/model.h"
#include "ops/ops.h"
#include "text/tokenizer.h"

namespace quire {

// The options that every command with a MODEL shares.
struct ModelOptions {
  std::string model = {};
  std::string backend = "auto";    // auto, cpu, cuda, ref
  std::string isa = {};            // cpu: empty = the fastest
  int threads = 0;                 // 0: one for each usable core
  std::string kv_type = "auto";    // a codec, or auto: bf16 where most weights are BF16, else f16
  std::string weights = {};        // format that matrices are converted to while loading; empty: as stored
  std::string context_shift = {};  // sinks=S,window=W (context_shift.h); empty: none
  int ctx = 0;                     // set by commands with --ctx before load(): positions that will be served, 0 for all
};
void declare_model_options(CommandLine& line, ModelOptions& options);

// Everything a command needs to compute. Members are destroyed in reverse: the model before the memory it points to.
struct LoadedModel {
  std::string path;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null where the file has none
  SamplingDefaults sampling;             // as model_sampling() reads it
};

// Codec, format, threads as the options name them, without progress. Code::invalid lists what there is. Without a file
// an automatic codec stays null.
Result<LoadOptions> load_options(const ModelOptions& options, const ModelFile* file);

// What the matrices of a head beside the model of `file`, loaded so, are converted to: q8_0 where most of the model's
// weights are integers, as what a head guesses changes no answer; else null, as the head's folder has them.
Result<const WeightFormat*> heads_format(const ModelFile& file, const ModelOptions& options);

// Puts the path of the model in the place of its name (model_path), once load_options() has found nothing wrong.
Status find_model(ModelOptions& options);
// `options.model` as model_path() takes it. Weights that are larger than the memory that is left are Code::exhausted
// before anything is read.
Result<LoadedModel> load(const ModelOptions& options);
// Of a file that fit_memory() has opened; options.model is not looked at.
Result<LoadedModel> load(const ModelOptions& options, ModelFile file);
// As the first, on what `wrap` makes of the backend.
using WrapOps = std::unique_ptr<Ops> (*)(std::unique_ptr<Ops>);
Result<LoadedModel> load(const ModelOptions& options, WrapOps wrap);
Result<std::unique_ptr<Ops>> make_ops(const ModelOptions& options);
int n_threads(const ModelOptions& options);
// Measured now; zeros for the reference backend.
Result<UnitPeak> probe_peak(const ModelOptions& options);
// The tokenizer alone, from anything that holds one.
Result<std::unique_ptr<Tokenizer>> load_tokenizer_of(const std::string& named);
// Bytes that the chosen backend will take for a weight of this shape, without its bias.
int64_t linear_bytes(const ModelOptions& options, const WeightFormat& format, int64_t n_out, int64_t n_in);
// Bytes that are left now where the chosen backend puts weights, cache and activations.
int64_t memory_of(const ModelOptions& options);
// Whether that is another memory than the host's.
bool has_own_memory(const ModelOptions& options);
// Instruction sets of the cpu backend that run here, the fastest last.
std::vector<std::string> usable_isas();

}  // namespace quire
