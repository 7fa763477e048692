// Any bytes as a Hugging Face folder's config.json, down to what a model is made of: refused with a message that names
// the folder, or a configuration in range, the same once the folder has taken GGUF's form.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "io/hf_config.h"
#include "model/config.h"
#include "model/gguf_form.h"

namespace {

using namespace quire;

constexpr float kNumbers[64 * 8] = {};

HostWeight tensor(std::string name, std::vector<int64_t> shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  const auto bytes = std::as_bytes(std::span(kNumbers)).first(static_cast<size_t>(n) * sizeof(float));
  return {std::move(name), find_weight_format(std::string_view("f32")), std::move(shape), bytes};
}

// Two layers' worth of names with small shapes, among them those that GGUF's form permutes.
ModelFile folder_with(Metadata meta) {
  ModelFile out;
  out.path = "folder";
  out.is_hugging_face = true;
  out.meta = std::move(meta);
  out.tensors = {tensor("lm_head.weight", {8, 8}),
                 tensor("model.embed_tokens.weight", {8, 8}),
                 tensor("model.layers.0.self_attn.k_proj.weight", {8, 8}),
                 tensor("model.layers.0.self_attn.q_proj.bias", {64}),
                 tensor("model.layers.0.self_attn.q_proj.weight", {64, 8}),
                 tensor("model.layers.1.self_attn.q_proj.weight", {}),
                 tensor("model.norm.weight", {8})};
  return out;
}

void check(const Result<ModelInfo>& info) {
  if (!info) {
    QR_CHECK(!info.error().message.empty());
    return;
  }
  QR_CHECK(info->n_layers >= 1 && info->n_layers <= 4096 && info->n_embd >= 1 && info->head_dim >= 1);
  QR_CHECK(info->n_kv_heads >= 1 && info->n_heads % info->n_kv_heads == 0);
  QR_CHECK(info->n_ctx >= 1 && info->kv_layout.token_bytes() >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = Json::parse({reinterpret_cast<const char*>(data), size});
  if (!json) return 0;
  auto meta = read_hf_config(*json);
  if (!meta) return 0;
  const ModelFile folder = folder_with(std::move(*meta));
  const LoadOptions options{.k_codec = find_kv_codec("f16"), .v_codec = find_kv_codec("f16")};
  check(model_info(folder, options));
  const auto written = gguf_form(folder);
  if (written) check(model_info(*written, options));
  return 0;
}
