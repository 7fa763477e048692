#include "model/medusa.h"

#include <string_view>

#include "base/bounded_reader.h"
#include "model/head_folder.h"
#include "model/tensor_taker.h"

namespace quire {
namespace {

constexpr HeadFolderKind kKind{"medusa_num_heads", "medusa_lm_head.safetensors", "medusa_lm_head.pt"};

struct Counts {
  int n_heads = 0;  // at least
  int n_blocks = 0;
};

Result<int> count_of(const Json& config, std::string_view key, int lo, int hi) {
  return head_count(key, config.find(key), lo, hi);
}

Result<Counts> read_counts(const std::string& folder) {
  QR_TRY(const Json config, read_head_config(folder));
  Counts out;
  QR_TRY(out.n_heads, count_of(config, kKind.key, 1, kMostMedusaHeads));
  QR_TRY(out.n_blocks, count_of(config, "medusa_num_layers", 1, kMostMedusaBlocks));
  return out;
}

Status read_head(TensorTaker& taker, int head, const ModelInfo& model, MedusaHeads& out) {
  const std::string prefix = std::to_string(head) + ".";
  for (size_t j = 0; j < out.blocks.size(); ++j) {
    const std::string block = prefix + std::to_string(j) + ".linear.";
    QR_TRY(Linear linear, taker.linear(block + "weight", block + "bias", model.n_embd, model.n_embd));
    out.blocks[j].push_back(std::move(linear));
  }
  const std::string last = prefix + std::to_string(out.blocks.size()) + ".weight";
  QR_TRY(Linear linear, taker.linear(last, "", model.n_vocab, model.n_embd));
  out.out.push_back(std::move(linear));
  return {};
}

Status read_heads(TensorTaker& taker, const Counts& counts, const ModelInfo& model, MedusaHeads& out) {
  out.blocks.resize(static_cast<size_t>(counts.n_blocks));
  for (int head = 0; head < kMostMedusaHeads; ++head) {
    if (head >= counts.n_heads && !taker.has(std::to_string(head) + ".0.linear.weight")) break;
    QR_TRY_VOID(read_head(taker, head, model, out));
  }
  QR_TRY_VOID(
      taker.check_all_taken("Medusa heads, which have \"<head>.<block>.linear.weight\", \".linear.bias\" and "
                            "\"<head>.<blocks>.weight\" alone"));
  out.weight_bytes = taker.bytes();
  return {};
}

}  // namespace

bool is_medusa_folder(const std::string& folder) { return is_head_folder(folder, kKind); }

Result<int64_t> medusa_bytes(const std::string& folder) { return head_weight_bytes(folder, kKind); }

Result<std::unique_ptr<MedusaHeads>> load_medusa(const std::string& folder,
                                                 const ModelInfo& model,
                                                 Ops& ops,
                                                 const WeightFormat* as) {
  auto out = std::make_unique<MedusaHeads>();
  const Status done = [&]() -> Status {
    QR_TRY(const Counts counts, read_counts(folder));
    QR_TRY(const TensorFile file, open_head_weights(folder, kKind));
    TensorTaker taker(file, ops, as);
    if (auto read = read_heads(taker, counts, model, *out); !read)
      return error_within(kKind.weights, std::move(read).error());
    return file.map->check_unchanged();
  }();
  if (!done) return error_within(folder, done.error());
  return out;
}

}  // namespace quire
