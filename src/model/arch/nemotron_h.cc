// Nemotron-H, and folders of those with experts (Nemotron 3 Nano), which GGUF has under another name.
#include "model/arch/nemotron_h.h"

#include "io/in_quotes.h"
#include "model/gguf_form.h"

namespace quire {
namespace {

constexpr int64_t kSigmoids = 2;  // GGUF's number
constexpr std::string_view kPattern = "hybrid_override_pattern", kLayers = "layers_block_type";

// The kinds of layers, by one letter each: M a state, * attention, - a unit, E experts.
Result<std::string> layer_letters(const HfFacts& hf) {
  if (const MetaValue* pattern = hf.find(kPattern); pattern != nullptr) {
    const auto* text = std::get_if<std::string>(pattern);
    if (text != nullptr) return *text;
    return fail(Code::corrupt, "key " + in_quotes(kPattern) + ": must be a string");
  }
  const std::string_view key = hf.find(kLayers) != nullptr ? kLayers : "layer_types";
  const MetaValue* listed = hf.find(key);
  const auto* kinds = listed != nullptr ? std::get_if<std::vector<std::string>>(listed) : nullptr;
  if (kinds == nullptr) return fail(Code::not_found, "key " + in_quotes(kLayers) + ": is missing");
  std::string out;
  for (const std::string& kind : *kinds) {
    const bool is_state = kind == "linear_attention" || kind == "mamba";
    const bool attends = kind == "full_attention" || kind == "attention";
    if (!is_state && !attends && kind != "mlp" && kind != "moe") {
      return fail(Code::unsupported,
                  "key " + in_quotes(key) + ": " + in_quotes(kind) +
                      " is not supported; known: linear_attention mamba full_attention attention mlp moe");
    }
    out += is_state ? 'M' : attends ? '*' : kind == "mlp" ? '-' : 'E';
  }
  return out;
}

Status layer_facts(HfFacts& hf) {
  QR_TRY(const std::string letters, layer_letters(hf));
  QR_TRY(const int64_t n_kv_heads, hf.get_int("num_key_value_heads", 1, 4096));
  QR_TRY(const int64_t n_ff, hf.get_int("intermediate_size", 1, 1 << 22));
  std::vector<int64_t> heads, widths;
  for (const char letter : letters) {
    if (std::string_view("M*-E").find(letter) == std::string_view::npos) {
      return fail(Code::unsupported, "key " + in_quotes(kPattern) + ": " + in_quotes(std::string(1, letter)) +
                                         " is not supported; known: M * - E");
    }
    heads.push_back(letter == '*' ? n_kv_heads : 0);
    widths.push_back(letter == '-' || letter == 'E' ? n_ff : 0);
  }
  hf.set("block_count", static_cast<int64_t>(letters.size()), kLayers);
  hf.set("attention.head_count_kv", std::move(heads), "num_key_value_heads");
  hf.set("feed_forward_length", std::move(widths), "intermediate_size");
  if (letters.find('E') == std::string::npos) hf.set("expert_count", int64_t{0}, "n_routed_experts");
  return {};
}

Status facts(HfFacts& hf) {
  if (const MetaValue* latent = hf.find("moe_latent_size");
      latent != nullptr && std::get_if<int64_t>(latent) != nullptr) {
    return fail(Code::unsupported, "key \"moe_latent_size\": experts behind a latent are not supported");
  }
  hf.copy({"moe_shared_expert_intermediate_size"}, "expert_shared_feed_forward_length");
  hf.set("expert_gating_func", kSigmoids, "n_routed_experts");
  QR_TRY_VOID(hf.require("mlp_hidden_act", {"relu2"}));
  QR_TRY_VOID(hf.require("mamba_hidden_act", {"silu"}));
  hf.copy({"attention_head_dim", "head_dim"}, "attention.key_length");
  hf.copy({"layer_norm_epsilon", "rms_norm_eps"}, "attention.layer_norm_rms_epsilon");
  QR_TRY_VOID(layer_facts(hf));
  return mamba2_facts(hf, {"conv_kernel", "ssm_state_size", "mamba_num_heads", "mamba_head_dim", "n_groups"});
}

Status as_gguf(ModelFile& file) {
  QR_TRY(const int64_t n_experts, file.meta.get_int_or("nemotron_h.expert_count", 0, 1 << 16, 0));
  if (n_experts > 0) rename_arch(file, "nemotron_h", "nemotron_h_moe");
  return {};
}

QR_REGISTER(
    ArchEntry,
    "nemotron_h",
    ArchEntry{
        .summary = "Nemotron-H: layers of one part, Mamba-2, attention, a unit or experts",
        .hf = {.model_types = {"nemotron_h"},
               .tensors = mamba2_tensors(
                   {{"backbone.layers.{}.mixer.q_proj.weight", "blk.{}.attn_q.weight"},
                    {"backbone.layers.{}.mixer.k_proj.weight", "blk.{}.attn_k.weight"},
                    {"backbone.layers.{}.mixer.v_proj.weight", "blk.{}.attn_v.weight"},
                    {"backbone.layers.{}.mixer.o_proj.weight", "blk.{}.attn_output.weight"},
                    {"backbone.layers.{}.mixer.up_proj.weight", "blk.{}.ffn_up.weight"},
                    {"backbone.layers.{}.mixer.up_proj.bias", "blk.{}.ffn_up.bias"},
                    {"backbone.layers.{}.mixer.down_proj.weight", "blk.{}.ffn_down.weight"},
                    {"backbone.layers.{}.mixer.down_proj.bias", "blk.{}.ffn_down.bias"},
                    {"backbone.layers.{}.mixer.gate.weight", "blk.{}.ffn_gate_inp.weight"},
                    {"backbone.layers.{}.mixer.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
                    {"backbone.layers.{}.mixer.experts.{}.up_proj.weight", "blk.{}.ffn_up.{}.weight"},
                    {"backbone.layers.{}.mixer.experts.{}.down_proj.weight", "blk.{}.ffn_down.{}.weight"},
                    {"backbone.layers.{}.mixer.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight"},
                    {"backbone.layers.{}.mixer.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight"}}),
               .facts = facts,
               .as_gguf = as_gguf,
               .lists_parts = true},
        .load = &load_decoder<NemotronH>,
        .info = &decoder_info<NemotronH>});

}  // namespace
}  // namespace quire
