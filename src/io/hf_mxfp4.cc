// Experts in MXFP4 as gpt-oss's folders have them, all of a layer in one tensor: NAME_blocks, bytes of two numbers
// [experts, outputs, groups, 16], and NAME_scales, an exponent for each group of 32 inputs [experts, outputs, groups].
// Source: the dequantisation of transformers 5.24 (convert_moe_packed_tensors).
#include <algorithm>

#include "io/in_quotes.h"
#include "io/quantised_kinds.h"
#include "io/shape_text.h"
#include "quant/fp4_rows.h"

namespace quire {
namespace {

constexpr std::string_view kNumbers = "_blocks", kScales = "_scales";
constexpr int64_t kGroupBytes = 16;

Status check_shape(const TensorPlace& numbers) {
  const std::vector<int64_t>& shape = numbers.tensor->shape;
  if (shape.size() != 4 || shape[3] != kGroupBytes) {
    return fail(Code::corrupt, numbers.label() + ": has shape " + shape_text(shape) +
                                   ", four dimensions, the last of " + std::to_string(kGroupBytes) + ", wanted");
  }
  return check_columns(numbers, shape[2], 2 * kGroupBytes);
}

Status check_finite(const TensorPlace& scales) {
  const auto found = std::ranges::find(scales.bytes(), std::byte{255});
  if (found == scales.bytes().end()) return {};
  return fail(Code::corrupt, scales.label() + ": number " + std::to_string(found - scales.bytes().begin()) +
                                 ": must be finite, is 255");
}

// The weight `name`_blocks, [experts, outputs, inputs].
Result<HostWeight> assemble(const HfQuantisation&, const TensorPlaces& places, const std::string& name) {
  const std::string stored = name + std::string(kNumbers);
  const auto found = places.find(stored);  // REQUIRED of the caller
  const std::vector<std::vector<int64_t>> any = {found->second.tensor->shape};
  QR_TRY(const TensorPlace numbers, part_of(places, stored, {"U8"}, any, in_quotes(stored)));
  QR_TRY_VOID(check_shape(numbers));
  const std::vector<int64_t>& shape = numbers.tensor->shape;
  const std::vector<int64_t> one_each(shape.begin(), shape.end() - 1);
  QR_TRY(const TensorPlace scales, part_of(places, name + std::string(kScales), {"U8"}, {one_each}, numbers.label()));
  Fp4Parts parts;
  parts.n_out = shape[0] * shape[1];
  parts.n_in = shape[2] * 2 * kGroupBytes;
  parts.numbers = numbers.bytes();
  parts.scales = scales.bytes();
  QR_TRY_VOID(check_finite(scales));
  HostWeight out = fp4_weight(stored, parts);
  out.shape = {shape[0], shape[1], parts.n_in};
  return out;
}

}  // namespace

const QuantisedKind& mxfp4_blocks_kind() {
  static const QuantisedKind kKind{.numbers = kNumbers,
                                   .type = "",
                                   .others = {kScales},
                                   .numbers_of = [](const HfQuantisation&) { return int64_t{2}; },
                                   .assemble = &assemble,
                                   .plain = ""};
  return kKind;
}

}  // namespace quire
