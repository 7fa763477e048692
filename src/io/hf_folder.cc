#include "io/hf_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/bounded_reader.h"
#include "base/json.h"
#include "base/mmap.h"
#include "io/hf_config.h"
#include "io/in_quotes.h"
#include "io/safetensors.h"

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

// A small JSON file of the folder; errors begin with its name.
Result<Json> read_json(const fs::path& path, size_t max_bytes) {
  const std::string name = path.filename().string();
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return fail(Code::not_found, name + ": cannot be read");
  if (size > max_bytes) {
    return fail(Code::corrupt,
                name + ": has " + std::to_string(size) + " bytes, at most " + std::to_string(max_bytes) + " are taken");
  }
  std::string text(size, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) return fail(Code::io, name + ": cannot be read");
  auto json = Json::parse(text);
  if (!json) return fail(Code::corrupt, name + ": " + json.error().message);
  return json;
}

// A link may lead to the hub cache's blobs, which lie two folders up (models--x/snapshots/<commit> → models--x/blobs).
Status check_inside(const fs::path& folder, const std::string& name) {
  std::error_code error;
  const fs::path home = fs::canonical(folder, error);
  if (error) return fail(Code::io, "the folder cannot be resolved");
  const fs::path target = fs::canonical(folder / name, error);
  if (error) return fail(Code::not_found, in_quotes(name) + ": there is no such file");
  const fs::path parent = target.parent_path();
  if (parent == home || parent == home.parent_path().parent_path() / "blobs") return {};
  return fail(Code::corrupt, in_quotes(name) + ": is a link to a place outside of the folder");
}

// The index: which shard holds which tensor.
using Index = std::map<std::string, std::string, std::less<>>;

Result<Index> read_index(const fs::path& folder) {
  QR_TRY(const Json json, read_json(folder / kIndexName, kMaxIndexBytes));
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

Result<HostWeight> make_weight(const SafeTensor& tensor, std::span<const std::byte> file) {
  HostWeight weight;
  weight.name = tensor.name;
  std::string format = tensor.dtype;
  for (char& c : format) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool plain = format == "f32" || format == "f16" || format == "bf16";
  weight.format = plain ? find_weight_format(format) : nullptr;
  if (weight.format == nullptr) {
    return fail(Code::unsupported, "tensor " + in_quotes(tensor.name) + ": byte " + std::to_string(tensor.offset) +
                                       ": dtype " + tensor.dtype + " is not supported (supported: F32, F16, BF16)");
  }
  weight.shape = tensor.shape;
  weight.data = file.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
  return weight;
}

// One shard, mapped and checked.
struct Shard {
  std::string name;
  std::shared_ptr<const MappedFile> map;
  std::vector<SafeTensor> tensors;
};

// `index` is null where the folder has one file.
Result<Shard> open_shard(const fs::path& folder, const std::string& name, const Index* index) {
  QR_TRY_VOID(check_inside(folder, name));
  QR_TRY(const auto map, MappedFile::open((folder / name).string()));
  auto tensors = parse_safetensors(map->bytes());
  QR_TRY_VOID(map->check_unchanged());
  if (!tensors) return error_within(name, std::move(tensors).error());
  for (const SafeTensor& tensor : *tensors) {
    if (index == nullptr || is_leftover(tensor.name)) continue;
    const auto found = index->find(tensor.name);
    if (found == index->end() || found->second != name) {
      return fail(Code::corrupt,
                  name + ": tensor " + in_quotes(tensor.name) + ": the index " +
                      (found == index->end() ? "does not know it" : "expects it in " + in_quotes(found->second)));
    }
  }
  return Shard{name, map, std::move(*tensors)};
}

// Each tensor lies in the shard that the index says, so it is there when as many are there.
Status check_complete(const Index& index, const std::vector<Shard>& shards) {
  std::set<std::string_view> found;
  for (const Shard& shard : shards) {
    for (const SafeTensor& tensor : shard.tensors) found.insert(tensor.name);
  }
  for (const auto& [tensor, shard] : index) {
    if (!is_leftover(tensor) && !found.contains(tensor)) {
      return fail(Code::corrupt, shard + ": tensor " + in_quotes(tensor) + ": is in the index and not in the file");
    }
  }
  return {};
}

Result<std::vector<Shard>> open_shards(const fs::path& folder) {
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
  std::vector<Shard> out;
  for (const std::string& shard : shards) {
    QR_TRY(out.emplace_back(), open_shard(folder, shard, sharded ? &index : nullptr));
  }
  QR_TRY_VOID(check_complete(index, out));
  return out;
}

Status add_tensors(const fs::path& folder, ModelFile& out) {
  QR_TRY(const std::vector<Shard> shards, open_shards(folder));
  for (const Shard& shard : shards) {
    for (const SafeTensor& tensor : shard.tensors) {
      if (is_leftover(tensor.name)) continue;
      auto weight = make_weight(tensor, shard.map->bytes());
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
  QR_TRY(const Json config, read_json(folder / "config.json", kMaxConfigBytes));
  auto meta = read_hf_config(config);
  if (!meta) return error_within("config.json", std::move(meta).error());
  if (is_file(folder / "generation_config.json")) {
    QR_TRY(const Json generation, read_json(folder / "generation_config.json", kMaxConfigBytes));
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
  for (Shard& shard : *shards) std::move(shard.tensors.begin(), shard.tensors.end(), std::back_inserter(out));
  return out;
}

Result<ModelFile> open_hf_metadata(const std::string& path) { return open_parts(path, false); }

}  // namespace quire
