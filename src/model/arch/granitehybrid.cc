// Granite 4 hybrids: Mamba-2 in most layers, attention in few, experts beside a shared unit or the unit alone. Bamba is
// the same without factors; GGUF has it under this name.
#include "model/arch/granite.h"
#include "model/arch/mamba2.h"

namespace quire {
namespace {

constexpr std::string_view kAttentionLayers = "attn_layer_indices";  // of Bamba's folders

class GraniteHybrid final : public Granite {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(Granite::configure(file, prefix, c));
    QR_TRY(const bool turns, file.meta.get_bool_or(prefix + "rope.scaling.finetuned", true));
    if (!turns) c.is_still.assign(static_cast<size_t>(c.n_layers), true);
    return c.is_state.empty() ? Status() : read_state_config(file, prefix, c);
  }
};

Status layer_facts(HfFacts& hf) {
  if (hf.find("layer_types") != nullptr) return {};
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  std::vector<int64_t> states(static_cast<size_t>(n_layers), 1);
  const MetaValue* named = hf.find(kAttentionLayers);
  const auto* numbers = named != nullptr ? std::get_if<std::vector<int64_t>>(named) : nullptr;
  for (const int64_t l : numbers != nullptr ? *numbers : std::vector<int64_t>()) {
    if (l < 0 || l >= n_layers) {
      return fail(Code::corrupt, "key \"" + std::string(kAttentionLayers) + "\": must have numbers of 0 to " +
                                     std::to_string(n_layers - 1) + ", has " + std::to_string(l));
    }
    states[static_cast<size_t>(l)] = 0;
  }
  hf.set("attention.recurrent_layers", std::move(states), numbers != nullptr ? kAttentionLayers : "layer_types");
  return {};
}

Status state_facts(HfFacts& hf) {
  hf.copy({"mamba_d_conv"}, "ssm.conv_kernel");
  hf.copy({"mamba_d_state"}, "ssm.state_size");
  hf.copy({"mamba_n_heads"}, "ssm.time_step_rank");
  hf.copy({"mamba_n_groups"}, "ssm.group_count");
  QR_TRY(const int64_t expand, hf.get_int_or("mamba_expand", 1, 64, 2));
  QR_TRY(const int64_t n_embd, hf.get_int("hidden_size", 1, 1 << 20));
  const int64_t n_inner = expand * n_embd;
  hf.set("ssm.inner_size", n_inner, "mamba_expand");
  const MetaValue* given = hf.find("mamba_d_head");
  if (given == nullptr || std::get_if<int64_t>(given) == nullptr) return {};  // "auto"
  QR_TRY(const int64_t dim, hf.get_int("mamba_d_head", 1, 1 << 20));
  QR_TRY(const int64_t n_heads, hf.get_int("mamba_n_heads", 1, 4096));
  if (dim * n_heads == n_inner) return {};
  return fail(Code::corrupt,
              "key \"mamba_d_head\": times mamba_n_heads must be mamba_expand times hidden_size, which is " +
                  std::to_string(n_inner) + ", is " + std::to_string(dim * n_heads));
}

// Of a model without experts the unit that they would share is all there is.
Status unit_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_experts, hf.get_int_or("num_local_experts", 0, 1 << 16, 8));
  if (n_experts > 0) hf.copy({"shared_intermediate_size"}, "expert_shared_feed_forward_length");
  if (n_experts > 0) hf.copy({"intermediate_size"}, "expert_feed_forward_length");
  if (n_experts == 0) hf.copy({"shared_intermediate_size"}, "feed_forward_length");
  return {};
}

Status granite_hybrid_facts(HfFacts& hf) {
  QR_TRY_VOID(granite_facts(hf));
  QR_TRY_VOID(hf.require("position_embedding_type", {"rope", "nope"}));
  const MetaValue* positions = hf.find("position_embedding_type");
  hf.set("rope.scaling.finetuned", positions != nullptr && *positions == MetaValue(std::string("rope")),
         "position_embedding_type");
  return unit_facts(hf);
}

Status facts(HfFacts& hf) {
  const bool is_bamba = hf.find(kAttentionLayers) != nullptr;
  QR_TRY_VOID(is_bamba ? hf.require("hidden_act", {"silu"}) : granite_hybrid_facts(hf));
  QR_TRY_VOID(step_facts(hf));
  QR_TRY_VOID(layer_facts(hf));
  return state_facts(hf);
}

Status own_name(const Metadata& facts, HostWeight& ours) {
  QR_TRY(const int64_t n_experts, facts.get_int_or("hf.num_local_experts", 0, 1 << 16, 8));
  constexpr std::string_view kShared = "_shexp";
  if (n_experts == 0) ours.name.erase(ours.name.find(kShared), kShared.size());
  return {};
}

Status gate_of_unit(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  QR_TRY_VOID(own_name(facts, ours));
  return first_rows(theirs, facts, ours, file);
}
Status up_of_unit(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  QR_TRY_VOID(own_name(facts, ours));
  return last_rows(theirs, facts, ours, file);
}
Status down_of_unit(const HostWeight&, const Metadata& facts, HostWeight& ours, ModelFile&) {
  return own_name(facts, ours);
}

QR_REGISTER(ArchEntry,
            "granitehybrid",
            ArchEntry{.summary = "Granite 4 hybrids and Bamba: Mamba-2 in most layers, with experts or without",
                      .hf = {.model_types = {"granitemoehybrid", "bamba"},
                             .tensors = granite_tensors(mamba2_mixer_tensors(
                                 {{"model.final_layernorm.weight", "output_norm.weight"},
                                  {"model.layers.{}.pre_ff_layernorm.weight", "blk.{}.ffn_norm.weight"},
                                  {"model.layers.{}.feed_forward.gate_proj.weight", "blk.{}.ffn_gate.weight"},
                                  {"model.layers.{}.feed_forward.up_proj.weight", "blk.{}.ffn_up.weight"},
                                  {"model.layers.{}.feed_forward.down_proj.weight", "blk.{}.ffn_down.weight"},
                                  {.theirs = "model.layers.{}.shared_mlp.input_linear.weight",
                                   .ours = "blk.{}.ffn_gate_shexp.weight",
                                   .reshape = gate_of_unit},
                                  {.theirs = "model.layers.{}.shared_mlp.input_linear.weight",
                                   .ours = "blk.{}.ffn_up_shexp.weight",
                                   .reshape = up_of_unit},
                                  {.theirs = "model.layers.{}.shared_mlp.output_linear.weight",
                                   .ours = "blk.{}.ffn_down_shexp.weight",
                                   .reshape = down_of_unit}})),
                             .facts = facts,
                             .pairs_in_gguf = true,
                             .state_layers = {"mamba", "linear_attention"}},
                      .load = &load_decoder<GraniteHybrid>,
                      .info = &decoder_info<GraniteHybrid>});

}  // namespace
}  // namespace quire
