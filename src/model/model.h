// What is computed: a model turns index tensors into logits. It never sees a sequence. Const after load; used by the
// engine thread. An architecture is one file in model/arch/ that registers itself under GGUF's architecture name.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash128.h"
#include "base/registry.h"
#include "base/result.h"
#include "io/model_file.h"
#include "kv/layout.h"
#include "model/adapter_site.h"
#include "model/hf_names.h"
#include "model/pass.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace quire {

// Endless generation: every token sees the first n_sinks tokens of its sequence and the last `window` up to itself, at
// the positions that these have when they lie side by side (docs/kv.md). Source: StreamingLLM.
struct ContextShift {
  int n_sinks = 0;
  int window = 0;  // 0: none, every token sees all before it
  bool is_on() const { return window > 0; }
  int n_positions() const { return n_sinks + window; }  // that are ever used
};
inline constexpr int kStreamTokens = 1 << 17;  // of a sequence with a shift, where nothing else is said

struct ModelInfo {
  std::string arch, name;
  int n_layers = 0, n_vocab = 0, n_embd = 0;
  int n_ctx = 0;       // tokens of a sequence: positions the model was trained for, or more where these shift
  ContextShift shift;  // as it was loaded
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int64_t n_params = 0, weight_bytes = 0;   // weight_bytes: in the formats that were loaded
  int64_t step_params = 0, step_bytes = 0;  // of them, what one step over every layer and the head reads
  int64_t step_floats = 0, step_bf16 = 0;   // of step_params those in float formats, and of these those in BF16
  uint64_t fingerprint = 0;                 // of all that numbers depend on (model/fingerprint.h); 0: not loaded
  KvLayout kv_layout;
  std::vector<AttnParams> attention;         // by layer; empty where the model has nothing like it
  int n_state_layers = 0;                    // that keep a state
  int n_attention_layers = 0;                // that cache keys
  RopePairs rope_pairs = RopePairs::halves;  // how rotated components lie in a cached key
  int n_rope = 0;                            // of them
  bool scales_embedding = false;             // layers() takes embeddings that embed() has multiplied
  bool sees_chunks = false;                  // some layers see keys from a multiple of some position on (Llama 4)
  bool has_taps = false;                     // passes give hidden states to those that ask (Tap)
  int strip_tokens = kStripTokens;           // tokens whose keys lie together: a block holds a multiple of them
};

class Model {
 public:
  virtual ~Model() = default;
  const ModelInfo& info() const { return info_; }
  // By layer and product, every matrix of a product; empty where the model takes no adapters.
  virtual std::span<const AdapterSite> adapter_sites() const { return {}; }
  // Upper bound of arena use of a pass over n_tokens rows of which n_out want logits; excludes the Batch itself.
  virtual int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const = 0;
  virtual Tensor embed(const Pass&) const = 0;                               // → [n, n_embd]
  virtual Tensor layers(Tensor x, LayerRange range, const Pass&) const = 0;  // [n, n_embd] → same
  virtual Tensor head(Tensor x, const Pass&) const = 0;                      // → [n_out, n_vocab] logits
  // What head() multiplies: → [n_out, n_embd] after the last norm. An empty tensor: there is no such thing.
  virtual Tensor hidden(Tensor, const Pass&) const { return {}; }

 protected:
  ModelInfo info_;
};

struct LoadOptions {
  const KvCodec* k_codec = nullptr;
  const KvCodec* v_codec = nullptr;
  const WeightFormat* weights = nullptr;  // matrices are converted to it on the way; null: as stored
  int n_ctx = 0;                          // positions that will be served, 0 for all that the model has
  ContextShift shift = {};                // of layers that see more than its window
  int n_threads = 1;                      // that convert and hash
  Hash128 tokenizer = {};                 // hash of what text becomes tokens by; part of the fingerprint
  std::string hash_folder = {};           // that remembers the hashes of files (io/content_hash.h); empty: none
  std::function<void(int64_t done, int64_t total)> on_progress = {};  // stored bytes taken in; the loading thread
};
struct ArchEntry {
  std::string_view summary;  // one line of docs/architectures.md
  // Why there are no folders of it, or no GGUF files by its name, where that is so: cells of the same page.
  std::string_view no_folder = {}, no_gguf = {};
  HfRules hf;
  Result<std::unique_ptr<Model>> (*load)(const ModelFile&, Ops&, const LoadOptions&);
  Result<ModelInfo> (*info)(const ModelFile&, const LoadOptions&);  // of what load would make
};

// One that is known and not computed.
struct MissingArch {
  std::string_view model_type, gguf;  // gguf: empty where that has no name for it
  std::string_view lacks;             // what it needs that is not here
};
std::span<const MissingArch> missing_archs();

// Picks the architecture by "general.architecture", or by a Hugging Face folder's model_type. Code::unsupported says
// what a known one lacks, or lists those that are computed.
Result<std::unique_ptr<Model>> load_model(const ModelFile&, Ops&, const LoadOptions&);
// The info of the model that load_model would make, its claims in the cache with it; loads no weight. Errors as
// load_model's.
Result<ModelInfo> model_info(const ModelFile&, const LoadOptions&);
// A Hugging Face folder's file in the architecture's own vocabulary; any other file as it is.
Result<ModelFile> neutral_form(const ModelFile&);

}  // namespace quire
