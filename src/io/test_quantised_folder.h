// Folders of quantised weights for tests.
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "io/model_file.h"
#include "io/test_folder.h"

namespace quire {

struct Stored {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Stored>;

inline std::string file_of(const Tensors& tensors) {
  std::string header, data;
  for (const auto& [name, t] : tensors) {
    std::string shape;
    for (const int64_t extent : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    header += (header.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":")" + t.dtype + R"(","shape":[)" + shape +
              R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + t.bytes.size()) + "]}";
    data += t.bytes;
  }
  header += "}";
  std::string out(8, '\0');
  const uint64_t n = header.size();
  std::memcpy(out.data(), &n, 8);
  return out + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The folder's error, or what its quantised weight is.
inline std::string opened(const Tensors& tensors, const std::string& config, const std::string& older = "") {
  const TempFolder folder;
  folder.write("config.json", config);
  if (!older.empty()) folder.write(older.substr(0, older.find('{')), older.substr(older.find('{')));
  folder.write("model.safetensors", file_of(tensors));
  const Result<ModelFile> file = open_model(folder.path());
  if (!file) return file.error().message.substr(folder.path().size() + 2);
  for (const HostWeight& weight : file->tensors) {
    if (weight.made != nullptr) return weight.made->kind() + (weight.order().empty() ? "" : ", ordered");
  }
  return "none";
}
inline std::string with_keys(const Tensors& tensors, const std::string& keys) {
  return opened(tensors, "{\"quantization_config\":{" + keys + "}}");
}

}  // namespace quire
