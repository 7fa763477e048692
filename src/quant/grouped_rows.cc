#include "quant/grouped_rows.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "quant/weights/q4_0.h"
#include "quant/weights/q4_z128.h"
#include "quant/weights/q4_z32.h"
#include "quant/weights/q8_0.h"
#include "quant/weights/q8_z32.h"

namespace quire {
namespace {

constexpr int64_t kWordBytes = 4;
constexpr std::byte kTopBit{0x80};  // of a signed byte: the same number from 0 on
// Where the eight outputs of one of awq's words lie.
constexpr std::array<int, 8> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t word_at(std::span<const std::byte> words, int64_t i) {
  return load_as<uint32_t>(words.data() + i * kWordBytes);
}

using PutBlock = void (*)(uint16_t d, uint8_t zero, const uint8_t* q, std::byte* block);

void put_q4_0(uint16_t d, uint8_t /*zero*/, const uint8_t* q, std::byte* block) {
  store_as<uint16_t>(block, d);
  join_nibbles(q, block + 2);
}
void put_q8_0(uint16_t d, uint8_t /*zero*/, const uint8_t* q, std::byte* block) {
  store_as<uint16_t>(block, d);
  for (int i = 0; i < Q8_0::kBlock; ++i) block[2 + i] = static_cast<std::byte>(q[i] ^ 0x80U);
}

// A format and what writes its blocks; null: f32.
struct Target {
  const WeightFormat* format;
  PutBlock put;
};

// Columns in the order of their scale groups; empty where they are in it.
std::vector<int32_t> order_of(const std::vector<int32_t>& scale_group_of) {
  if (std::ranges::is_sorted(scale_group_of)) return {};
  std::vector<int32_t> out(scale_group_of.size());
  std::iota(out.begin(), out.end(), 0);
  std::ranges::stable_sort(out, {}, [&](int32_t column) { return scale_group_of[static_cast<size_t>(column)]; });
  return out;
}

// Whether blocks of n columns, in order, are each of one scale group.
bool holds_blocks(const GroupedParts& parts, const std::vector<int32_t>& order, int64_t n) {
  if (parts.n_in % n != 0) return false;
  for (int64_t j = 0; j < parts.n_in; ++j) {
    const auto scale_group = [&](int64_t at) {
      return parts.scale_group_of[static_cast<size_t>(order.empty() ? at : order[static_cast<size_t>(at)])];
    };
    if (scale_group(j) != scale_group(j - j % n)) return false;
  }
  return true;
}

bool all_scales_are_half(const GroupedParts& parts) {
  if (parts.scale_format->name == "f16" && parts.scale_factor == 1) return true;
  for (int64_t i = 0; i < parts.n_scale_groups * parts.n_out; ++i) {
    const float scale = parts.scale(i / parts.n_out, i % parts.n_out);
    if (f16_to_f32(f32_to_f16(scale)) != scale) return false;
  }
  return true;
}

bool all_zeros_are(const GroupedParts& parts, uint8_t zero) {
  for (int64_t i = 0; i < parts.n_scale_groups * parts.n_out; ++i) {
    if (parts.zero(i / parts.n_out, i % parts.n_out) != zero) return false;
  }
  return true;
}

// The smallest format that holds them; of two the one whose kernels have no zeros to do.
Target target_of(const GroupedParts& parts, const std::vector<int32_t>& order) {
  const Target dense{find_weight_format(std::string_view("f32")), nullptr};
  if (!holds_blocks(parts, order, kPanelDepth) || !all_scales_are_half(parts)) return dense;
  const bool has_four_bits = parts.bits == 4;
  if (has_four_bits && holds_blocks(parts, order, Q4_Z128::kBlock))
    return {find_weight_format(Q4_Z128::kName), &Q4_Z128::join};
  const bool is_plain = all_zeros_are(parts, static_cast<uint8_t>(1 << (parts.bits - 1)));
  if (!has_four_bits && is_plain) return {find_weight_format(Q8_0::kName), &put_q8_0};
  if (!has_four_bits) return {find_weight_format(Q8_Z32::kName), &Q8_Z32::join};
  if (is_plain) return {find_weight_format(Q4_0::kName), &put_q4_0};
  return {find_weight_format(Q4_Z32::kName), &Q4_Z32::join};
}

class GroupedRows final : public MadeRows {
 public:
  GroupedRows(GroupedParts parts, std::vector<int32_t> order, const Target& target)
      : parts_(std::move(parts)), order_(std::move(order)), target_(target) {}

  std::string kind() const override {
    constexpr const char* kLayouts[] = {"gptq ", "awq ", "rows ", "bytes "};
    return kLayouts[static_cast<size_t>(parts_.layout)] + std::to_string(parts_.bits) +
           (parts_.zeros_less_one ? " bits, zeros less one, " : " bits, ") +
           (parts_.has_one_scale ? "one scale, " : "") + (parts_.scale_factor == 1 ? "" : "scales of 127, ") +
           std::to_string(parts_.n_scale_groups) + " groups, " + std::string(target_.format->name);
  }
  std::vector<std::span<const std::byte>> stored() const override {
    return {parts_.numbers, parts_.zeros, parts_.scales, parts_.stored_scale_groups};
  }
  std::span<const int32_t> order() const override { return order_; }

