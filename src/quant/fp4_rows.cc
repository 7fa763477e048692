#include "quant/fp4_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "quant/weights/f4_64.h"
#include "quant/weights/mxfp4.h"

namespace quire {
namespace {

class Fp4Rows final : public MadeRows {
 public:
  Fp4Rows(const Fp4Parts& parts, const WeightFormat* format) : parts_(parts), format_(format) {}

  std::string kind() const override {
    if (parts_.has_exponents) return "e2m1, exponents";
    return "e2m1, factor " + std::to_string(std::bit_cast<uint32_t>(parts_.factor)) + ", divisor " +
           std::to_string(std::bit_cast<uint32_t>(parts_.divisor));
  }
  std::vector<std::span<const std::byte>> stored() const override { return {parts_.numbers, parts_.scales}; }

  void make(int64_t first, int64_t n, std::byte* out) const override {
    const int64_t block = std::max<int64_t>(format_->block, parts_.scale_group());
    std::array<uint8_t, F4_64::kBlock> q;
    for (int64_t i = first * parts_.n_in; i < (first + n) * parts_.n_in; i += block) {
      for (int64_t k = 0; k < block; k += 2) {
        const auto two = static_cast<unsigned>(parts_.numbers[static_cast<size_t>((i + k) / 2)]);
        q[static_cast<size_t>(k)] = static_cast<uint8_t>(two & 15U);
        q[static_cast<size_t>(k + 1)] = static_cast<uint8_t>(two >> 4);
      }
      out = put(i / parts_.scale_group(), q.data(), out);
    }
  }

 private:
  // A block of the format, or a scale group of floats, of numbers q under the scales from `at` on.
  std::byte* put(int64_t at, const uint8_t* q, std::byte* out) const {
    if (format_->block == 1) {
      const float scale = parts_.scale(at);
      for (int64_t k = 0; k < parts_.scale_group(); ++k, out += 4) {
        store_as<float>(out, scale * (0.5F * static_cast<float>(Fp4Levels::value(q[k]))));
      }
      return out;
    }
    const std::byte* scales = parts_.scales.data() + at;
    if (parts_.has_exponents) {
      out[0] = scales[0];
      join_nibbles(q, out + 1);
    } else {
      F4_64::join(parts_.factor / parts_.divisor, reinterpret_cast<const uint8_t*>(scales), q, out);
    }
    return out + format_->bytes;
  }

  Fp4Parts parts_;
  const WeightFormat* format_;
};

}  // namespace

float Fp4Parts::scale(int64_t i) const {
  const auto byte = static_cast<uint8_t>(scales[static_cast<size_t>(i)]);
  if (!has_exponents) return e4m3_to_f32(byte) * factor / divisor;
  return byte == 255 ? NAN : std::ldexp(1.0F, byte - 127);
}

HostWeight fp4_weight(std::string name, const Fp4Parts& parts) {
  HostWeight out;
  out.name = std::move(name);
  const bool is_whole = parts.n_in % F4_64::kBlock == 0;
  out.format = find_weight_format(std::string_view(parts.has_exponents ? "mxfp4" : is_whole ? "f4_64" : "f32"));
  out.shape = {parts.n_out, parts.n_in};
  out.made = std::make_shared<Fp4Rows>(parts, out.format);
  return out;
}

}  // namespace quire
