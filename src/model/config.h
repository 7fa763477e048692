// Hyper-parameters of a decoder-only transformer, read from the file's facts and checked before anything is allocated.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/model_file.h"
#include "model/model.h"
#include "model/rope.h"

namespace quire {

// Keys and values that are made of one latent row of a token (model/latent.h).
struct LatentSizes {
  int n_kv = 0;              // numbers of the row's latent; 0: keys and values are a layer's own
  int n_q = 0;               // of a latent that queries are made of; 0: they are not
  int k_dim = 0, v_dim = 0;  // of a head: the part of a query that does not turn, a value
};

// What the columns that a scan's mixer reads are multiplied with, and what it finds.
struct StateScales {
  float gate = 1.0F, x = 1.0F, b = 1.0F, c = 1.0F, steps = 1.0F, found = 1.0F;
  bool operator==(const StateScales&) const = default;
};

// What is multiplied within the other parts: what attention found, a unit's gates before their activation, what a unit
// found.
struct PartScales {
  float attention = 1.0F, gate = 1.0F, unit = 1.0F;
  bool operator==(const PartScales&) const = default;
};

// Sizes of a layer that keeps a state (model/state_mixer.h).
struct StateConfig {
  int n_heads = 0, head_dim = 0;  // n_heads 0: there are no such layers
  int n_head_groups = 0;          // of heads that share what a state is written and read by
  int state_dim = 0;              // components of a state for each of a head's
  int n_taps = 0;                 // of the convolution
  int n_channels = 0;             // of layers that are a gated convolution alone; 0: they scan, or have a delta rule
  // A gated delta rule (model/delta_mixer.h): heads are those of values, head groups those of keys, state_dim is a
  // key's.
  bool has_delta_rule = false;
  bool shares_in_turn = false;  // DeltaParams::shares_in_turn
  float beta_scale = 1.0F;
  float norm_eps = 0.0F;  // of heads; 0: that of the other norms
  bool has_norm = true;   // of what a scan found
  // Of steps before they are made into those of columns (Mamba-1, model/column_mixer.h); 0: heads have steps. There is
  // one head then.
  int n_step_rank = 0;
  // Those, and what a state is written and read by, have norms without weights.
  bool plain_part_norms = false;
  StateScales scales;       // of a scan
  float least_step = 0.0F;  // of a scan's heads; 0: there is none
  // < 0, of a delta rule: a component of a key fades by exp(fade_bound / (1 + exp(−rate · (dt + dt_bias)))), not by
  // steps.
  float fade_bound = 0.0F;
  int64_t n_inner() const { return int64_t{n_heads} * head_dim; }
  // Columns of the convolution.
  int64_t n_conv() const { return n_inner() + (n_step_rank > 0 ? 0 : 2 * int64_t{n_head_groups} * state_dim); }
};

// What the queries of a row at position p are multiplied with: 1 + by · log(1 + ⌊(p + ahead) / length⌋).
struct QueryScale {
  double by = 0.0;  // 0: with nothing
  int64_t length = 1;
  int ahead = 0;          // 0 or 1
  bool of_still = false;  // of layers alone that do not turn
};

// A unit's activation with numbers of its own: alpha_p · x² + beta · x above 0, alpha_n · (exp(x) − 1 − x) + beta · x
// below. Source: Huang and Schlag, "Deriving activation functions using integration".
struct Xielu {
  float alpha_p = 0.0F, alpha_n = 0.0F, beta = 0.0F;
};

// Of layers that add what a part finds to the normed rows that it read: what these are multiplied with, and what it
// found.
struct NormedSum {
  float kept = 1.0F, found = 1.0F;
  bool operator==(const NormedSum&) const = default;
};

// Heads of keys and values.
struct HeadSizes {
  int n_kv = 0, k_dim = 0, v_dim = 0;
  int n_rope = 0;  // rotated components of a key
};

struct DecoderConfig {
  int n_layers = 0, n_embd = 0, n_ff = 0, n_vocab = 0;
  int n_experts = 0, n_ff_expert = 0;  // of layers with a router; 0: none has one
  int n_ff_shared = 0;                 // of the unit that every row of such a layer goes to besides; 0: there is none
  Routing routing;
  int n_ctx = 0;  // positions the model was trained for, or stretched to by its kind of rope scaling
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int v_dim = 0;       // of a value; head_dim unless the file says otherwise
  int n_rope = 0;      // rotated components of a head
  HeadSizes local;     // of layers with a window, where theirs are others; else n_kv is 0
  LatentSizes latent;  // where n_kv > 0 there is one KV head, of n_rope + n_kv numbers
  double rope_theta = 10000.0;
  Rope rope;
  Rope rope_local;  // of layers with a window, where an architecture has another one for them
  RopePairs rope_pairs = RopePairs::halves;
  float norm_eps = 1e-5F;
  NormKind norm = NormKind::rms;  // of those in front of parts, and of the last one
  bool is_parallel = false;       // both parts of a layer read the same rows
  Activation activation = Activation::silu;
  bool has_gate = true;           // of feed-forward units
  float embed_scale = 1.0F;       // of the embedding
  float residual_scale = 1.0F;    // of what a part adds
  float logit_scale = 1.0F;       // before the soft cap
  float attn_scale = 0.0F;        // of scores: 1/√head_dim unless the model says otherwise
  float attn_soft_cap = 0.0F;     // of scores, 0: none
  float logit_soft_cap = 0.0F;    // 0: none
  int window = 0;                 // keys that a layer with a window sees, 0: no layer has one
  std::vector<bool> is_local;     // per layer: sees the window only; empty where window is 0
  std::vector<bool> is_still;     // per layer: its heads do not turn; empty: those of all do
  std::vector<bool> is_state;     // per layer: keeps a state; empty: none does
  std::vector<bool> attends;      // per layer: has attention; empty: those do that keep no state
  std::vector<bool> has_unit;     // per layer: has a feed-forward part; empty: all do
  StateConfig state;              // of these
  int n_positions = 0;            // learned ones, which are added to the embedding; 0: there are none
  bool turns_first = false;       // heads are rotated before their norms, not after
  bool plain_head_norms = false;  // heads of layers that turn are normed without weights
  int chunk = 0;                  // positions; > 0: rows of local layers see the keys of their own aligned chunk only
  bool share_on_input = false;    // a row's one expert reads the row times its share, and its result is taken as it is
  QueryScale query_scale;
  PartScales scales;
  std::vector<Xielu> xielu;  // by layer, in place of the activation; empty: none has it
  float jitter = 0.0F;       // of a router that takes two experts, each by its share of those that it could be mistaken
                             // for; 0: no such router
  float mixture_scale = 1.0F;      // of what a layer's experts and its shared unit find together
  float value_scale = 1.0F;        // of what attention finds
  int n_readers = 0;               // last layers that have no keys of their own: they read those of the last one before
                                   // them all that has a window as they have, or none
  bool plain_value_norms = false;  // values are normed, head by head, without weights
  std::vector<int64_t> n_ff_of;    // by layer, of units where they differ (n_ff: the most); empty: they do not
  int n_layer_embd = 0;            // of what each layer knows of a row's token by itself; 0: nothing
  std::vector<float> layer_scales;  // by layer, of the residual stream behind it; empty: 1
  std::vector<double> cutoffs;      // by layer: of a unit's gates only what is above mean + cutoff · deviation counts,
                                    // less that; −∞: all of them. Empty: all of all layers
  float most_slope_bits = 0.0F;  // of scores that fall with distance (AttnParams), which stand for positions; 0: none
  float qkv_cut = 0.0F;          // queries, keys and values are cut at ± this; 0: they are not
  bool has_embed_norm = false;   // of embeddings, of the kind of the others
  NormedSum attention_sum, state_sum, unit_sum;  // of these parts
  int n_shared_blocks = 0;  // of attention and a unit, which some layers have in turn; 0: each layer has its own
};

// What every decoder has. Errors name file, key, range and value; ranges are those under which every product of sizes
// fits 64 bits. A window without "attention.sliding_window_pattern" holds for every layer.
Result<DecoderConfig> read_decoder_config(const ModelFile& file, const LoadOptions& options);

// Sets is_local: from the file's pattern (one number a layer, or a period: all of p layers but the last), else by
// `period`; 1: every layer. Code::corrupt names the key.
Status read_windows(const ModelFile& file, int period, DecoderConfig& config);

// Sets is_still from the file's list of a number a layer, 0: it does not turn (folders have one of some architectures,
// GGUF has no word for it); without a list the last layer of every `period`, 0: none. Code::corrupt names the key.
Status read_turns(const ModelFile& file, const std::string& prefix, int period, DecoderConfig& config);
inline constexpr const char* kTurns = "rope.layers";  // that list

// A number for each layer; nothing where the key is absent or no list. Code::corrupt names the key.
Result<std::vector<int64_t>> by_layer(const Metadata& meta, const std::string& key, const DecoderConfig& config);

// The number that a tensor is; none where it is no single unquantised one.
std::optional<double> single_number(const HostWeight& weight);

// Rows of q and k as interleaved pairs, which is how GGUF has some architectures, unless "<arch>.rope.halves" says that
// they are a Hugging Face folder's.
Status read_pairs(const ModelFile& file, const std::string& prefix, DecoderConfig& config);

// Leaves out the layers behind the others that guess ahead, as many as "<arch>.nextn_predict_layers" says.
Status leave_out_nextn(const ModelFile& file, const std::string& prefix, DecoderConfig& config);

// Whether a tensor holds weights of experts: all of a layer ("blk.0.ffn_up_exps.weight") or one
// ("blk.0.ffn_up.3.weight").
bool is_of_experts(std::string_view name);

// ModelInfo but for kv_layout and fingerprint: names, sizes.
ModelInfo make_model_info(const ModelFile& file, const DecoderConfig& config, const LoadOptions& options);

}  // namespace quire
