// GPT-2: learned positions in place of rotation, layer norms, biases, units without a gate. Hugging Face has its
// matrices turned over.
#include <algorithm>

#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {
namespace {

constexpr const char* kPositions = "position_embd.weight";

class Gpt2 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string&, DecoderConfig& c) const override {
    const HostWeight* positions = file.find(kPositions);
    if (positions == nullptr || positions->shape.size() != 2 || positions->shape[0] < 1) {
      return fail(Code::corrupt, "tensor " + file.shown(kPositions) + ": must be a matrix, a row for each position");
    }
    c.n_positions = static_cast<int>(std::min<int64_t>(positions->shape[0], 1 << 28));
    c.n_ctx = std::min(c.n_ctx, c.n_positions);
    c.norm = NormKind::layer;
    c.activation = Activation::gelu_tanh;
    c.has_gate = false;
    c.is_still.assign(static_cast<size_t>(c.n_layers), true);
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load.linear(layer.qkv, "attn_qkv", q_dim() + 2 * kv_dim(), config().n_embd);
    load.linear(layer.attn_out, "attn_output", config().n_embd, q_dim());
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("activation_function", {"gelu_new", "gelu_pytorch_tanh"}));
  QR_TRY_VOID(hf.require_bool("scale_attn_weights", true));
  QR_TRY_VOID(hf.require_bool("scale_attn_by_inverse_layer_idx", false));
  QR_TRY_VOID(hf.require_bool("add_cross_attention", false));
  hf.copy({"n_embd"}, "embedding_length");
  hf.copy({"n_layer"}, "block_count");
  hf.copy({"n_positions", "n_ctx"}, "context_length");
  hf.copy({"n_head"}, "attention.head_count");
  hf.copy({"n_head"}, "attention.head_count_kv");
  hf.copy({"layer_norm_epsilon"}, "attention.layer_norm_epsilon");
  QR_TRY(const int64_t n_embd, hf.get_int("n_embd", 1, 1 << 20));
  hf.set("feed_forward_length", 4 * n_embd, "n_embd");
  if (hf.find("n_inner") != nullptr) hf.copy({"n_inner"}, "feed_forward_length");
  return {};
}

struct Part {
  std::string_view theirs, ours;
  Reshape reshape = nullptr;
};
constexpr Part kParts[] = {{"wte.weight", "token_embd.weight"},
                           {"wpe.weight", "position_embd.weight"},
                           {"ln_f.weight", "output_norm.weight"},
                           {"ln_f.bias", "output_norm.bias"},
                           {"h.{}.ln_1.weight", "blk.{}.attn_norm.weight"},
                           {"h.{}.ln_1.bias", "blk.{}.attn_norm.bias"},
                           {"h.{}.ln_2.weight", "blk.{}.ffn_norm.weight"},
                           {"h.{}.ln_2.bias", "blk.{}.ffn_norm.bias"},
                           {"h.{}.attn.c_attn.weight", "blk.{}.attn_qkv.weight", transposed},
                           {"h.{}.attn.c_attn.bias", "blk.{}.attn_qkv.bias"},
                           {"h.{}.attn.c_proj.weight", "blk.{}.attn_output.weight", transposed},
                           {"h.{}.attn.c_proj.bias", "blk.{}.attn_output.bias"},
                           {"h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight", transposed},
                           {"h.{}.mlp.c_fc.bias", "blk.{}.ffn_up.bias"},
                           {"h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight", transposed},
                           {"h.{}.mlp.c_proj.bias", "blk.{}.ffn_down.bias"}};

// Some folders have these names, others the same within "transformer.".
std::vector<NameRule> tensors() {
  static const std::vector<std::string> kWithin = [] {
    std::vector<std::string> out;
    for (const Part& part : kParts) out.push_back("transformer." + std::string(part.theirs));
    return out;
  }();
  std::vector<NameRule> out;
  for (size_t i = 0; i < std::size(kParts); ++i) {
    out.push_back({.theirs = kParts[i].theirs, .ours = kParts[i].ours, .reshape = kParts[i].reshape});
    out.push_back({.theirs = kWithin[i], .ours = kParts[i].ours, .reshape = kParts[i].reshape});
  }
  return out;
}

QR_REGISTER(ArchEntry,
            "gpt2",
            ArchEntry{.summary = "GPT-2: learned positions, layer norms, biases",
                      .hf = {.model_types = {"gpt2"}, .tensors = tensors(), .facts = facts},
                      .load = &load_decoder<Gpt2>,
                      .info = &decoder_info<Gpt2>});

}  // namespace
}  // namespace quire