  void make(int64_t first, int64_t n, std::byte* out) const override {
    std::vector<uint8_t> numbers(static_cast<size_t>(n * parts_.n_in));
    switch (parts_.layout) {
      case GroupedParts::Layout::gptq: unpack_gptq(first, n, numbers.data()); break;
      case GroupedParts::Layout::awq: unpack_awq(first, n, numbers.data()); break;
      case GroupedParts::Layout::rows: unpack_rows(first, n, numbers.data()); break;
      case GroupedParts::Layout::bytes: unpack_bytes(first, n, numbers.data()); break;
    }
    const int64_t row_bytes = target_.format->row_bytes(parts_.n_in);
    for (int64_t r = 0; r < n; ++r) {
      const uint8_t* row = numbers.data() + r * parts_.n_in;
      if (target_.put != nullptr) put_blocks(first + r, row, out + r * row_bytes);
      if (target_.put == nullptr) put_floats(first + r, row, out + r * row_bytes);
    }
  }

 private:
  // Rows' numbers, [n, n_in]. Rows are inside: those of a word or a line of memory are read together.
  void unpack_word(uint32_t word, uint8_t* out) const {
    const uint32_t mask = (1U << parts_.bits) - 1;
    for (int i = 0; i < parts_.per_word(); ++i, word >>= parts_.bits) out[i] = static_cast<uint8_t>(word & mask);
  }
  void unpack_gptq(int64_t first, int64_t n, uint8_t* out) const {
    const int per = parts_.per_word();
    for (int64_t w = 0; w < parts_.n_in / per; ++w) {
      for (int64_t r = 0; r < n; ++r) {
        unpack_word(word_at(parts_.numbers, w * parts_.n_out + first + r), out + r * parts_.n_in + w * per);
      }
    }
  }
  void unpack_rows(int64_t first, int64_t n, uint8_t* out) const {
    const int64_t n_words = parts_.n_in / parts_.per_word();
    for (int64_t w = 0; w < n * n_words; ++w) {
      unpack_word(word_at(parts_.numbers, first * n_words + w), out + w * parts_.per_word());
    }
  }
  void unpack_bytes(int64_t first, int64_t n, uint8_t* out) const {
    const std::byte* from = parts_.numbers.data() + first * parts_.n_in;
    for (int64_t i = 0; i < n * parts_.n_in; ++i) out[i] = static_cast<uint8_t>(from[i] ^ kTopBit);
  }
  void unpack_awq(int64_t first, int64_t n, uint8_t* out) const {
    for (int64_t k = 0; k < parts_.n_in; ++k) {
      for (int64_t r = 0; r < n; ++r) {
        const int64_t row = first + r;
        const uint32_t word = word_at(parts_.numbers, k * (parts_.n_out / 8) + row / 8);
        out[r * parts_.n_in + k] = static_cast<uint8_t>(word >> (4 * kAwqPlaces[static_cast<size_t>(row % 8)]) & 15U);
      }
    }
  }

  int64_t column(int64_t j) const { return order_.empty() ? j : order_[static_cast<size_t>(j)]; }

  void put_blocks(int64_t row, const uint8_t* numbers, std::byte* out) const {
    const int block = target_.format->block;
    std::array<uint8_t, 128> q;
    for (int64_t at = 0; at < parts_.n_in; at += block, out += target_.format->bytes) {
      for (int i = 0; i < block; ++i) q[static_cast<size_t>(i)] = numbers[column(at + i)];
      const int64_t scale_group = parts_.scale_group_of[static_cast<size_t>(column(at))];
      target_.put(f32_to_f16(parts_.scale(scale_group, row)), parts_.zero(scale_group, row), q.data(), out);
    }
  }
  void put_floats(int64_t row, const uint8_t* numbers, std::byte* out) const {
    for (int64_t k = 0; k < parts_.n_in; ++k) {
      const int64_t scale_group = parts_.scale_group_of[static_cast<size_t>(k)];
      const int beyond = int{numbers[k]} - int{parts_.zero(scale_group, row)};
      store_as<float>(out + k * 4, parts_.scale(scale_group, row) * static_cast<float>(beyond));
    }
  }

  GroupedParts parts_;
  std::vector<int32_t> order_;
  Target target_;
};

}  // namespace

float GroupedParts::scale(int64_t scale_group, int64_t row) const {
  float out = 0;
  const int64_t at = is_by_rows() ? row * n_scale_groups + scale_group : scale_group * n_out + row;
  scale_format->decode(scales.data() + (has_one_scale ? 0 : at) * scale_format->bytes, &out);
  return out * scale_factor;
}

uint8_t GroupedParts::zero(int64_t scale_group, int64_t row) const {
  if (zeros.empty()) return static_cast<uint8_t>(1U << (bits - 1));
  if (layout == Layout::bytes) {
    return static_cast<uint8_t>(zeros[static_cast<size_t>(has_one_scale ? 0 : row * n_scale_groups + scale_group)] ^
                                kTopBit);
  }
  const int64_t per = per_word();
  uint32_t word = word_at(zeros, layout == Layout::rows ? row / per * n_scale_groups + scale_group
                                                        : scale_group * n_zero_words() + row / per);
  // The writers subtract from and add to whole words, so that what one place borrows the next gives back.
  if (zeros_less_one) word += bits == 4 ? 0x11111111U : 0x01010101U;
  const auto in_word = static_cast<int>(row % per);
  const int place = layout == Layout::awq ? kAwqPlaces[static_cast<size_t>(in_word)] : in_word;
  return static_cast<uint8_t>(word >> (bits * place) & ((1U << bits) - 1));
}

HostWeight grouped_weight(std::string name, GroupedParts parts) {
  std::vector<int32_t> order = order_of(parts.scale_group_of);
  const Target target = target_of(parts, order);
  if (target.put == nullptr) order.clear();
  HostWeight out;
  out.name = std::move(name);
  out.format = target.format;
  out.shape = {parts.n_out, parts.n_in};
  out.made = std::make_shared<GroupedRows>(std::move(parts), std::move(order), target);
  return out;
}

}  // namespace quire
