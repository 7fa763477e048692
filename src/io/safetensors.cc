#include "io/safetensors.h"

#include <algorithm>
#include <array>

#include "base/bounded_reader.h"
#include "base/json.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr uint64_t kLengthBytes = 8;

struct ElementType {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<ElementType, 15> kTypes = {{{"BOOL", 1},
                                                 {"U8", 1},
                                                 {"I8", 1},
                                                 {"F8_E4M3", 1},
                                                 {"F8_E5M2", 1},
                                                 {"U16", 2},
                                                 {"I16", 2},
                                                 {"F16", 2},
                                                 {"BF16", 2},
                                                 {"U32", 4},
                                                 {"I32", 4},
                                                 {"F32", 4},
                                                 {"U64", 8},
                                                 {"I64", 8},
                                                 {"F64", 8}}};

uint64_t element_bytes(std::string_view dtype) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(), [dtype](const ElementType& t) { return t.name == dtype; });
  return found == kTypes.end() ? 0 : found->bytes;
}

// A non-negative integer member of an array.
bool get_count(const Json& value, uint64_t& out) {
  if (value.as_int() == nullptr || *value.as_int() < 0) return false;
  out = static_cast<uint64_t>(*value.as_int());
  return true;
}

// The dimensions, and how many elements they make; false when one is no positive number or the product has 64 bits.
bool read_shape(const Json* json, std::vector<int64_t>& shape, uint64_t& n) {
  if (json == nullptr || json->as_array() == nullptr || json->as_array()->size() > kMaxSafetensorsDims) return false;
  n = 1;
  for (const Json& item : *json->as_array()) {
    uint64_t extent = 0;
    if (!get_count(item, extent) || extent == 0 || !checked_mul(n, extent, n) || n > INT64_MAX) return false;
    shape.push_back(static_cast<int64_t>(extent));
  }
  return true;
}

// `begin` and `end` count from the first byte after the header.
Result<SafeTensor> read_tensor(const std::string& name, const Json& json, uint64_t data_offset, uint64_t data_bytes) {
  SafeTensor out;
  out.name = name;
  if (name.empty()) return fail(Code::corrupt, "the name is empty");
  const Json* dtype = json.find("dtype");
  if (dtype == nullptr || dtype->as_string() == nullptr) return fail(Code::corrupt, "dtype must be a string");
  out.dtype = *dtype->as_string();
  const uint64_t each = element_bytes(out.dtype);
  if (each == 0) return fail(Code::unsupported, "dtype " + in_quotes(out.dtype) + " is unknown");
  uint64_t n = 0;
  if (!read_shape(json.find("shape"), out.shape, n)) {
    return fail(Code::corrupt, "shape must be at most " + std::to_string(kMaxSafetensorsDims) +
                                   " positive numbers whose product is below 2^63");
  }
  const Json* range = json.find("data_offsets");
  uint64_t begin = 0;
  uint64_t end = 0;
  if (range == nullptr || range->as_array() == nullptr || range->as_array()->size() != 2 ||
      !get_count((*range->as_array())[0], begin) || !get_count((*range->as_array())[1], end) || begin > end ||
      end > data_bytes) {
    return fail(Code::corrupt, "data_offsets must be [begin, end] with begin ≤ end ≤ " + std::to_string(data_bytes) +
                                   ", the bytes after the header" +
                                   (range != nullptr ? "; found " + range->dump().substr(0, 80) : ""));
  }
  uint64_t wanted = 0;
  if (!checked_mul(n, each, wanted) || wanted != end - begin) {
    return fail(Code::corrupt, std::to_string(n) + " elements of " + out.dtype + " do not take " +
                                   std::to_string(end - begin) + " bytes, from byte " +
                                   std::to_string(data_offset + begin) + " on");
  }
  out.offset = static_cast<int64_t>(data_offset + begin);
  out.bytes = static_cast<int64_t>(end - begin);
  return out;
}

Status check_metadata(const Json& json) {
  const Json::Object* members = json.as_object();
  const bool good = members != nullptr && std::all_of(members->begin(), members->end(), [](const Json::Member& m) {
                      return m.second.as_string() != nullptr;
                    });
  if (!good) return fail(Code::corrupt, "\"__metadata__\" must be an object of strings");
  return {};
}

// Side by side, from the header's end to the file's.
Status check_places(const std::vector<SafeTensor>& tensors, int64_t data_offset, int64_t file_bytes) {
  std::vector<const SafeTensor*> by_place;
  by_place.reserve(tensors.size());
  for (const SafeTensor& tensor : tensors) by_place.push_back(&tensor);
  std::sort(by_place.begin(), by_place.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  int64_t at = data_offset;
  for (const SafeTensor* tensor : by_place) {
    if (tensor->offset != at) {
      return fail(Code::corrupt, "tensor " + in_quotes(tensor->name) + ": byte " + std::to_string(tensor->offset) +
                                     (tensor->offset < at ? ": overlaps the tensor before it, which ends at byte "
                                                          : ": leaves a hole after byte ") +
                                     std::to_string(at));
    }
    at += tensor->bytes;
  }
  if (at != file_bytes) {
    return fail(Code::corrupt,
                "byte " + std::to_string(at) + ": the tensors end here, the file at " + std::to_string(file_bytes));
  }
  return {};
}

}  // namespace

Result<std::vector<SafeTensor>> parse_safetensors(std::span<const std::byte> file) {
  BoundedReader reader(file);
  QR_TRY(const uint64_t length, reader.read<uint64_t>("the header's length"));
  if (length > kMaxSafetensorsHeader) {
    return BoundedReader::fail_at(0, "the header's length is " + std::to_string(length) + ", at most " +
                                         std::to_string(kMaxSafetensorsHeader) + " is taken");
  }
  QR_TRY(const std::string_view text, reader.text(length, "the header"));
  const auto json = Json::parse(text);
  if (!json) return BoundedReader::fail_at(kLengthBytes, "the header is no JSON: " + json.error().message);
  const Json::Object* members = json->as_object();
  if (members == nullptr) return BoundedReader::fail_at(kLengthBytes, "the header must be a JSON object");
  std::vector<SafeTensor> out;
  for (const auto& [name, value] : *members) {
    if (name == "__metadata__") {
      QR_TRY_VOID(check_metadata(value));
      continue;
    }
    auto tensor = read_tensor(name, value, reader.offset(), reader.remaining());
    if (!tensor) return error_within("tensor " + in_quotes(name), std::move(tensor).error());
    out.push_back(std::move(*tensor));
  }
  QR_TRY_VOID(check_places(out, static_cast<int64_t>(reader.offset()), static_cast<int64_t>(file.size())));
  std::sort(out.begin(), out.end(), [](const SafeTensor& a, const SafeTensor& b) { return a.name < b.name; });
  return out;
}

}  // namespace quire
