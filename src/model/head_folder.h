// A folder of a head that guesses, as it is published beside the model that it was trained for: config.json with a key
// that tells its kind, and one file of weights in safetensors. Errors name file and key, what is wanted and what was
// found. Pure functions; any thread.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "io/folder_files.h"

namespace quire {

inline constexpr const char* kHeadConfig = "config.json";

// Names of one kind of head.
struct HeadFolderKind {
  std::string_view key;  // of config.json, which no other kind has
  const char* weights;
  const char* pickle;  // what the same tensors are called where they are published as one
};

// Whether `folder` has a config.json with the kind's key.
bool is_head_folder(const std::string& folder, const HeadFolderKind& kind);
// Whether its weights are there as a pickle alone.
bool has_only_pickle(const std::string& folder, const HeadFolderKind& kind);
// An object. Code::not_found, Code::corrupt or Code::io.
Result<Json> read_head_config(const std::string& folder);
// A pickle is a program: it is not opened, and Code::unsupported says what to do. Else errors as open_tensor_file's.
Result<TensorFile> open_head_weights(const std::string& folder, const HeadFolderKind& kind);
// Bytes of the tensors of its weights; no number of them is read. Errors as open_head_weights', behind the folder.
Result<int64_t> head_weight_bytes(const std::string& folder, const HeadFolderKind& kind);

// Code::corrupt: config.json has `found`, or nothing where it is null, and must have what is `wanted`.
Error bad_head_key(std::string_view key, const std::string& wanted, const Json* found);
// The key's value `found` as a whole number in [lo, hi].
Result<int> head_count(std::string_view key, const Json* found, int64_t lo, int64_t hi);

}  // namespace quire
