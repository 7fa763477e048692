#include "io/hf_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/bounded_reader.h"
#include "io/folder_files.h"
#include "io/hf_config.h"
#include "io/hf_quantisation.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIndexBytes = size_t{64} << 20;
constexpr size_t kMaxShards = 200;  // fewer than base/mmap.h's maps
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kWholeName = "model.safetensors";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The index: which shard holds which tensor.
using Index = std::map<std::string, std::string, std::less<>>;

Result<Index> read_index(const fs::path& folder) {
  QR_TRY(const Json json, read_folder_json(folder.string(), kIndexName, kMaxIndexBytes));
  const Json* map = json.find("weight_map");
  if (map == nullptr || map->as_object() == nullptr) {
    return fail(Code::corrupt, std::string(kIndexName) + ": key \"weight_map\": must be an object");
  }
  Index out;
  for (const auto& [tensor, value] : *map->as_object()) {
    const std::string* name = value.as_string();
    if (name == nullptr || name->find('/') != std::string::npos || name->find('\0') != std::string::npos ||
        !name->ends_with(".safetensors")) {
      return fail(Code::corrupt, std::string(kIndexName) + ": tensor " + in_quotes(tensor) +
                                     ": must name a .safetensors file of the folder, names " +
                                     (name != nullptr ? in_quotes(*name) : "no file"));
    }
    out.emplace(tensor, *name);
  }
  return out;
}

// What no model computes with: tables that old checkpoints carry along.
bool is_leftover(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || name.ends_with("position_ids") || name.ends_with("attn.masked_bias");
}

// `index` is null where the folder has one file.
Result<TensorFile> open_shard(const fs::path& folder, const std::string& name, const Index* index) {
  QR_TRY(TensorFile shard, open_tensor_file(folder.string(), name));
  for (const SafeTensor& tensor : shard.tensors) {
    if (index == nullptr || is_leftover(tensor.name)) continue;
    const auto found = index->find(tensor.name);
    if (found == index->end() || found->second != name) {
      return fail(Code::corrupt,
                  name + ": tensor " + in_quotes(tensor.name) + ": the index " +
                      (found == index->end() ? "does not know it" : "expects it in " + in_quotes(found->second)));
    }
  }
  return shard;
}

// Each tensor lies in the shard that the index says, so it is there when as many are there.
Status check_complete(const Index& index, const std::vector<TensorFile>& shards) {
  std::set<std::string_view> found;
  for (const TensorFile& shard : shards) {
    for (const SafeTensor& tensor : shard.tensors) found.insert(tensor.name);
  }
  for (const auto& [tensor, shard] : index) {
    if (!is_leftover(tensor) && !found.contains(tensor)) {
      return fail(Code::corrupt, shard + ": tensor " + in_quotes(tensor) + ": is in the index and not in the file");
    }
  }
  return {};
}

Result<std::vector<TensorFile>> open_shards(const fs::path& folder) {
  std::set<std::string> shards;
  Index index;
  const bool sharded = is_file(folder / kIndexName);
  if (sharded) {
    QR_TRY(index, read_index(folder));
    for (const auto& entry : index) shards.insert(entry.second);
  } else if (is_file(folder / kWholeName)) {
    shards.insert(kWholeName);
  }
  if (shards.empty()) {
    return fail(Code::not_found, std::string("there is neither ") + kWholeName + " nor " + kIndexName +
                                     " with shards; weights in other files (.bin, .pt: pickled code) are not opened");
  }
  if (shards.size() > kMaxShards) {
    return fail(Code::unsupported, std::string(kIndexName) + ": names " + std::to_string(shards.size()) +
                                       " shards, at most " + std::to_string(kMaxShards) + " are taken");
  }
  std::vector<TensorFile> out;
  for (const std::string& shard : shards) {
    QR_TRY(out.emplace_back(), open_shard(folder, shard, sharded ? &index : nullptr));
  }
  QR_TRY_VOID(check_complete(index, out));
  return out;
}

Status add_tensors(const fs::path& folder, ModelFile& out) {
  QR_TRY(const Json config, read_folder_json(folder.string(), "config.json", kMaxConfigBytes));
  QR_TRY(const std::optional<HfQuantisation> quantised, read_quantisation(folder.string(), config));
  QR_TRY(std::vector<TensorFile> shards, open_shards(folder));
  if (quantised) QR_TRY_VOID(take_quantised(*quantised, shards, out));
  for (const TensorFile& shard : shards) {
    for (const SafeTensor& tensor : shard.tensors) {
      if (is_leftover(tensor.name)) continue;
      auto weight = make_weight(tensor, *shard.map);
      if (!weight) return error_within(shard.name, std::move(weight).error());
      out.tensors.push_back(std::move(*weight));
    }
    out.file_bytes += shard.map->size();
    out.maps.push_back(shard.map);
  }
  out.sort_tensors();
  return {};
}

Result<Metadata> read_facts(const fs::path& folder) {
  QR_TRY(const Json config, read_folder_json(folder.string(), "config.json", kMaxConfigBytes));
  auto meta = read_hf_config(config);
  if (!meta) return error_within("config.json", std::move(meta).error());
  if (is_file(folder / "generation_config.json")) {
    QR_TRY(const Json generation, read_folder_json(folder.string(), "generation_config.json", kMaxConfigBytes));
    auto added = add_hf_generation_config(generation, *meta);
    if (!added) return error_within("generation_config.json", std::move(added).error());
  }
  return meta;
}

Result<ModelFile> open_parts(const std::string& path, bool tensors) {
  ModelFile out;
  out.path = path;
  out.container = "safetensors";
  out.is_hugging_face = true;
  auto meta = read_facts(path);
  if (!meta) return error_within(path, std::move(meta).error());
  out.meta = std::move(*meta);
  if (tensors) {
    auto added = add_tensors(path, out);
    if (!added) return error_within(path, std::move(added).error());
  }
  return out;
}

}  // namespace

bool is_hf_folder(const std::string& path) { return is_file(fs::path(path) / "config.json"); }

Result<ModelFile> open_hf_folder(const std::string& path) { return open_parts(path, true); }

Result<std::vector<SafeTensor>> list_hf_tensors(const std::string& path) {
  auto shards = open_shards(path);
  if (!shards) return error_within(path, std::move(shards).error());
  std::vector<SafeTensor> out;
  for (TensorFile& shard : *shards) std::move(shard.tensors.begin(), shard.tensors.end(), std::back_inserter(out));
  return out;
}

Result<ModelFile> open_hf_metadata(const std::string& path) { return open_parts(path, false); }

}  // namespace quire
