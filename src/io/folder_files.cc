#include "io/folder_files.h"

#include <cctype>
#include <filesystem>
#include <fstream>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

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

// Python writes what has no bound as Infinity, which is no JSON: outside of strings it becomes 1e308, in its place.
void bound_infinities(std::string& text) {
  constexpr std::string_view kInfinity = "Infinity", kBound = "1e308   ";
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && text.compare(i, kInfinity.size(), kInfinity) == 0) {
      text.replace(i, kInfinity.size(), kBound);
    }
  }
}

}  // namespace

Result<Json> read_folder_json(const std::string& folder, const std::string& name, size_t max_bytes) {
  const fs::path path = fs::path(folder) / name;
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
  bound_infinities(text);
  auto json = Json::parse(text);
  if (!json) return fail(Code::corrupt, name + ": " + json.error().message);
  return json;
}

std::string shown_json(const Json* value) { return value == nullptr ? "nothing" : value->dump().substr(0, 80); }

Result<TensorFile> open_tensor_file(const std::string& folder, const std::string& name) {
  QR_TRY_VOID(check_inside(folder, name));
  QR_TRY(const auto map, MappedFile::open((fs::path(folder) / name).string()));
  auto tensors = parse_safetensors(map->bytes());
  QR_TRY_VOID(map->check_unchanged());
  if (!tensors) return error_within(name, std::move(tensors).error());
  return TensorFile{name, map, std::move(*tensors)};
}

Result<HostWeight> make_weight(const SafeTensor& tensor, const MappedFile& map) {
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
  weight.data = map.bytes().subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
  return weight;
}

}  // namespace quire
