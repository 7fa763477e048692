#include "app/step_needs.h"

#include <algorithm>

namespace quire {
namespace {

// Σ min(p + 1, window) over positions p in [begin, end).
double keys_seen(int64_t begin, int64_t end, int64_t window) {
  const int64_t growing = window > 0 ? std::clamp(window, begin, end) : end;  // from here on a row sees `window` keys
  const auto up_to = [](int64_t n) { return 0.5 * static_cast<double>(n) * static_cast<double>(n + 1); };
  return up_to(growing) - up_to(begin) + static_cast<double>(window) * static_cast<double>(end - growing);
}

}  // namespace

StepNeeds::StepNeeds(const ModelInfo& info) : weight_bytes(static_cast<double>(info.step_bytes)) {
  const double head = static_cast<double>(info.n_vocab) * info.n_embd;
  head_ops = 2 * head;
  row_ops = 2 * (static_cast<double>(info.step_params) - head);
  floats = 2 * info.step_floats > info.step_params;
  bf16 = 2 * info.step_bf16 > info.step_params;
  const KvLayout& layout = info.kv_layout;
  for (int g = 0; g < layout.n_groups(); ++g) {
    if (layout.token_bytes(g) == 0) continue;
    const auto bytes = static_cast<double>(layout.token_bytes(g));
    // Every layer of a model that caches keys caches the same number of bytes, so bytes say how many layers a group
    // has.
    const double n_layers = info.n_attention_layers * bytes / static_cast<double>(layout.token_bytes());
    const KvGroup& group = layout.group(g);
    layers_.push_back({group.kind == KvGroup::Kind::window ? group.window + group.n_kept : 0,
                       4.0 * info.n_heads * info.head_dim * n_layers, bytes});
  }
}

double StepNeeds::ops(int64_t begin, int64_t end, int64_t n_out) const {
  double sum = row_ops * static_cast<double>(end - begin) + head_ops * static_cast<double>(n_out);
  for (const Layers& layers : layers_) sum += layers.ops_per_key * keys_seen(begin, end, layers.window);
  return sum;
}

double StepNeeds::limit(const UnitPeak& peak) const { return bf16 ? peak.bf16 : floats ? peak.f32 : peak.int8; }

double StepNeeds::kv_bytes(int64_t begin, int64_t end) const {
  double sum = 0;
  for (const Layers& layers : layers_) sum += layers.bytes_per_key * keys_seen(begin, end, layers.window);
  return sum;
}

}  // namespace quire
