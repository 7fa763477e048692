// Weights of −1, 0 and 1, four rows in a row of bytes, NAME.weight, and one scale of them all, NAME.weight_scale: of
// modules that are "autobitlinear" a factor, of "bitlinear" a divisor. How activations were to be rounded is not looked
// at: here they are as elsewhere. Source: the BitNet quantiser of transformers 5.24.
#include <cmath>

#include "io/in_quotes.h"
#include "io/quantised_kinds.h"
#include "quant/ternary_rows.h"

namespace quire {
namespace {

constexpr std::string_view kNumbers = ".weight", kScale = ".weight_scale";
constexpr int64_t kPerByte = 4;

// The factor of all numbers.
Result<float> read_factor(const HfQuantisation& how, const TensorPlace& scale) {
  float stored = 0;
  scale_format_of(scale)->decode(scale.bytes().data(), &stored);
  const float factor = how.divides ? 1 / stored : stored;
  if (std::isfinite(stored) && std::isfinite(factor)) return factor;
  return fail(Code::corrupt, scale.label() + ": must be finite" +
                                 (how.divides ? ", and so must 1 divided by it, is " : ", is ") + shown_number(stored));
}

Result<HostWeight> assemble(const HfQuantisation& how, const TensorPlaces& places, const std::string& name) {
  const std::string stored = name + std::string(kNumbers);
  QR_TRY(const TensorPlace numbers, part_of(places, stored, {"U8"}, {}, in_quotes(stored)));
  QR_TRY_VOID(check_columns(numbers, numbers.tensor->shape[1]));
  QR_TRY(const TensorPlace scale, scales_of(places, name + std::string(kScale), {{1}, {}}, numbers.label()));
  QR_TRY(const float factor, read_factor(how, scale));
  return ternary_weight(stored, {.n_packed = numbers.tensor->shape[0],
                                 .n_in = numbers.tensor->shape[1],
                                 .numbers = numbers.bytes(),
                                 .scale = factor});
}

const QuantisedKind& bitnet_kind() {
  static const QuantisedKind kKind{.numbers = kNumbers,
                                   .type = "U8",
                                   .others = {kScale},
                                   .numbers_of = [](const HfQuantisation&) { return kPerByte; },
                                   .assemble = &assemble};
  return kKind;
}

}  // namespace

Result<HfQuantisation> read_bitnet(const ConfigKeys& keys) {
  QR_TRY(const std::string linear, keys.text({"linear_class"}, "bitlinear", {"bitlinear", "autobitlinear"}));
  QR_TRY_VOID(keys.text({"quantization_mode"}, "offline", {"offline"}));
  QR_TRY(const bool has_norms, keys.boolean("use_rms_norm", false));
  if (has_norms) return keys.unsupported("use_rms_norm", "true", "false");
  return HfQuantisation{.kind = &bitnet_kind(), .divides = linear == "bitlinear"};
}

}  // namespace quire
