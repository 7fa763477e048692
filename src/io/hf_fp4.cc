// Weights in four-bit floats, as compressed-tensors stores them: NAME.weight_packed, numbers in e2m1, and
// NAME.weight_scale, a byte for each scale group; of NVFP4 also NAME.weight_global_scale, which scales are divided by.
// ModelOpt calls NVFP4's numbers NAME.weight, and scales are multiplied with NAME.weight_scale_2.
#include <cmath>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"
#include "io/quantised_kinds.h"
#include "io/shape_text.h"
#include "quant/f16.h"
#include "quant/fp4_rows.h"

namespace quire {
namespace {

constexpr std::string_view kScales = ".weight_scale", kDivisor = ".weight_global_scale", kFactor = ".weight_scale_2";

struct Names {
  std::string_view numbers;
  bool has_exponents;
  std::string_view of_all;  // what all scales are divided by or multiplied with; empty: nothing
};
constexpr Names kNames[] = {{".weight_packed", true, ""},         // Fp4Folder::mx
                            {".weight_packed", false, kDivisor},  // Fp4Folder::nv
                            {".weight", false, kFactor}};         // Fp4Folder::modelopt

// The factor or the divisor of Fp4Parts: one number, and of a divisor one whose inverse is finite too.
Status find_number(
    const TensorPlaces& places, const std::string& name, const std::string& of, bool divides, float& out) {
  QR_TRY(const TensorPlace place, part_of(places, name, {"F32"}, {{1}, {}, {1, 1}}, of));
  out = load_as<float>(place.bytes().data());
  if (std::isfinite(out) && out >= (divides ? 0x1p-126F : 0.0F)) return {};
  return fail(Code::corrupt, place.label() + ": must be finite and at least " + (divides ? "2^-126" : "0") + ", is " +
                                 shown_number(out));
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

Result<HostWeight> assemble(const Names& names, const TensorPlaces& places, const std::string& name) {
  const std::string stored = name + std::string(names.numbers);
  QR_TRY(const TensorPlace numbers, part_of(places, stored, {"U8"}, {}, in_quotes(stored)));
  const std::string of = numbers.label();
  Fp4Parts parts;
  parts.has_exponents = names.has_exponents;
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
  QR_TRY(const TensorPlace scales, names.has_exponents ? part_of(places, part, {"U8"}, {shape}, of)
                                                       : part_of(places, part, {"F8_E4M3"}, {shape}, of));
  if (!names.of_all.empty()) {
    const bool divides = names.of_all == kDivisor;
    float& number = divides ? parts.divisor : parts.factor;
    QR_TRY_VOID(find_number(places, name + std::string(names.of_all), of, divides, number));
  }
  parts.numbers = numbers.bytes();
  parts.scales = scales.bytes();
  QR_TRY_VOID(check_finite(scales, parts));
  return fp4_weight(name + ".weight", parts);
}

template <size_t kAt>
QuantisedKind kind_of() {
  return {.numbers = kNames[kAt].numbers,
          .type = kNames[kAt].numbers == ".weight" ? "U8" : "",
          .others = {kScales, kDivisor, kFactor},
          .numbers_of = [](const HfQuantisation&) { return int64_t{2}; },
          .assemble = [](const HfQuantisation&, const TensorPlaces& places,
                         const std::string& name) { return assemble(kNames[kAt], places, name); },
          .passed_over = {".input_global_scale", ".input_scale"}};
}

}  // namespace

const QuantisedKind& fp4_kind(Fp4Folder folder) {
  static const QuantisedKind kKinds[] = {kind_of<0>(), kind_of<1>(), kind_of<2>()};
  return kKinds[static_cast<size_t>(folder)];
}

}  // namespace quire
