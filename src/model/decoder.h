// What decoder-only transformers share: the ends, the rotary table, an attention and a gated feed-forward part, memory.
// An architecture derives from it and says what its layers load; a norm that was not loaded is not applied. Const after
// load; used by the engine thread.
#pragma once
#include <memory>
#include <vector>

#include "model/config.h"
#include "model/latent.h"
#include "model/model.h"
#include "model/state_mixer.h"
#include "model/weight_loader.h"

namespace quire {

struct DecoderLayer {
  Tensor attn_norm, ffn_norm;            // [n_embd], before each part; none: it reads the stream as it is
  Tensor attn_norm_bias, ffn_norm_bias;  // [n_embd], of layer norms; only some have them
  Tensor post_attn_norm, post_ffn_norm;  // [n_embd], after each part; only some have them
  Tensor q_norm, k_norm;                 // [k_dim], or of all heads together; only some have them
  Tensor v_norm;                         // [v_dim]; only some have it
  Tensor mixed_norm, unit_norm;          // [n_heads·v_dim], [n_ff]: in front of the last products of the two parts
  std::vector<Linear> qkv;               // n_embd → n_heads·k_dim | n_kv_heads·k_dim | n_kv_heads·v_dim, of attn
  LatentWeights latent;                  // in place of qkv and the norms of q and k; only some have them
  std::vector<Linear> attn_out;          // n_heads·v_dim → n_embd
  std::vector<Linear> attn_gate;         // n_embd → n_heads·v_dim, of mixed values, or n_heads; only some have it
  std::vector<Linear> gate_up;           // n_embd → n_ff | n_ff, or up alone
  std::vector<Linear> down;              // n_ff → n_embd
  std::vector<Linear> router;  // n_embd → n_experts; a layer with one has experts in place of gate_up and down
  Experts experts;
  std::vector<Linear> shared_gate_up, shared_down;  // of the unit that all rows go to beside the experts, if any
  std::vector<Linear> shared_gate;                  // n_embd → 1: how much of it each row takes; none: all
  std::vector<Linear> own_gate, own_proj;           // n_embd → n_layer_embd → n_embd: the part behind both, if any
  Tensor own_norm;                                  // [n_embd], behind it
  AttnParams attn;
  bool only_reads = false;  // keys and values of `attn` are another layer's
  StateMixer state;         // in place of attention or beside it, where the layer keeps a state
  bool keeps_state = false;
  bool attends = true;
  bool has_unit = true;   // or experts
  bool is_local = false;  // sees a window, rotates by the local frequencies
  bool is_still = false;  // does not rotate
};

class Decoder : public Model {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;
  std::span<const AdapterSite> adapter_sites() const override { return sites_; }
  Tensor embed(const Pass& pass) const override;
  Tensor layers(Tensor x, LayerRange range, const Pass& pass) const override;
  Tensor head(Tensor x, const Pass& pass) const override;
  Tensor hidden(Tensor x, const Pass& pass) const override;

  // Reads the configuration, claims room in the cache, loads everything. All or nothing.
  Status load(const ModelFile& file, Ops& ops, const LoadOptions& options);
  // The first two of these; info() is complete then.
  Status claim_cache(const ModelFile& file, const LoadOptions& options);

 protected:
  // Changes what read_decoder_config() could not know. Errors name the key.
  virtual Status configure(const ModelFile&, const std::string& /* "llama." */, DecoderConfig&) const { return {}; }
  // Whether its layers have latent attention, as those of no other architecture may.
  virtual bool takes_latent() const { return false; }
  // Whether its layers have a feed-forward part and no heads, as those of no other architecture may.
  virtual bool has_units_without_heads() const { return false; }
  // Loads one layer's weights; the loader has entered "blk.<l>.". By default the norms in front and both parts.
  virtual void load_layer(WeightLoader& load, DecoderLayer& layer) const;
  // Adapters must not add to the second products of layer l's experts; `why_not` lives on.
  void refuse_adapted_downs(int l, const char* why_not);
  // Loads what is of no layer beside the ends, and what an architecture keeps of layers itself.
  virtual void load_more(WeightLoader&) {}

