// Any bytes as a GGUF file: refused with a message, or a header whose tensors lie inside the file, apart and aligned,
// whose facts can be read alone, and whose tokenizer keeps its own promises.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "io/ggml_types.h"
#include "io/gguf.h"
#include "io/tokenizer_meta.h"

namespace {

using namespace quire;

void check_tensors(const GgufHeader& header, std::span<const std::byte> file) {
  std::vector<const GgufTensor*> by_place;
  for (const GgufTensor& tensor : header.tensors) {
    const GgmlType* type = find_ggml_type(tensor.type);
    QR_CHECK(type != nullptr && !tensor.shape.empty() && tensor.shape.size() <= size_t{kMaxTensorDims});
    int64_t n = 1;
    for (const int64_t extent : tensor.shape) {
      QR_CHECK(extent > 0);
      n *= extent;
    }
    QR_CHECK(tensor.shape.back() % type->block == 0 && tensor.bytes == n / type->block * type->bytes);
    QR_CHECK(tensor.offset >= header.data_offset && tensor.bytes > 0);
    QR_CHECK(tensor.bytes <= static_cast<int64_t>(file.size()) - tensor.offset);
    QR_CHECK(static_cast<uint64_t>(tensor.offset - header.data_offset) % header.alignment == 0);
    by_place.push_back(&tensor);
  }
  std::sort(by_place.begin(), by_place.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_place.size(); ++i) {
    QR_CHECK(by_place[i - 1]->offset + by_place[i - 1]->bytes <= by_place[i]->offset);
    QR_CHECK(header.tensors[i - 1].name < header.tensors[i].name);
  }
}

void check_tokenizer(Metadata& meta) {
  const auto spec = read_tokenizer(meta);
  if (!spec) {
    QR_CHECK(!spec.error().message.empty());
    return;
  }
  const size_t n = spec->tokens.size();
  QR_CHECK(n > 0 && (spec->scores.empty() || spec->scores.size() == n) &&
           (spec->types.empty() || spec->types.size() == n));
  for (const Token id : {spec->bos, spec->eos, spec->eot, spec->unk, spec->sep, spec->pad, spec->cls, spec->mask}) {
    QR_CHECK(id >= -1 && id < static_cast<int64_t>(n));
  }
  for (const float score : spec->scores) QR_CHECK(score == score);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto whole = parse_gguf(file, GgufParts::all);
  auto facts = parse_gguf(file, GgufParts::facts);
  if (whole) {
    QR_CHECK(facts && facts->meta.values.size() == whole->meta.values.size(), "facts alone are harder than all");
    check_tensors(*whole, file);
  } else {
    QR_CHECK(whole.error().message.find("byte ") != std::string::npos || whole.error().message.starts_with("key "));
  }
  if (facts) check_tokenizer(facts->meta);
  return 0;
}
