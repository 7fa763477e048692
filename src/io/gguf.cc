#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>

#include "base/bounded_reader.h"
#include "io/ggml_types.h"
#include "io/gguf_values.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr uint32_t kMagic = 0x46554747;   // "GGUF"
constexpr uint64_t kMinFactBytes = 14;    // key of one byte, type, value of one byte
constexpr uint64_t kMinTensorBytes = 33;  // name of one byte, one dimension, type, offset
constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

struct Counts {
  uint64_t tensors, facts;
};

// A tensor as its entry describes it, before its place in the file is known.
struct Entry {
  GgufTensor tensor;
  uint64_t relative = 0;  // to the start of the data
  uint64_t at = 0;        // where the entry stands, for messages
};

tl::unexpected<Error> tensor_error(const Entry& entry, std::string text, Code code = Code::corrupt) {
  return fail(code,
              "tensor " + in_quotes(entry.tensor.name) + ": byte " + std::to_string(entry.at) + ": " + std::move(text));
}

Result<Counts> read_preamble(BoundedReader& reader, GgufHeader& header, GgufParts parts) {
  QR_TRY(const uint32_t magic, reader.read<uint32_t>("the magic"));
  if (magic != kMagic) return BoundedReader::fail_at(0, "the magic is not \"GGUF\"");
  QR_TRY(header.version, reader.read<uint32_t>("the version"));
  if (header.version != 2 && header.version != 3) {
    const bool swapped = header.version != 0 && (header.version & 0xffffU) == 0;
    return BoundedReader::fail_at(4,
                                  "GGUF version " + std::to_string(header.version) + " is not supported, 2 and 3 are" +
                                      (swapped ? " (a big-endian file?)" : ""),
                                  Code::unsupported);
  }
  Counts counts{};
  QR_TRY(counts.tensors, reader.read<uint64_t>("the tensor count"));
  QR_TRY(counts.facts, reader.read<uint64_t>("the key count"));
  QR_TRY_VOID(reader.check_count(counts.facts, kMinFactBytes, "the list of keys"));
  if (parts == GgufParts::all) QR_TRY_VOID(reader.check_count(counts.tensors, kMinTensorBytes, "the list of tensors"));
  return counts;
}

Result<std::string> read_name(BoundedReader& reader, const std::string& what, uint64_t max_bytes) {
  const uint64_t at = reader.offset();
  QR_TRY(const uint64_t length, reader.read<uint64_t>(what + "'s length"));
  if (length < 1 || length > max_bytes) {
    return BoundedReader::fail_at(
        at, what + " of " + std::to_string(length) + " bytes, must have 1 to " + std::to_string(max_bytes));
  }
  QR_TRY(const std::string_view text, reader.text(length, what));
  return std::string(text);
}

Status read_fact(BoundedReader& reader, std::set<std::string>& keys, GgufHeader& header) {
  const uint64_t at = reader.offset();
  QR_TRY(std::string key, read_name(reader, "a key", kMaxKeyBytes));
  const auto in_key = [&](Error error) { return error_within("key " + in_quotes(key), std::move(error)); };
  if (!keys.insert(key).second) {
    return BoundedReader::fail_at(at, "the key " + in_quotes(key) + " is there a second time");
  }
  const uint64_t value_at = reader.offset();
  auto type = reader.read<uint32_t>("the value's type");
  if (!type) return in_key(std::move(type).error());
  auto value = read_gguf_value(reader, *type);
  if (!value) return in_key(std::move(value).error());
  if (*value) header.meta.values.emplace(key, std::move(**value));
  header.facts.push_back({std::move(key), reader.since(value_at)});
  return {};
}

Status read_facts(BoundedReader& reader, uint64_t n_facts, GgufHeader& header) {
  const uint64_t start = reader.offset();
  std::set<std::string> keys;
  for (uint64_t i = 0; i < n_facts; ++i) {
    QR_TRY_VOID(read_fact(reader, keys, header));
    if (reader.offset() - start > kMaxMetaBytes) {
      return reader.fail_here("the keys take more than " + std::to_string(kMaxMetaBytes) + " bytes");
    }
  }
  return {};
}

Status read_alignment(GgufHeader& header) {
  constexpr std::string_view kKey = "general.alignment";
  if (header.meta.find(kKey) == nullptr) return {};
  QR_TRY(const int64_t value, header.meta.get_int(kKey, int64_t{kMinAlignment}, int64_t{kMaxAlignment}));
  header.alignment = static_cast<uint64_t>(value);
  if (std::has_single_bit(header.alignment)) return {};
  return fail(Code::corrupt, "key " + in_quotes(kKey) + ": must be a power of two, is " + std::to_string(value));
}

