#include "model/head_folder.h"

#include <filesystem>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

}  // namespace

bool is_head_folder(const std::string& folder, const HeadFolderKind& kind) {
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none)) return false;
  const auto config = read_folder_json(folder, kHeadConfig, kMaxConfigBytes);
  return config && config->as_object() != nullptr && config->find(kind.key) != nullptr;
}

Result<Json> read_head_config(const std::string& folder) {
  QR_TRY(Json config, read_folder_json(folder, kHeadConfig, kMaxConfigBytes));
  if (config.as_object() == nullptr) return fail(Code::corrupt, std::string(kHeadConfig) + ": must be an object");
  return config;
}

bool has_only_pickle(const std::string& folder, const HeadFolderKind& kind) {
  std::error_code none;
  const std::filesystem::path at(folder);
  return !std::filesystem::exists(at / kind.weights, none) && std::filesystem::exists(at / kind.pickle, none);
}

Result<TensorFile> open_head_weights(const std::string& folder, const HeadFolderKind& kind) {
  if (has_only_pickle(folder, kind)) {
    return fail(Code::unsupported, std::string(kind.pickle) +
                                       ": is a pickle, which can run code and is not read; save the same tensors as " +
                                       kind.weights);
  }
  return open_tensor_file(folder, kind.weights);
}

Result<int64_t> head_weight_bytes(const std::string& folder, const HeadFolderKind& kind) {
  const auto file = open_head_weights(folder, kind);
  if (!file) return error_within(folder, file.error());
  int64_t out = 0;
  for (const SafeTensor& tensor : file->tensors) out += tensor.bytes;
  return out;
}

Error bad_head_key(std::string_view key, const std::string& wanted, const Json* found) {
  return Error{Code::corrupt, std::string(kHeadConfig) + ": key " + in_quotes(key) + ": must be " + wanted +
                                  ", found " + shown_json(found)};
}

Result<int> head_count(std::string_view key, const Json* found, int64_t lo, int64_t hi) {
  const int64_t* n = found == nullptr ? nullptr : found->as_int();
  if (n != nullptr && *n >= lo && *n <= hi) return static_cast<int>(*n);
  return tl::make_unexpected(bad_head_key(key, std::to_string(lo) + " to " + std::to_string(hi), found));
}

}  // namespace quire
