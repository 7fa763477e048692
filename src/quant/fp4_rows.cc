#include "quant/fp4_rows.h"

#include <array>
#include <cmath>
#include <memory>

#include "quant/weights/mxfp4.h"

namespace quire {
namespace {

class Fp4Rows final : public MadeRows {
 public:
  Fp4Rows(const Fp4Parts& parts, const WeightFormat* format) : parts_(parts), format_(format) {}

  std::string kind() const override {
    if (parts_.has_exponents) return "e2m1, exponents";
    return "e2m1, divisor " + std::to_string(std::bit_cast<uint32_t>(parts_.divisor));
  }
  std::vector<std::span<const std::byte>> stored() const override { return {parts_.numbers, parts_.scales}; }

  void make(int64_t first, int64_t n, std::byte* out) const override {
    const int64_t scale_group = parts_.scale_group(), n_scale_groups = parts_.n_in / scale_group;
    for (int64_t i = first * n_scale_groups; i < (first + n) * n_scale_groups; ++i) {
      std::array<uint8_t, 32> q;
      for (int64_t k = 0; k < scale_group; k += 2) {
        const auto two = static_cast<unsigned>(parts_.numbers[static_cast<size_t>((i * scale_group + k) / 2)]);
        q[static_cast<size_t>(k)] = static_cast<uint8_t>(two & 15U);
        q[static_cast<size_t>(k + 1)] = static_cast<uint8_t>(two >> 4);
      }
      if (format_->block == 1) {
        const float scale = parts_.scale(i);
        for (int64_t k = 0; k < scale_group; ++k, out += 4) {
          store_as<float>(out, scale * (0.5F * static_cast<float>(MXFP4::Levels::value(q[static_cast<size_t>(k)]))));
        }
      } else {
        out[0] = parts_.scales[static_cast<size_t>(i)];
        join_nibbles(q.data(), out + 1);
        out += format_->bytes;
      }
    }
  }

 private:
  Fp4Parts parts_;
  const WeightFormat* format_;
};

}  // namespace

float Fp4Parts::scale(int64_t i) const {
  const auto byte = static_cast<uint8_t>(scales[static_cast<size_t>(i)]);
  if (!has_exponents) return e4m3_to_f32(byte) / divisor;
  return byte == 255 ? NAN : std::ldexp(1.0F, byte - 127);
}

HostWeight fp4_weight(std::string name, const Fp4Parts& parts) {
  HostWeight out;
  out.name = std::move(name);
  out.format = find_weight_format(std::string_view(parts.has_exponents ? "mxfp4" : "f32"));
  out.shape = {parts.n_out, parts.n_in};
  out.made = std::make_shared<Fp4Rows>(parts, out.format);
  return out;
}

}  // namespace quire
