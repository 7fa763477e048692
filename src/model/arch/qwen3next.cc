// Qwen 3 Next: with experts; folders hold the matrices of a delta rule as one, a key head after the other.
#include "model/arch/qwen3next.h"

namespace quire {
namespace {

class Qwen3Next final : public QwenHybrid {};

// Rows of every key head: a query, a key, and of each of its value heads a value, then of each a gate.
struct DeltaRows {
  int64_t n_keys, n_sharing, k_dim, v_dim;
  int64_t all() const { return 2 * k_dim + 2 * n_sharing * v_dim; }
};

Result<DeltaRows> delta_rows(const HostWeight& theirs, const Metadata& facts) {
  QR_TRY(const int64_t n_keys, facts.get_int("hf.linear_num_key_heads", 1, 4096));
  QR_TRY(const int64_t n_heads, facts.get_int("hf.linear_num_value_heads", n_keys, 4096));
  QR_TRY(const int64_t k_dim, facts.get_int("hf.linear_key_head_dim", 1, 1 << 16));
  QR_TRY(const int64_t v_dim, facts.get_int("hf.linear_value_head_dim", 1, 1 << 16));
  const DeltaRows out{n_keys, n_heads / n_keys, k_dim, v_dim};
  const int64_t n_rows = theirs.shape.empty() ? 0 : theirs.shape.front();
  if (theirs.shape.size() == 2 && n_heads % n_keys == 0 && n_rows == n_keys * out.all()) return out;
  return fail(Code::corrupt, "tensor \"" + theirs.name + "\": must have " + std::to_string(out.all()) +
                                 " rows of each of " + std::to_string(n_keys) + " key heads, has " +
                                 std::to_string(n_rows) + " rows");
}

Status queries_keys_values(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  QR_TRY(const DeltaRows r, delta_rows(theirs, facts));
  const int64_t n_values = r.n_sharing * r.v_dim;
  std::vector<RowRun> runs;
  for (int64_t key = 0; key < r.n_keys; ++key) runs.push_back({key * r.all(), r.k_dim});
  for (int64_t key = 0; key < r.n_keys; ++key) runs.push_back({key * r.all() + r.k_dim, r.k_dim});
  for (int64_t key = 0; key < r.n_keys; ++key) runs.push_back({key * r.all() + 2 * r.k_dim, n_values});
  return rows_in_order(theirs, runs, ours, file);
}

Status gates(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  QR_TRY(const DeltaRows r, delta_rows(theirs, facts));
  const int64_t n_values = r.n_sharing * r.v_dim;
  std::vector<RowRun> runs;
  for (int64_t key = 0; key < r.n_keys; ++key) runs.push_back({(key + 1) * r.all() - n_values, n_values});
  return rows_in_order(theirs, runs, ours, file);
}

QR_REGISTER(ArchEntry,
            "qwen3next",
            ArchEntry{
                .summary = "Qwen 3 Next: a gated delta rule in most layers, gated attention, experts and a shared one",
                .hf = {.model_types = {"qwen3_next"},
                       .tensors = qwen_hybrid_tensors({{.theirs = "model.layers.{}.linear_attn.in_proj_qkvz.weight",
                                                        .ours = "blk.{}.attn_qkv.weight",
                                                        .reshape = queries_keys_values},
                                                       {.theirs = "model.layers.{}.linear_attn.in_proj_qkvz.weight",
                                                        .ours = "blk.{}.attn_gate.weight",
                                                        .reshape = gates},
                                                       {"model.layers.{}.linear_attn.in_proj_ba.weight",
                                                        "blk.{}.ssm_ba.weight"}}),
                       .facts = qwen_hybrid_facts,
                       .state_layers = {"linear_attention"}},
                .load = &load_decoder<Qwen3Next>,
                .info = &decoder_info<Qwen3Next>});

}  // namespace
}  // namespace quire
