// FP8 weights: bytes in e4m3, NAME.weight, and scales of blocks, rows or all of them, NAME.weight_scale_inv (which
// numbers are multiplied with all the same) or NAME.weight_scale. What activations were divided by where the folder was
// made (input_scale, activation_scale) is passed over.
#include <cmath>

#include "io/in_quotes.h"
#include "io/quantised_kinds.h"
#include "quant/scaled_rows.h"

namespace quire {
namespace {

constexpr std::string_view kNumbers = ".weight", kInverse = ".weight_scale_inv", kScale = ".weight_scale";

Status check_finite(const TensorPlace& scales, const ScaledParts& parts) {
  for (int64_t i = 0; i < parts.n_scales(); ++i) {
    const float scale = parts.scale(i);
    if (std::isfinite(scale)) continue;
    return fail(Code::corrupt,
                scales.label() + ": number " + std::to_string(i) + ": must be finite, is " + std::to_string(scale));
  }
  return {};
}

// Shapes that this many scales may have.
std::vector<std::vector<int64_t>> shapes_of(int64_t rows, int64_t columns) {
  std::vector<std::vector<int64_t>> out = {{rows, columns}};
  if (columns == 1) out.push_back({rows});
  if (rows == 1 && columns == 1) out.push_back({});
  return out;
}

Result<HostWeight> assemble(const HfQuantisation& how, const TensorPlaces& places, const std::string& name) {
  const std::string stored = name + std::string(kNumbers);
  QR_TRY(const TensorPlace numbers, part_of(places, stored, {"F8_E4M3"}, {}, in_quotes(stored)));
  ScaledParts parts;
  parts.n_out = numbers.tensor->shape[0];
  parts.n_in = numbers.tensor->shape[1];
  QR_TRY_VOID(check_columns(numbers, parts.n_in));
  const bool has_inverse = places.contains(name + std::string(kInverse));
  const std::string part = name + std::string(has_inverse ? kInverse : kScale);
  parts.scale_rows = how.scale_rows == 0 ? parts.n_out : how.scale_rows;
  parts.scale_columns = how.scale_columns == 0 ? parts.n_in : how.scale_columns;
  auto shapes = shapes_of(parts.n_scale_rows(), parts.n_scale_columns());
  const std::vector<int64_t> rows = {parts.n_out, 1};
  if (how.scale_rows == 0) shapes.push_back(rows);  // some writers give every row its own all the same
  QR_TRY(const TensorPlace scales, how.has_exponents ? part_of(places, part, {"U8"}, shapes, numbers.label())
                                                     : scales_of(places, part, shapes, numbers.label()));
  if (how.scale_rows == 0 && scales.tensor->shape == rows) parts.scale_rows = 1;
  parts.numbers = numbers.bytes();
  parts.scales = scales.bytes();
  if (!how.has_exponents) parts.scale_format = scale_format_of(scales);
  QR_TRY_VOID(check_finite(scales, parts));
  return scaled_weight(name + ".weight", parts);
}

int64_t numbers_of(const HfQuantisation&) { return 1; }

}  // namespace

const QuantisedKind& scaled_kind() {
  static const QuantisedKind kKind{.numbers = kNumbers,
                                   .type = "F8_E4M3",
                                   .others = {kInverse, kScale},
                                   .numbers_of = &numbers_of,
                                   .assemble = &assemble,
                                   .passed_over = {".input_scale", ".activation_scale", ".output_scale"}};
  return kKind;
}

}  // namespace quire
