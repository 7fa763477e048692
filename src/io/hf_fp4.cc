// Weights in four-bit floats, as compressed-tensors stores them: NAME.weight_packed, numbers in e2m1, and
// NAME.weight_scale, a byte for each scale group; of NVFP4 also NAME.weight_global_scale, which scales are divided by.
#include <cmath>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"
#include "io/quantised_kinds.h"
#include "io/shape_text.h"
#include "quant/f16.h"
#include "quant/fp4_rows.h"

namespace quire {
namespace {

constexpr std::string_view kNumbers = ".weight_packed", kScales = ".weight_scale", kDivisor = ".weight_global_scale";

Status find_divisor(const TensorPlaces& places, const std::string& name, const std::string& of, Fp4Parts& parts) {
  QR_TRY(const TensorPlace place, part_of(places, name + std::string(kDivisor), {"F32"}, {{1}, {}, {1, 1}}, of));
  parts.divisor = load_as<float>(place.bytes().data());
  if (std::isfinite(parts.divisor) && parts.divisor > 0) return {};
  return fail(Code::corrupt, place.label() + ": must be finite and above 0, is " + std::to_string(parts.divisor));
}

Status check_finite(const TensorPlace& scales, const Fp4Parts& parts) {
  for (int64_t i = 0; i < parts.n_scales(); ++i) {
    if (std::isfinite(parts.scale(i))) continue;
    const int64_t n = parts.n_in / parts.scale_group();
    return fail(Code::corrupt, scales.label() + ": row " + std::to_string(i / n) + ", column " + std::to_string(i % n) +
                                   ": must be finite, is " + std::to_string(parts.scale(i)));
  }
  return {};
}

Result<HostWeight> assemble(bool has_exponents, const TensorPlaces& places, const std::string& name) {
  const std::string stored = name + std::string(kNumbers);
  QR_TRY(const TensorPlace numbers, part_of(places, stored, {"U8"}, {}, in_quotes(stored)));
  const std::string of = numbers.label();
  Fp4Parts parts;
  parts.has_exponents = has_exponents;
  parts.n_out = numbers.tensor->shape[0];
  const int64_t columns = numbers.tensor->shape[1];
  if (columns > kMostColumns / 2 || columns * 2 % parts.scale_group() != 0) {
    return fail(Code::unsupported, of + ": has shape " + shape_text(numbers.tensor->shape) + ", columns by " +
                                       std::to_string(parts.scale_group() / 2) + ", at most " +
                                       std::to_string(kMostColumns / 2) + ", are taken");
  }
  parts.n_in = columns * 2;
  const std::vector<int64_t> shape = {parts.n_out, parts.n_in / parts.scale_group()};
  const std::string part = name + std::string(kScales);
  QR_TRY(const TensorPlace scales,
         has_exponents ? part_of(places, part, {"U8"}, {shape}, of) : part_of(places, part, {"F8_E4M3"}, {shape}, of));
  if (!has_exponents) QR_TRY_VOID(find_divisor(places, name, of, parts));
  parts.numbers = numbers.bytes();
  parts.scales = scales.bytes();
  QR_TRY_VOID(check_finite(scales, parts));
  return fp4_weight(name + ".weight", parts);
}

QuantisedKind kind_of(Result<HostWeight> (*make)(const HfQuantisation&, const TensorPlaces&, const std::string&)) {
  return {.numbers = kNumbers,
          .type = "",
          .others = {kScales, kDivisor, ".input_global_scale", ".input_scale"},
          .numbers_of = [](const HfQuantisation&) { return int64_t{2}; },
          .assemble = make};
}

}  // namespace

const QuantisedKind& fp4_kind(bool has_exponents) {
  static const QuantisedKind kMx =
      kind_of([](const HfQuantisation&, const TensorPlaces& p, const std::string& n) { return assemble(true, p, n); });
  static const QuantisedKind kNv =
      kind_of([](const HfQuantisation&, const TensorPlaces& p, const std::string& n) { return assemble(false, p, n); });
  return has_exponents ? kMx : kNv;
}

}  // namespace quire
