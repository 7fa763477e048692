#include "model/medusa.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/bounded_reader.h"
#include "io/folder_files.h"
#include "io/in_quotes.h"
#include "model/tensor_taker.h"

namespace quire {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "medusa_lm_head.safetensors";
constexpr const char* kPickle = "medusa_lm_head.pt";
constexpr size_t kMaxConfigBytes = size_t{1} << 20;

struct Counts {
  int n_heads = 0;  // at least
  int n_blocks = 0;
};

Result<int> count_of(const Json& config, std::string_view key, int lo, int hi) {
  const Json* value = config.find(key);
  const int64_t* n = value == nullptr ? nullptr : value->as_int();
  if (n != nullptr && *n >= lo && *n <= hi) return static_cast<int>(*n);
  return fail(Code::corrupt, std::string(kConfig) + ": key " + in_quotes(key) + ": must be " + std::to_string(lo) +
                                 " to " + std::to_string(hi) + ", found " +
                                 (value == nullptr ? "nothing" : value->dump().substr(0, 80)));
}

Result<Counts> read_counts(const std::string& folder) {
  QR_TRY(const Json config, read_folder_json(folder, kConfig, kMaxConfigBytes));
  if (config.as_object() == nullptr) return fail(Code::corrupt, std::string(kConfig) + ": must be an object");
  Counts out;
  QR_TRY(out.n_heads, count_of(config, "medusa_num_heads", 1, kMostMedusaHeads));
  QR_TRY(out.n_blocks, count_of(config, "medusa_num_layers", 1, kMostMedusaBlocks));
  return out;
}

// A pickle is a program: it is not opened.
Result<TensorFile> open_weights(const std::string& folder) {
  std::error_code none;
  if (!std::filesystem::exists(std::filesystem::path(folder) / kWeights, none) &&
      std::filesystem::exists(std::filesystem::path(folder) / kPickle, none)) {
    return fail(Code::unsupported, std::string(kPickle) +
                                       ": is a pickle, which can run code and is not read; save the " +
                                       "same tensors as " + kWeights);
  }
  return open_tensor_file(folder, kWeights);
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

Status read_heads(const TensorFile& file, const Counts& counts, const ModelInfo& model, Ops& ops, MedusaHeads& out) {
  TensorTaker taker(file, ops);
  out.blocks.resize(static_cast<size_t>(counts.n_blocks));
  for (int head = 0; head < kMostMedusaHeads; ++head) {
    if (head >= counts.n_heads && !taker.has(std::to_string(head) + ".0.linear.weight")) break;
    QR_TRY_VOID(read_head(taker, head, model, out));
  }
  QR_TRY_VOID(
      taker.check_all_taken("Medusa heads, which have \"<head>.<block>.linear.weight\", \".linear.bias\" and "
                            "\"<head>.<blocks>.weight\" alone"));
  for (const SafeTensor& tensor : file.tensors) out.weight_bytes += tensor.bytes;
  return file.map->check_unchanged();
}

}  // namespace

bool is_medusa_folder(const std::string& folder) {
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none)) return false;
  const auto config = read_folder_json(folder, kConfig, kMaxConfigBytes);
  return config && config->as_object() != nullptr && config->find("medusa_num_heads") != nullptr;
}

Result<int64_t> medusa_bytes(const std::string& folder) {
  const auto file = open_weights(folder);
  if (!file) return error_within(folder, file.error());
  int64_t bytes = 0;
  for (const SafeTensor& tensor : file->tensors) bytes += tensor.bytes;
  return bytes;
}

Result<std::unique_ptr<MedusaHeads>> load_medusa(const std::string& folder, const ModelInfo& model, Ops& ops) {
  auto out = std::make_unique<MedusaHeads>();
  const Status done = [&]() -> Status {
    QR_TRY(const Counts counts, read_counts(folder));
    QR_TRY(const TensorFile file, open_weights(folder));
    if (auto read = read_heads(file, counts, model, ops, *out); !read)
      return error_within(kWeights, std::move(read).error());
    return {};
  }();
  if (!done) return error_within(folder, done.error());
  return out;
}

}  // namespace quire
