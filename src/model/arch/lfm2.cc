// LFM2, dense.
#include "model/arch/lfm2.h"

namespace quire {
namespace {

class Lfm2Dense final : public Lfm2 {};

// A unit's width is two thirds of the number, times a factor, rounded up to a multiple, unless the folder says that the
// number is the width.
Status width_facts(HfFacts& hf) {
  const std::string_view key = hf.find("block_ff_dim") != nullptr ? "block_ff_dim" : "intermediate_size";
  QR_TRY(int64_t width, hf.get_int(key, 1, 1 << 22));
  QR_TRY(const bool adjusted, hf.get_bool_or("block_auto_adjust_ff_dim", true));
  if (adjusted) {
    QR_TRY(const double factor, hf.get_double_or("block_ffn_dim_multiplier", 1e-3, 1e3, 1.0));
    QR_TRY(const int64_t multiple, hf.get_int_or("block_multiple_of", 1, 1 << 20, 256));
    const int64_t two_thirds = 2 * width / 3;
    width = static_cast<int64_t>(factor * static_cast<double>(two_thirds));
    width = (width + multiple - 1) / multiple * multiple;
  }
  hf.set("feed_forward_length", width, key);
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(width_facts(hf));
  return lfm2_facts(hf);
}

QR_REGISTER(ArchEntry,
            "lfm2",
            ArchEntry{
                .summary = "LFM2: short convolutions in most layers",
                .hf = {.model_types = {"lfm2"}, .tensors = lfm2_tensors({}), .facts = facts, .state_layers = {"conv"}},
                .load = &load_decoder<Lfm2Dense>,
                .info = &decoder_info<Lfm2Dense>});

}  // namespace
}  // namespace quire
