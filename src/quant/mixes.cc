#include "quant/mixes.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

constexpr Mix kMixes[] = {
    // name, file type, base, head, values, keys, output, down
    {"q3_k_s", 11, "q3_k", "q6_k", "q5_k", "q3_k", "q3_k", "q3_k"},
    {"q3_k_m", 12, "q3_k", "q6_k", "q5_k", "q4_k", "q4_k", "q3_k"},
    {"q3_k_l", 13, "q3_k", "q6_k", "q6_k", "q5_k", "q5_k", "q4_k"},
    {"q4_k_s", 14, "q4_k", "q6_k", "q6_k", "q4_k", "q4_k", "q4_k"},
    {"q4_k_m", 15, "q4_k", "q6_k", "q6_k", "q6_k", "q6_k", "q4_k"},
    {"q5_k_s", 16, "q5_k", "q6_k", "q6_k", "q5_k", "q5_k", "q5_k"},
    {"q5_k_m", 17, "q5_k", "q6_k", "q8_0", "q6_k", "q6_k", "q5_k"},
};

bool has_part(std::string_view tensor, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return tensor.find(part) != std::string_view::npos; });
}

constexpr std::string_view kValues[] = {".attn_v.", ".attn_kv_b.", ".attn_v_b."};
constexpr std::string_view kKeys[] = {".attn_k.", ".attn_k_b.", ".attn_kv_a_mqa."};
constexpr std::string_view kOutput[] = {".attn_output.", ".attn_qkv."};
constexpr std::string_view kDown[] = {".ffn_down"};

std::string_view format_name(const Mix& mix, std::string_view tensor, bool tied) {
  if (tensor == (tied ? "token_embd.weight" : "output.weight")) return mix.head;
  if (has_part(tensor, kValues)) return mix.values;
  if (has_part(tensor, kKeys)) return mix.keys;
  if (has_part(tensor, kOutput)) return mix.output;
  return has_part(tensor, kDown) ? mix.down : mix.base;
}

}  // namespace

std::span<const Mix> mixes() { return kMixes; }

const Mix* find_mix(std::string_view name) {
  const auto* it = std::ranges::find(kMixes, name, &Mix::name);
  return it != std::end(kMixes) ? it : nullptr;
}

const WeightFormat& mix_format(const Mix& mix, std::string_view tensor, bool tied) {
  const WeightFormat* format = find_weight_format(format_name(mix, tensor, tied));
  QR_CHECK(format != nullptr, "a mix names a format that is not there");
  return *format;
}

}  // namespace quire
