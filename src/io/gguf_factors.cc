#include "io/gguf_factors.h"

#include <cmath>
#include <set>

#include "io/in_quotes.h"
#include "io/shape_text.h"
#include "quant/weights/f4_64.h"
#include "quant/weights/nvfp4.h"

namespace quire {
namespace {

constexpr std::string_view kWeight = ".weight", kFactor = ".scale";

class FactoredRows final : public MadeRows {
 public:
  FactoredRows(const HostWeight& weight, std::span<const std::byte> factors, int64_t rows_per_factor)
      : blocks_(weight.data),
        factors_(factors),
        rows_per_factor_(rows_per_factor),
        row_blocks_(weight.n_cols() / NVFP4::kBlock) {}

  std::string kind() const override { return "nvfp4 under factors of " + std::to_string(rows_per_factor_) + " rows"; }
  std::vector<std::span<const std::byte>> stored() const override { return {blocks_, factors_}; }

  void make(int64_t first, int64_t n, std::byte* out) const override {
    const std::byte* from = blocks_.data() + first * row_blocks_ * NVFP4::kBytes;
    for (int64_t row = first; row < first + n; ++row) {
      for (int64_t b = 0; b < row_blocks_; ++b, from += NVFP4::kBytes, out += F4_64::kBytes) {
        std::memcpy(out, factors_.data() + row / rows_per_factor_ * 4, 4);
        std::memcpy(out + F4_64::kFactorBytes, from, NVFP4::kBytes);
        for (std::byte* scale = out + F4_64::kFactorBytes; scale < out + F4_64::kFactorBytes + NVFP4::kScaleGroups;
             ++scale)
          *scale = static_cast<std::byte>(NVFP4::scale_byte(static_cast<uint8_t>(*scale)));
      }
    }
  }

 private:
  std::span<const std::byte> blocks_, factors_;
  int64_t rows_per_factor_, row_blocks_;
};
static_assert(F4_64::kBytes == F4_64::kFactorBytes + NVFP4::kBytes);

const HostWeight* factors_of(const ModelFile& file, std::string_view weight) {
  if (!weight.ends_with(kWeight)) return nullptr;
  const HostWeight* beside = file.find(std::string(weight) + std::string(kFactor));
  if (beside != nullptr) return beside;
  return file.find(std::string(weight.substr(0, weight.size() - kWeight.size())) + std::string(kFactor));
}

Status check(const HostWeight& weight, const HostWeight& factors) {
  const std::string label = "tensor " + in_quotes(factors.name) + ": ";
  if (factors.format->name != "f32")
    return fail(Code::unsupported,
                label + "type " + std::string(factors.format->name) + " is not supported (supported: f32)");
  const int64_t n = factors.n_rows() * factors.n_cols(), n_experts = weight.shape.size() == 3 ? weight.shape[0] : 1;
  if (n != 1 && n != n_experts) {
    return fail(Code::corrupt, label + "has shape " + shape_text(factors.shape) + ", 1 number wanted" +
                                   (n_experts > 1 ? " or " + std::to_string(n_experts) : ""));
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto factor = load_as<float>(factors.data.data() + 4 * i);
    if (!std::isfinite(factor)) {
      return fail(Code::corrupt,
                  label + "number " + std::to_string(i) + ": must be finite, is " + std::to_string(factor));
    }
  }
  return {};
}

}  // namespace

Status take_factors(ModelFile& file) {
  std::set<std::string> taken;
  for (HostWeight& weight : file.tensors) {
    if (weight.format->name != NVFP4::kName || weight.shape.size() < 2) continue;
    const HostWeight* factors = factors_of(file, weight.name);
    if (factors == nullptr || factors->shape == std::vector<int64_t>{weight.n_cols()})
      continue;  // gains of what it reads
    QR_TRY_VOID(check(weight, *factors));
    const int64_t n_factors = factors->n_rows() * factors->n_cols();
    weight.made = std::make_shared<FactoredRows>(weight, factors->data, weight.n_rows() / n_factors);
    weight.format = find_weight_format(F4_64::kName);
    weight.data = {};
    taken.insert(factors->name);
  }
  std::erase_if(file.tensors, [&](const HostWeight& weight) { return taken.contains(weight.name); });
  return {};
}

}  // namespace quire
