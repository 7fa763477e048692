#include "quant/ternary_rows.h"

#include <array>
#include <cmath>
#include <memory>

#include "quant/f16.h"
#include "quant/weights/f4_64.h"
#include "quant/weights/tq2_0.h"

namespace quire {
namespace {

constexpr int kPerByte = 4;
constexpr uint8_t kOne = 0x38;                               // in e4m3
constexpr std::array<uint8_t, 4> kSmallFloats{10, 0, 2, 4};  // −1, 0, 1 and 2 in e2m1

const WeightFormat* format_of(const TernaryParts& parts) {
  const bool is_half = f16_to_f32(f32_to_f16(parts.scale)) == parts.scale;
  if (parts.n_in % TQ2_0::kBlock == 0 && is_half) return find_weight_format(std::string_view("tq2_0"));
  return find_weight_format(std::string_view(parts.n_in % F4_64::kBlock == 0 ? "f4_64" : "f32"));
}

class TernaryRows final : public MadeRows {
 public:
  TernaryRows(const TernaryParts& parts, const WeightFormat* format) : parts_(parts), format_(format) {}

  std::string kind() const override {
    return "ternary, scale " + std::to_string(std::bit_cast<uint32_t>(parts_.scale)) + ", " +
           std::string(format_->name);
  }
  std::vector<std::span<const std::byte>> stored() const override { return {parts_.numbers}; }

  void make(int64_t first, int64_t n, std::byte* out) const override {
    KParts whole{};
    set_ternary_scales(f32_to_f16(parts_.scale), whole);
    for (int64_t row = first; row < first + n; ++row) {
      const std::byte* from = parts_.numbers.data() + row % parts_.n_packed * parts_.n_in;
      const auto shift = static_cast<unsigned>(2 * (row / parts_.n_packed));
      for (int64_t k = 0; k < parts_.n_in; k += format_->block, from += format_->block, out += format_->bytes) {
        for (int64_t i = 0; i < format_->block; ++i)
          whole.q[i] = static_cast<uint8_t>(static_cast<unsigned>(from[i]) >> shift & 3U);
        put(whole, out);
      }
    }
  }

 private:
  // The numbers at the beginning of `whole`, as a block of the format.
  void put(const KParts& whole, std::byte* out) const {
    if (format_->block == TQ2_0::kBlock) return TQ2_0::join(whole, out);
    if (format_->block == 1) return store_as<float>(out, parts_.scale * static_cast<float>(whole.q[0] - 1));
    std::array<uint8_t, F4_64::kBlock> q;
    for (size_t i = 0; i < q.size(); ++i) q[i] = kSmallFloats[whole.q[i]];
    const std::array<uint8_t, 4> scales{kOne, kOne, kOne, kOne};
    F4_64::join(parts_.scale, scales.data(), q.data(), out);
  }

  TernaryParts parts_;
  const WeightFormat* format_;
};

}  // namespace

HostWeight ternary_weight(std::string name, const TernaryParts& parts) {
  HostWeight out;
  out.name = std::move(name);
  out.format = format_of(parts);
  out.shape = {kPerByte * parts.n_packed, parts.n_in};
  out.made = std::make_shared<TernaryRows>(parts, out.format);
  return out;
}

}  // namespace quire
