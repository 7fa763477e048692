#include "quant/table_rows.h"

#include <memory>

#include "quant/f16.h"

namespace quire {
namespace {

class TableRows final : public MadeRows {
 public:
  explicit TableRows(TableParts parts) : parts_(std::move(parts)) {}

  std::string kind() const override {
    std::string out = "table of";
    for (const float level : parts_.table) out += " " + std::to_string(std::bit_cast<uint32_t>(level));
    out += ", blocks of " + std::to_string(parts_.block);
    if (parts_.scale_table.empty()) return out;
    out += ", scales of";
    for (const float level : parts_.scale_table) out += " " + std::to_string(std::bit_cast<uint32_t>(level));
    return out + ", blocks of " + std::to_string(parts_.outer_block) + ", offset " +
           std::to_string(std::bit_cast<uint32_t>(parts_.offset));
  }
  std::vector<std::span<const std::byte>> stored() const override {
    return {parts_.numbers, parts_.scales, parts_.outer_scales};
  }
  void make(int64_t first, int64_t n, std::byte* out) const override {
    const int64_t begin = first * parts_.n_in, end = begin + n * parts_.n_in;
    float scale = begin < end ? parts_.scale(begin / parts_.block) : 0.0F;
    for (int64_t i = begin; i < end; ++i) {
      if (i % parts_.block == 0) scale = parts_.scale(i / parts_.block);
      const auto two = static_cast<unsigned>(parts_.numbers[static_cast<size_t>(i / 2)]);
      const float level = parts_.table[i % 2 == 0 ? two >> 4 : two & 15U];
      store_as<float>(out + (i - begin) * 4, level * scale);
    }
  }

 private:
  TableParts parts_;
};

}  // namespace

float TableParts::scale(int64_t at) const {
  if (scale_table.empty()) return load_as<float>(scales.data() + 4 * at);
  const float level = scale_table[static_cast<size_t>(scales[static_cast<size_t>(at)])];
  const float inner = level * load_as<float>(outer_scales.data() + at / outer_block * 4);
  return inner + offset;
}

HostWeight table_weight(std::string name, TableParts parts) {
  HostWeight out;
  out.name = std::move(name);
  out.format = find_weight_format(std::string_view("f32"));
  out.shape = {parts.n_out, parts.n_in};
  out.made = std::make_shared<TableRows>(std::move(parts));
  return out;
}

}  // namespace quire
