#include "io/quantised_kinds.h"

#include <algorithm>
#include <charconv>

#include "io/in_quotes.h"
#include "io/shape_text.h"

namespace quire {

std::string TensorPlace::label() const { return file->name + ": tensor " + in_quotes(tensor->name); }

std::span<const std::byte> TensorPlace::bytes() const {
  return file->map->bytes().subspan(static_cast<size_t>(tensor->offset), static_cast<size_t>(tensor->bytes));
}

Result<TensorPlace> part_of(const TensorPlaces& places,
                            const std::string& name,
                            std::initializer_list<std::string_view> types,
                            const std::vector<std::vector<int64_t>>& shapes,
                            const std::string& of) {
  const auto found = places.find(name);
  if (found == places.end()) {
    return fail(Code::not_found, of + ": " + in_quotes(name) + " is missing" +
                                     (shapes.empty() ? "" : ", shape " + shape_text(shapes.front()) + " wanted"));
  }
  const SafeTensor& tensor = *found->second.tensor;
  if (std::ranges::find(types, tensor.dtype) == types.end()) {
    std::string known;
    for (const std::string_view type : types) known += (known.empty() ? "" : ", ") + std::string(type);
    return fail(Code::unsupported,
                found->second.label() + ": dtype " + tensor.dtype + " is not supported (supported: " + known + ")");
  }
  const bool fits = shapes.empty() ? tensor.shape.size() == 2 : std::ranges::find(shapes, tensor.shape) != shapes.end();
  if (!fits) {
    return fail(Code::corrupt, found->second.label() + ": has shape " + shape_text(tensor.shape) + ", " +
                                   (shapes.empty() ? "two dimensions" : shape_text(shapes.front())) + " wanted");
  }
  return found->second;
}

Result<TensorPlace> scales_of(const TensorPlaces& places,
                              const std::string& name,
                              const std::vector<std::vector<int64_t>>& shapes,
                              const std::string& of) {
  return part_of(places, name, {"F16", "BF16", "F32"}, shapes, of);
}

const WeightFormat* scale_format_of(const TensorPlace& scales) {
  const std::string& type = scales.tensor->dtype;
  return find_weight_format(std::string_view(type == "F16" ? "f16" : type == "BF16" ? "bf16" : "f32"));
}

std::string shown_number(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

Status check_columns(const TensorPlace& numbers, int64_t n, int64_t per) {
  if (n <= kMostColumns / per) return {};
  return fail(Code::unsupported, numbers.label() + ": has shape " + shape_text(numbers.tensor->shape) + ", at most " +
                                     std::to_string(kMostColumns) + " inputs are taken");
}

}  // namespace quire