// Dimensions (innermost first in the file), and with the type the tensor's bytes.
Status read_extent(BoundedReader& reader, Entry& entry) {
  QR_TRY(const uint32_t n_dims, reader.read<uint32_t>("the dimension count"));
  if (n_dims < 1 || n_dims > uint32_t{kMaxTensorDims}) {
    return reader.fail_here(std::to_string(n_dims) + " dimensions, must be 1 to " + std::to_string(kMaxTensorDims));
  }
  uint64_t n_elements = 1;
  for (uint32_t i = 0; i < n_dims; ++i) {
    QR_TRY(const uint64_t extent, reader.read<uint64_t>("a dimension"));
    if (extent == 0) return reader.fail_here("dimension " + std::to_string(i) + " is 0");
    if (!checked_mul(n_elements, extent, n_elements) || n_elements > kMaxInt64) {
      return reader.fail_here("more elements than 64 bits count: dimension " + std::to_string(i) + " is " +
                              std::to_string(extent));
    }
    entry.tensor.shape.insert(entry.tensor.shape.begin(), static_cast<int64_t>(extent));
  }
  const uint64_t type_at = reader.offset();
  QR_TRY(entry.tensor.type, reader.read<uint32_t>("the tensor type"));
  const GgmlType* type = find_ggml_type(entry.tensor.type);
  if (type == nullptr) {
    return BoundedReader::fail_at(type_at, "tensor type " + std::to_string(entry.tensor.type) + " is unknown",
                                  Code::unsupported);
  }
  const auto row = static_cast<uint64_t>(entry.tensor.shape.back());
  const auto block = static_cast<uint64_t>(type->block);
  if (row % block != 0) {
    return BoundedReader::fail_at(type_at, "rows of " + std::to_string(row) + " elements, type " +
                                               std::string(type->name) + " needs a multiple of " +
                                               std::to_string(block));
  }
  uint64_t n_bytes = 0;
  if (!checked_mul(n_elements / block, static_cast<uint64_t>(type->bytes), n_bytes) || n_bytes > kMaxInt64) {
    return BoundedReader::fail_at(type_at,
                                  "more bytes than 64 bits count: " + std::to_string(n_elements) + " elements");
  }
  entry.tensor.bytes = static_cast<int64_t>(n_bytes);
  return {};
}

Result<Entry> read_entry(BoundedReader& reader, uint64_t alignment) {
  Entry entry;
  entry.at = reader.offset();
  QR_TRY(entry.tensor.name, read_name(reader, "a tensor name", kMaxTensorNameBytes));
  const std::string subject = "tensor " + in_quotes(entry.tensor.name);
  if (Status read = read_extent(reader, entry); !read) return error_within(subject, std::move(read).error());
  auto offset = reader.read<uint64_t>("the offset");
  if (!offset) return error_within(subject, std::move(offset).error());
  entry.relative = *offset;
  if (entry.relative % alignment == 0) return entry;
  return tensor_error(entry, "offset " + std::to_string(entry.relative) + " is no multiple of the alignment " +
                                 std::to_string(alignment));
}

// Turns offsets into places in the file and holds them against its end and against each other.
Status place_tensors(std::vector<Entry>& entries, uint64_t data_offset, uint64_t file_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.relative < b.relative; });
  const Entry* before = nullptr;
  uint64_t free_from = 0;  // relative
  for (Entry& entry : entries) {
    uint64_t end = 0;
    if (!checked_add(entry.relative, static_cast<uint64_t>(entry.tensor.bytes), end) ||
        !checked_add(end, data_offset, end) || end > file_bytes) {
      return tensor_error(entry, "offset " + std::to_string(entry.relative) + " and " +
                                     std::to_string(entry.tensor.bytes) +
                                     " bytes end beyond the file: data starts at " + std::to_string(data_offset) +
                                     ", the file has " + std::to_string(file_bytes) + " bytes");
    }
    if (entry.relative < free_from) {
      return tensor_error(
          entry, "offset " + std::to_string(entry.relative) + " overlaps tensor " + in_quotes(before->tensor.name));
    }
    free_from = end - data_offset;
    before = &entry;
    entry.tensor.offset = static_cast<int64_t>(data_offset + entry.relative);
  }
  return {};
}

Status read_tensors(BoundedReader& reader, GgufHeader& header, uint64_t file_bytes) {
  QR_TRY_VOID(reader.check_count(header.n_tensors, kMinTensorBytes, "the list of tensors"));
  std::vector<Entry> entries;
  entries.reserve(header.n_tensors);
  for (uint64_t i = 0; i < header.n_tensors; ++i) {
    QR_TRY(entries.emplace_back(), read_entry(reader, header.alignment));
  }
  if (entries.empty()) return {};
  const uint64_t data_offset = (reader.offset() + header.alignment - 1) / header.alignment * header.alignment;
  QR_TRY_VOID(place_tensors(entries, data_offset, file_bytes));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.tensor.name, a.at) < std::tie(b.tensor.name, b.at);
  });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const Entry& a, const Entry& b) { return a.tensor.name == b.tensor.name; });
  if (twice != entries.end()) return tensor_error(*std::next(twice), "the name is there a second time");
  header.data_offset = static_cast<int64_t>(data_offset);
  header.tensors.reserve(entries.size());
  for (Entry& entry : entries) header.tensors.push_back(std::move(entry.tensor));
  return {};
}

}  // namespace

bool is_gguf(std::span<const std::byte> file) {
  const auto magic = BoundedReader(file).read<uint32_t>("the magic");
  return magic && *magic == kMagic;
}

Result<GgufHeader> parse_gguf(std::span<const std::byte> file, GgufParts parts) {
  GgufHeader header;
  BoundedReader reader(file);
  QR_TRY(const Counts counts, read_preamble(reader, header, parts));
  header.n_tensors = counts.tensors;
  QR_TRY_VOID(read_facts(reader, counts.facts, header));
  QR_TRY_VOID(read_alignment(header));
  if (parts == GgufParts::all) QR_TRY_VOID(read_tensors(reader, header, file.size()));
  return header;
}

}  // namespace quire