  // The common lists: q, k, v and the output, or latent attention's; gate, up and down, or a router and the same of
  // experts where the file has one; the two norms in front, those behind, those of heads.
  void load_attention(WeightLoader& load, DecoderLayer& layer) const;
  // Those of attention, of what keeps a state, or both, as the layer has them.
  void load_mixers(WeightLoader& load, DecoderLayer& layer) const;
  void load_feed_forward(WeightLoader& load, DecoderLayer& layer) const;
  void load_unit(WeightLoader& load, DecoderLayer& layer) const;
  void load_experts(WeightLoader& load, DecoderLayer& layer) const;
  void load_norms(WeightLoader& load, DecoderLayer& layer) const;
  void load_post_norms(WeightLoader& load, DecoderLayer& layer) const;
  void load_head_norms(WeightLoader& load, DecoderLayer& layer) const;
  // Norms over all of a row's q, and over all of its k.
  void load_row_norms(WeightLoader& load, DecoderLayer& layer) const;
  // A step's rotary tables for layers of one kind.
  struct Rotation {
    Tensor rows;                // of each row's q and k
    Tensor kept;                // of its queries before sinks (AttnMeta::kept_rotation)
    Tensor query_factors = {};  // of its queries, as HeadSteps'; empty: none
    Tensor first_key = {};      // in place of AttnMeta's, of layers with chunks; empty: AttnMeta's
    Tensor own = {};            // [n, n_layer_embd]: what the layer knows of each row's token; of all layers before
  };
  // The parts of a layer: out [n, n_embd] is what to add to the residual stream. The first is attention, or a state's,
  // or both side by side.
  void mix(
      Tensor out, const DecoderLayer& layer, const NormedRows& in, const Rotation& rotation, const Pass& pass) const;
  void attention(
      Tensor out, const DecoderLayer& layer, const NormedRows& in, const Rotation& rotation, const Pass& pass) const;
  virtual void feed_forward(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const;
  // A unit that all rows go to.
  void unit(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const;
  // A unit whose gates are multiplied before their activation, or of config().cutoffs, or with a norm in it (empty:
  // without), by the ops one after the other.
  void stepped_unit(
      Tensor out, const NormedRows& in, const FeedForwardPart& part, const Tensor& norm, const Pass& pass) const;
  // A unit of config().xielu, likewise.
  void xielu_unit(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const;
  void mixture(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const;
  // Adds to out, and needs, what mixture() left in in.input().
  void shared_unit(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const;

  // The parts that the layer has, and what stands behind them. What was found last stands in `delta` [n, n_embd], and
  // `in` says that it is still to be added.
  virtual void run_layer(
      const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const;
  // The rows that Batch::out_rows names, [n_out, n_embd].
  virtual Tensor last_rows(const Tensor& x, const Pass& pass) const;
  // Of every layer, side by side, [n, n_layers·n_layer_embd].
  Tensor own_embeddings(const Pass& pass) const;
  // [n, n_embd] → what a layer's own knowledge of the rows' tokens has to add to its residual stream, before own_norm.
  void own_part(Tensor out, const DecoderLayer& layer, const Tensor& x, const Tensor& own, const Pass& pass) const;
  // Adds to in.x what `in` says is still to be added.
  void settle(NormedRows& in, const Pass& pass) const;

  int64_t n_ff_of(const DecoderLayer& layer) const {
    return config_.n_ff_of.empty() ? config_.n_ff : config_.n_ff_of[static_cast<size_t>(number_of(layer))];
  }
  int number_of(const DecoderLayer& layer) const { return static_cast<int>(&layer - layers_.data()); }
  int64_t q_dim() const { return int64_t{config_.n_heads} * config_.head_dim; }
  int64_t kv_dim() const { return int64_t{config_.n_kv_heads} * config_.head_dim; }
  // The sizes of a layer's heads, which those of a layer with a window may have of their own.
  HeadSizes heads_of(bool is_local) const;
  const DecoderConfig& config() const { return config_; }

 private:
  void load_latent_attention(WeightLoader& load, DecoderLayer& layer) const;
  void load_shared(WeightLoader& load, DecoderLayer& layer) const;
  void load_units(WeightLoader& load, std::vector<Linear>& out, const std::string& suffix, int64_t n_ff) const;
  void load_own_embeddings(WeightLoader& load);
  Status load_ends(WeightLoader& load);
  // Which of what was loaded for a layer is a product of its own.
  void find_sites(const WeightLoader& load, const DecoderLayer& layer);
  Status check_shift(const LoadOptions& options) const;
  Status check_positions(const LoadOptions& options) const;
  Status check_states(const ModelFile& file) const;
  Status check_headless(const ModelFile& file, const std::string& prefix) const;
  // The layer that one without keys of its own reads. Code::corrupt where there is none.
  Result<size_t> layer_read_by(size_t reader) const;
  AttnParams claim(const LoadOptions& options, bool is_local);
  // Numbers that attention takes from the arena for every row.
  int64_t attention_columns() const;
  // Room for a step's tables; then what stands in them.
  Rotation rotation_room(const Rope& rope, const Pass& pass) const;
  void fill(const Rotation& out, const Rope& rope, const Pass& pass) const;
  // query_factors and first_key of a layer that needs them; made once a step.
  Rotation step_tables(const Pass& pass) const;
  Rotation of_layer(const DecoderLayer& layer, const Rotation& of_kind, const Rotation& tables) const;
  // What a row's experts read.
  Tensor expert_input(const NormedRows& in, const Tensor& scores, const Pass& pass) const;
  // Both parts, of the same rows: what they find stands in `delta` together.
  void run_parallel(
      const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const;
  void scale_delta(Tensor delta, const Pass& pass) const;
  void run_serial(
      const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const;

  DecoderConfig config_;
  std::vector<DecoderLayer> layers_;
  std::vector<AdapterSite> sites_;
  Linear embedding_;                     // [n_vocab, n_embd]
  Tensor embed_norm_, embed_norm_bias_;  // [n_embd], of embeddings; only some have them
  std::vector<Linear> positions_;        // [n_positions, n_embd]; none where positions are not learned
  std::vector<Linear> output_;           // n_embd → n_vocab; the embedding itself where they are tied
  Tensor output_norm_;                   // [n_embd]
  Tensor output_norm_bias_;              // [n_embd], of a layer norm; may be empty
  // Of what layers know of tokens: by token, [n, n_layers·n_layer_embd], out of its embedding, and a norm of each.
  std::vector<Linear> own_embedding_, own_projection_;
  Tensor own_projection_norm_;  // [n_layer_embd]
};

// One whose heads of q and k have norms of their own, in all layers with attention.
class NormedHeads : public Decoder {
 protected:
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override;
};

// ArchEntry::load and ArchEntry::info of an architecture that is a Decoder.
template <class T>
Result<std::unique_ptr<Model>> load_decoder(const ModelFile& file, Ops& ops, const LoadOptions& options) {
  auto model = std::make_unique<T>();
  QR_TRY_VOID(model->load(file, ops, options));
  return model;
}
template <class T>
Result<ModelInfo> decoder_info(const ModelFile& file, const LoadOptions& options) {
  T model;
  QR_TRY_VOID(model.claim_cache(file, options));
  return model.info();
}

}  // namespace quire
