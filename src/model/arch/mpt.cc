// MPT: scores that fall with distance in place of positions (or learned positions), layer norms without biases, units
// without a gate.
#include "model/arch/fused_qkv.h"

namespace quire {
namespace {

constexpr const char* kQueryNorm = "blk.0.attn_q_norm.weight";  // of all heads of a row together, a layer norm

class Mpt final : public FusedQkvDecoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY(const double bits, file.meta.get_double_or(prefix + "attention.max_alibi_bias", 0.0, 1e3, 0.0));
    QR_TRY(const double cut, file.meta.get_double_or(prefix + "attention.clamp_kqv", 0.0, 1e6, 0.0));
    c.most_slope_bits = static_cast<float>(bits);
    c.qkv_cut = static_cast<float>(cut);
    c.norm = NormKind::layer;
    c.activation = Activation::gelu_erf;
    c.has_gate = false;
    c.is_still.assign(static_cast<size_t>(c.n_layers), true);
    if (file.find(kQueryNorm) != nullptr)
      return fail(Code::unsupported, "tensor " + file.shown(kQueryNorm) + ": norms of queries are not supported");
    return file.find(kPositions) == nullptr ? Status() : read_positions(file, c);
  }
};

Status attention_facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("attn_config.attn_type", {"multihead_attention"}));
  QR_TRY_VOID(hf.require_bool("attn_config.alibi", true));
  QR_TRY_VOID(hf.require_bool("attn_config.qk_ln", false));
  QR_TRY_VOID(hf.require_bool("attn_config.prefix_lm", false));
  hf.set("attention.max_alibi_bias", 8.0, "attn_config.alibi_bias_max");
  if (hf.find("attn_config.alibi_bias_max") != nullptr) {
    hf.copy({"attn_config.alibi_bias_max"}, "attention.max_alibi_bias");
  }
  const auto is_number = [&](std::string_view key) {
    const MetaValue* value = hf.find(key);
    return value != nullptr && (std::holds_alternative<double>(*value) || std::holds_alternative<int64_t>(*value));
  };
  if (is_number("attn_config.clip_qkv")) hf.copy({"attn_config.clip_qkv"}, "attention.clamp_kqv");
  if (is_number("attn_config.softmax_scale")) hf.copy({"attn_config.softmax_scale"}, "attention.scale");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require_bool("no_bias", true));
  hf.copy({"d_model"}, "embedding_length");
  hf.copy({"n_layers"}, "block_count");
  hf.copy({"n_heads"}, "attention.head_count");
  hf.copy({"n_heads"}, "attention.head_count_kv");
  hf.copy({"max_seq_len"}, "context_length");
  QR_TRY(const double eps, hf.get_double_or("layer_norm_epsilon", 1e-12, 1.0, 1e-5));
  hf.set("attention.layer_norm_epsilon", eps, "layer_norm_epsilon");
  QR_TRY(const int64_t n_embd, hf.get_int("d_model", 1, 1 << 20));
  QR_TRY(const int64_t ratio, hf.get_int_or("expansion_ratio", 1, 64, 4));
  hf.set("feed_forward_length", ratio * n_embd, "expansion_ratio");
  return attention_facts(hf);
}

QR_REGISTER(ArchEntry,
            "mpt",
            ArchEntry{.summary = "MPT: scores that fall with distance, layer norms without biases",
                      .hf = {.model_types = {"mpt"},
                             .tensors = {{"transformer.wte.weight", "token_embd.weight"},
                                         {"transformer.norm_f.weight", "output_norm.weight"},
                                         {"transformer.blocks.{}.norm_1.weight", "blk.{}.attn_norm.weight"},
                                         {"transformer.blocks.{}.attn.Wqkv.weight", "blk.{}.attn_qkv.weight"},
                                         {"transformer.blocks.{}.attn.out_proj.weight", "blk.{}.attn_output.weight"},
                                         {"transformer.blocks.{}.norm_2.weight", "blk.{}.ffn_norm.weight"},
                                         {"transformer.blocks.{}.ffn.up_proj.weight", "blk.{}.ffn_up.weight"},
                                         {"transformer.blocks.{}.ffn.down_proj.weight", "blk.{}.ffn_down.weight"}},
                             .facts = facts},
                      .load = &load_decoder<Mpt>,
                      .info = &decoder_info<Mpt>});

}  // namespace
}  // namespace quire
