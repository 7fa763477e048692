// Any bytes as a safetensors file: refused with a message, or tensors that lie inside the file, side by side, each of
// as many bytes as its shape and type take. The same bytes as a config.json: refused, or facts that architectures'
// look-ups survive.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "io/hf_config.h"
#include "io/safetensors.h"

namespace {

using namespace quire;

void check_tensors(const std::vector<SafeTensor>& tensors, std::span<const std::byte> file) {
  std::vector<const SafeTensor*> by_place;
  for (const SafeTensor& tensor : tensors) {
    QR_CHECK(!tensor.name.empty() && tensor.bytes > 0 && tensor.offset >= 8);
    QR_CHECK(tensor.bytes <= static_cast<int64_t>(file.size()) - tensor.offset);
    int64_t n = 1;
    for (const int64_t extent : tensor.shape) n *= extent;
    QR_CHECK(n > 0 && tensor.bytes % n == 0 && tensor.bytes / n <= 8);
    by_place.push_back(&tensor);
  }
  std::sort(by_place.begin(), by_place.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_place.size(); ++i) {
    QR_CHECK(by_place[i - 1]->offset + by_place[i - 1]->bytes == by_place[i]->offset);
    QR_CHECK(tensors[i - 1].name < tensors[i].name);
  }
}

void check_config(std::string_view text) {
  const auto json = Json::parse(text);
  if (!json) return;
  auto meta = read_hf_config(*json);
  if (!meta) return;
  QR_CHECK(add_hf_generation_config(*json, *meta));
  for (const auto& [key, value] : meta->values) {
    QR_CHECK(key.starts_with(kHfPrefix) || key.starts_with(kHfGenerationPrefix));
    const auto number = meta->get_int_or(key, 0, 10, 0);
    QR_CHECK(!number || (*number >= 0 && *number <= 10));
    const auto real = meta->get_double_or(key, 0, 10, 0);
    QR_CHECK(!real || (*real >= 0 && *real <= 10));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto tensors = parse_safetensors(file);
  if (tensors) {
    check_tensors(*tensors, file);
  } else {
    QR_CHECK(tensors.error().message.find("byte ") != std::string::npos ||
             tensors.error().message.find("tensor ") != std::string::npos ||
             tensors.error().message.find("__metadata__") != std::string::npos);
  }
  check_config({reinterpret_cast<const char*>(data), size});
  return 0;
}
