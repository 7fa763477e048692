// Granite with windows: Granite's factors, a learned sink beside the keys of every head, three layers of four behind a
// window, layers that do not turn.
#include "model/arch/granite.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;  // of local and global layers

class GraniteSwa final : public Granite {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(Granite::configure(file, prefix, c));
    QR_TRY_VOID(read_windows(file, kPeriod, c));
    return read_turns(file, prefix, 0, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    Granite::load_layer(load, layer);
    load.vector(layer.attn.sinks, "attn_sinks.weight", config().n_heads);
  }
};

// One base of all layers, or 0: the layer does not turn.
Status base_facts(HfFacts& hf) {
  const MetaValue* value = hf.find("layer_rope_theta");
  if (value == nullptr) return {};
  std::vector<double> bases;
  if (const auto* list = std::get_if<std::vector<double>>(value)) bases = *list;
  if (const auto* list = std::get_if<std::vector<int64_t>>(value)) bases.assign(list->begin(), list->end());
  std::vector<int64_t> turns;
  double base = 0.0;
  for (const double one : bases) {
    turns.push_back(one > 0.0 ? 1 : 0);
    if (one <= 0.0) continue;
    if (base != 0.0 && one != base) {
      return fail(Code::unsupported, "key \"layer_rope_theta\": layers that turn must have one number, have " +
                                         std::to_string(base) + " and " + std::to_string(one));
    }
    base = one;
  }
  if (base > 0.0) hf.set("rope.freq_base", base, "layer_rope_theta");
  hf.set(kTurns, std::move(turns), "layer_rope_theta");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(base_facts(hf));
  return granite_facts(hf);
}

QR_REGISTER(ArchEntry,
            "granite_swa",
            ArchEntry{.summary = "Granite with windows, sinks and layers without positions",
                      .no_gguf = "unknown to gguf 0.19.0; files that say this name open",
                      .hf = {.model_types = {"granite_swa"},
                             .tensors = {{"model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"}},
                             .facts = facts,
                             .pairs_in_gguf = true},
                      .load = &load_decoder<GraniteSwa>,
                      .info = &decoder_info<GraniteSwa>});

}  // namespace
}  // namespace quire
