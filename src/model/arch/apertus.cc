// Apertus: Qwen 3's attention, units without a gate whose activation (xIELU) has numbers of its own in every layer: a
// folder has them as tensors, GGUF as lists.
#include <cmath>

#include "model/decoder.h"
#include "ops/softplus.h"

namespace quire {
namespace {

constexpr double kBeta = 0.5;  // where the file does not say

// Number `name` of layer l: of its tensor, or of the file's list; `fallback` where there is neither. Code::corrupt
// names tensor or key.
Result<double> number_of_layer(const ModelFile& file, const std::string& name, int l, double fallback) {
  const std::string tensor = "blk." + std::to_string(l) + ".xielu." + name;
  double value = fallback;
  if (const HostWeight* found = file.find(tensor)) {
    const std::optional<double> stored = single_number(*found);
    if (!stored) return fail(Code::corrupt, "tensor " + file.shown(tensor) + ": must be one number");
    value = *stored;
  } else if (const MetaValue* list = file.meta.find("xielu." + name)) {
    const auto* numbers = std::get_if<std::vector<double>>(list);
    if (numbers == nullptr || numbers->size() <= static_cast<size_t>(l)) {
      return fail(Code::corrupt, "key \"xielu." + name + "\": must have a number for each layer");
    }
    value = (*numbers)[static_cast<size_t>(l)];
  }
  if (std::isfinite(value)) return value;
  return fail(Code::corrupt, "tensor or key \"xielu." + name + "\": is not finite in layer " + std::to_string(l));
}

class Apertus final : public NormedHeads {
 protected:
  Status configure(const ModelFile& file, const std::string&, DecoderConfig& c) const override {
    c.has_gate = false;
    for (int l = 0; l < c.n_layers; ++l) {
      QR_TRY(const double beta, number_of_layer(file, "beta", l, kBeta));
      QR_TRY(const double above, number_of_layer(file, "alpha_p", l, 0.0));
      QR_TRY(const double below, number_of_layer(file, "alpha_n", l, 0.0));
      c.xielu.push_back(
          {static_cast<float>(softplus(above)), static_cast<float>(beta + softplus(below)), static_cast<float>(beta)});
    }
    return {};
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"xielu"}); }

QR_REGISTER(ArchEntry,
            "apertus",
            ArchEntry{.summary = "Apertus: norms on heads, units of xIELU without a gate",
                      .hf = {.model_types = {"apertus"},
                             .tensors = {{"model.layers.{}.attention_layernorm.weight", "blk.{}.attn_norm.weight"},
                                         {"model.layers.{}.feedforward_layernorm.weight", "blk.{}.ffn_norm.weight"},
                                         {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                         {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
                                         {"model.layers.{}.mlp.act_fn.alpha_p", "blk.{}.xielu.alpha_p"},
                                         {"model.layers.{}.mlp.act_fn.alpha_n", "blk.{}.xielu.alpha_n"},
                                         {"model.layers.{}.mlp.act_fn.beta", "blk.{}.xielu.beta"},
                                         {"model.layers.{}.mlp.act_fn.eps", "blk.{}.xielu.eps"}},
                             .facts = facts},
                      .load = &load_decoder<Apertus>,
                      .info = &decoder_info<Apertus>});

}  // namespace
}  // namespace quire
