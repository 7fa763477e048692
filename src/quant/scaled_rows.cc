#include "quant/scaled_rows.h"

#include <cmath>
#include <cstring>

#include "quant/f16.h"

namespace quire {
namespace {

const WeightFormat* format_of(const ScaledParts& parts) {
  const bool has_one = parts.n_scale_columns() == 1;
  for (const char* name : {"f8_128", "f8_32"}) {
    const WeightFormat* format = find_weight_format(std::string_view(name));
    if (parts.n_in % format->block == 0 && (has_one || parts.scale_columns % format->block == 0)) return format;
  }
  return find_weight_format(std::string_view("f32"));
}

class ScaledRows final : public MadeRows {
 public:
  ScaledRows(const ScaledParts& parts, const WeightFormat* format) : parts_(parts), format_(format) {}

  std::string kind() const override {
    return std::string("e4m3, ") + (parts_.scale_format == nullptr ? "exponents of " : "scales of ") +
           std::to_string(parts_.scale_rows) + " x " + std::to_string(parts_.scale_columns) + ", " +
           std::string(format_->name);
  }
  std::vector<std::span<const std::byte>> stored() const override { return {parts_.numbers, parts_.scales}; }

  void make(int64_t first, int64_t n, std::byte* out) const override {
    for (int64_t row = first; row < first + n; ++row, out += format_->row_bytes(parts_.n_in)) {
      if (format_->block == 1) {
        put_floats(row, out);
      } else {
        put_blocks(row, out);
      }
    }
  }

 private:
  float scale(int64_t row, int64_t column) const {
    return parts_.scale(row / parts_.scale_rows * parts_.n_scale_columns() + column / parts_.scale_columns);
  }
  void put_blocks(int64_t row, std::byte* out) const {
    const std::byte* from = parts_.numbers.data() + row * parts_.n_in;
    for (int64_t k = 0; k < parts_.n_in; k += format_->block, out += format_->bytes) {
      store_as<float>(out, scale(row, k));
      std::memcpy(out + 4, from + k, static_cast<size_t>(format_->block));
    }
  }
  void put_floats(int64_t row, std::byte* out) const {
    const std::byte* from = parts_.numbers.data() + row * parts_.n_in;
    for (int64_t k = 0; k < parts_.n_in; ++k) {
      store_as<float>(out + 4 * k, scale(row, k) * e4m3_to_f32(static_cast<uint8_t>(from[k])));
    }
  }

  ScaledParts parts_;
  const WeightFormat* format_;
};

}  // namespace

float ScaledParts::scale(int64_t i) const {
  if (scale_format == nullptr) {
    const auto byte = static_cast<uint8_t>(scales[static_cast<size_t>(i)]);
    return byte == 255 ? NAN : std::ldexp(1.0F, byte - 127);
  }
  float out = 0;
  scale_format->decode(scales.data() + i * scale_format->bytes, &out);
  return out;
}

HostWeight scaled_weight(std::string name, const ScaledParts& parts) {
  HostWeight out;
  out.name = std::move(name);
  out.format = format_of(parts);
  out.shape = {parts.n_out, parts.n_in};
  out.made = std::make_shared<ScaledRows>(parts, out.format);
  return out;
}

}  // namespace quire
