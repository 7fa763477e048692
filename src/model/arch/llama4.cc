// Llama 4, text: three of four layers turn and see their own chunk of positions, the fourth does not turn, sees all and
// has queries that grow with their position; heads are normed without weights; a row's one expert reads the row times
// its share, beside a shared unit.
#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;                 // of layers that turn and one that does not
constexpr int64_t kChunk = 8192;           // where the file does not say
constexpr int kExpertsWithoutNorms = 128;  // of the model whose heads are not normed; GGUF leaves it to the reader
constexpr const char* kHeadNorms = "attention.head_norms";  // of folders

class Llama4 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    const Metadata& meta = file.meta;
    c.rope_pairs = RopePairs::interleaved;
    QR_TRY(const int64_t chunk, meta.get_int_or(prefix + "attention.sliding_window", 0, int64_t{1} << 30, kChunk));
    c.chunk = static_cast<int>(chunk);
    c.window = 0;
    c.is_local.clear();
    QR_TRY_VOID(read_turns(file, prefix, kPeriod, c));
    if (c.chunk > 0) {
      c.is_local = c.is_still;
      c.is_local.flip();
    }
    QR_TRY(c.plain_head_norms, meta.get_bool_or(prefix + kHeadNorms, c.n_experts != kExpertsWithoutNorms));
    QR_TRY(c.query_scale.by, meta.get_double_or(prefix + "attention.temperature_scale", 0.0, 1e3, 0.1));
    QR_TRY(c.query_scale.length, meta.get_int_or(prefix + "attention.temperature_length", 1, int64_t{1} << 30, 8192));
    c.query_scale.ahead = 1;
    c.query_scale.of_still = true;
    return read_shares(meta, prefix, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
    if (!config().plain_head_norms || layer.is_still) return;
    load.ones(layer.q_norm, config().head_dim);
    load.ones(layer.k_norm, config().head_dim);
  }

 private:
  static Status read_shares(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
    if (c.n_experts == 0) return {};
    c.share_on_input = true;
    c.routing.normalised = true;
    if (c.n_ff_shared == 0) c.n_ff_shared = c.n_ff_expert;
    if (c.routing.n_used == 1) return {};
    return fail(Code::unsupported, "key " + meta.shown(prefix + "expert_used_count") + ": only 1 is supported, is " +
                                       std::to_string(c.routing.n_used));
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"intermediate_size_mlp"}, "feed_forward_length");
  hf.copy({"intermediate_size"}, "expert_feed_forward_length");
  hf.copy({"no_rope_layers"}, kTurns);
  hf.set("attention.sliding_window", int64_t{0}, "attention_chunk_size");
  if (hf.find("attention_chunk_size") != nullptr) hf.copy({"attention_chunk_size"}, "attention.sliding_window");
  hf.copy({"use_qk_norm"}, kHeadNorms);
  hf.copy({"attn_scale"}, "attention.temperature_scale");
  hf.copy({"floor_scale"}, "attention.temperature_length");
  QR_TRY(const bool grows, hf.get_bool_or("attn_temperature_tuning", true));
  if (!grows) hf.set("attention.temperature_scale", 0.0, "attn_temperature_tuning");
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(ArchEntry,
            "llama4",
            ArchEntry{.summary = "Llama 4, text: chunks, layers without positions, a share on an expert's input",
                      .hf = {.model_types = {"llama4_text", "llama4"},
                             .tensors = {{"model.layers.{}.feed_forward.router.weight", "blk.{}.ffn_gate_inp.weight"},
                                         {.theirs = "model.layers.{}.feed_forward.experts.gate_up_proj",
                                          .ours = "blk.{}.ffn_gate_exps.weight",
                                          .reshape = first_columns},
                                         {.theirs = "model.layers.{}.feed_forward.experts.gate_up_proj",
                                          .ours = "blk.{}.ffn_up_exps.weight",
                                          .reshape = last_columns},
                                         {.theirs = "model.layers.{}.feed_forward.experts.down_proj",
                                          .ours = "blk.{}.ffn_down_exps.weight",
                                          .reshape = transposed},
                                         {"model.layers.{}.feed_forward.shared_expert.gate_proj.weight",
                                          "blk.{}.ffn_gate_shexp.weight"},
                                         {"model.layers.{}.feed_forward.shared_expert.up_proj.weight",
                                          "blk.{}.ffn_up_shexp.weight"},
                                         {"model.layers.{}.feed_forward.shared_expert.down_proj.weight",
                                          "blk.{}.ffn_down_shexp.weight"},
                                         {"model.layers.{}.feed_forward.gate_proj.weight", "blk.{}.ffn_gate.weight"},
                                         {"model.layers.{}.feed_forward.up_proj.weight", "blk.{}.ffn_up.weight"},
                                         {"model.layers.{}.feed_forward.down_proj.weight", "blk.{}.ffn_down.weight"}},
                             .facts = facts,
                             .turns_adapters = true},
                      .load = &load_decoder<Llama4>,
                      .info = &decoder_info<Llama4>});

}  // namespace
}  // namespace quire
