#include "io/gguf_values.h"

#include <array>
#include <limits>
#include <utility>

#include "io/gguf.h"

namespace quire {
namespace {

enum ValueType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// Bytes of a value of the type; 0 where that varies, and for numbers that are no type.
uint64_t fixed_bytes(uint32_t type) {
  constexpr std::array<uint8_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 0;
}

tl::unexpected<Error> unknown_type(const BoundedReader& reader, uint32_t type) {
  return reader.fail_here("value type " + std::to_string(type) + " is none of 0 to 12");
}

Result<std::string> read_string(BoundedReader& reader) {
  QR_TRY(const uint64_t length, reader.read<uint64_t>("a string's length"));
  if (length > kMaxMetaBytes) {
    return reader.fail_here("a string of " + std::to_string(length) + " bytes, limit " + std::to_string(kMaxMetaBytes));
  }
  QR_TRY(const std::string_view text, reader.text(length, "a string"));
  return std::string(text);
}

Result<bool> read_bool(BoundedReader& reader) {
  QR_TRY(const uint8_t byte, reader.read<uint8_t>("a bool"));
  if (byte > 1) return BoundedReader::fail_at(reader.offset() - 1, "a bool must be 0 or 1, is " + std::to_string(byte));
  return byte == 1;
}

template <class T>
Result<int64_t> read_integer(BoundedReader& reader) {
  QR_TRY(const T value, reader.read<T>("a number"));
  if (!std::in_range<int64_t>(value)) {
    return BoundedReader::fail_at(reader.offset() - sizeof(T),
                                  "array element " + std::to_string(value) + " is beyond int64");
  }
  return static_cast<int64_t>(value);
}

Result<int64_t> read_integer(BoundedReader& reader, uint32_t type) {
  switch (type) {
    case u8: return read_integer<uint8_t>(reader);
    case i8: return read_integer<int8_t>(reader);
    case u16: return read_integer<uint16_t>(reader);
    case i16: return read_integer<int16_t>(reader);
    case u32: return read_integer<uint32_t>(reader);
    case i32: return read_integer<int32_t>(reader);
    case u64: return read_integer<uint64_t>(reader);
    case i64: return read_integer<int64_t>(reader);
    case boolean: {
      QR_TRY(const bool value, read_bool(reader));
      return int64_t{value};
    }
    default: return unknown_type(reader, type);
  }
}

Result<double> read_float(BoundedReader& reader, uint32_t type) {
  if (type == f64) return reader.read<double>("a number");
  QR_TRY(const float value, reader.read<float>("a number"));
  return double{value};
}

struct ArrayHead {
  uint32_t type;
  uint64_t count;
};

// Element type and count, the count held against what is left and against the limit.
Result<ArrayHead> read_array_head(BoundedReader& reader) {
  ArrayHead head{};
  const uint64_t start = reader.offset();
  QR_TRY(head.type, reader.read<uint32_t>("an array's element type"));
  if (head.type > f64)
    return BoundedReader::fail_at(start, "array of value type " + std::to_string(head.type) + ", none of 0 to 12");
  QR_TRY(head.count, reader.read<uint64_t>("an array's length"));
  const uint64_t shortest = head.type == string ? 8 : head.type == array ? 12 : fixed_bytes(head.type);
  QR_TRY_VOID(reader.check_count(head.count, shortest, "an array"));
  if (head.count > kMaxMetaBytes / shortest) {
    return reader.fail_here("an array of " + std::to_string(head.count) + " elements, limit " +
                            std::to_string(kMaxMetaBytes / shortest));
  }
  return head;
}

// Passes over the elements of one flat array.
Status skip_elements(BoundedReader& reader, const ArrayHead& head) {
  if (head.type != string) {
    QR_TRY_VOID(reader.bytes(head.count * fixed_bytes(head.type), "an array"));
    return {};
  }
  for (uint64_t i = 0; i < head.count; ++i) {
    QR_TRY(const uint64_t length, reader.read<uint64_t>("a string's length"));
    QR_TRY_VOID(reader.bytes(length, "a string"));
  }
  return {};
}

// Passes over `count` arrays, whatever they hold, to kMaxArrayDepth. `left[d]` counts what is to come at depth d.
Status skip_arrays(BoundedReader& reader, uint64_t count) {
  std::array<uint64_t, kMaxArrayDepth> left{};
  size_t depth = 0;
  left[0] = count;
  while (true) {
    if (left[depth] == 0) {
      if (depth == 0) return {};
      --depth;
      continue;
    }
    --left[depth];
    QR_TRY(const ArrayHead head, read_array_head(reader));
    if (head.type != array) {
      QR_TRY_VOID(skip_elements(reader, head));
      continue;
    }
    if (depth + 2 >= left.size()) {
      return reader.fail_here("arrays nested deeper than " + std::to_string(kMaxArrayDepth));
    }
    left[++depth] = head.count;
  }
}

Result<std::optional<MetaValue>> read_array(BoundedReader& reader) {
  QR_TRY(const ArrayHead head, read_array_head(reader));
  if (head.type == array) {
    QR_TRY_VOID(skip_arrays(reader, head.count));
    return std::nullopt;
  }
  if (head.type == string) {
    std::vector<std::string> values;
    values.reserve(head.count);
    for (uint64_t i = 0; i < head.count; ++i) {
      QR_TRY(values.emplace_back(), read_string(reader));
    }
    return MetaValue(std::move(values));
  }
  if (head.type == f32 || head.type == f64) {
    std::vector<double> values(head.count);
    for (double& value : values) {
      QR_TRY(value, read_float(reader, head.type));
    }
    return MetaValue(std::move(values));
  }
  std::vector<int64_t> values(head.count);
  for (int64_t& value : values) {
    QR_TRY(value, read_integer(reader, head.type));
  }
  return MetaValue(std::move(values));
}

}  // namespace

Result<std::optional<MetaValue>> read_gguf_value(BoundedReader& reader, uint32_t type) {
  switch (type) {
    case array: return read_array(reader);
    case string: {
      QR_TRY(std::string value, read_string(reader));
      return MetaValue(std::move(value));
    }
    case boolean: {
      QR_TRY(const bool value, read_bool(reader));
      return MetaValue(value);
    }
    case f32:
    case f64: {
      QR_TRY(const double value, read_float(reader, type));
      return MetaValue(value);
    }
    case u64: {
      QR_TRY(const uint64_t value, reader.read<uint64_t>("a number"));
      return std::in_range<int64_t>(value) ? MetaValue(static_cast<int64_t>(value)) : MetaValue(value);
    }
    default: {
      QR_TRY(const int64_t value, read_integer(reader, type));
      return MetaValue(value);
    }
  }
}

}  // namespace quire
