// The only way to parse bytes that came from outside: every read says what it wants, is checked in 64 bits against
// what is left, and fails as a value. Nothing here allocates; counts are checked against the remaining bytes
// (check_count) before a caller reserves memory for them.
// Errors are Code::corrupt, "byte 24: the tensor count takes 8 bytes, 3 are left"; callers put file and key in front
// (error_within). A reader belongs to one thread; the bytes outlive it.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace quire {

static_assert(std::endian::native == std::endian::little, "file numbers are little-endian and read without swapping");

// a · b and a + b, false when the result does not fit 64 bits.
[[nodiscard]] constexpr bool checked_mul(uint64_t a, uint64_t b, uint64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}
[[nodiscard]] constexpr bool checked_add(uint64_t a, uint64_t b, uint64_t& out) {
  return !__builtin_add_overflow(a, b, &out);
}

// The same error with `context` and ": " in front.
inline tl::unexpected<Error> error_within(std::string_view context, Error error) {
  error.message.insert(0, std::string(context) + ": ");
  return tl::make_unexpected(std::move(error));
}

class BoundedReader {
 public:
  // `base` is the file offset of data[0], for error messages.
  explicit BoundedReader(std::span<const std::byte> data, uint64_t base = 0) : data_(data), base_(base) {}

  uint64_t offset() const { return base_ + at_; }
  uint64_t remaining() const { return data_.size() - at_; }

  // A little-endian number. `what` names it in the error: "the tensor count".
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
  Result<T> read(std::string_view what) {
    if (remaining() < sizeof(T)) return short_of(what, std::to_string(sizeof(T)));
    T value;
    std::memcpy(&value, data_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  // The next n bytes, as a view into the data.
  Result<std::span<const std::byte>> bytes(uint64_t n, std::string_view what) {
    if (remaining() < n) return short_of(what, std::to_string(n));
    const auto view = data_.subspan(at_, n);
    at_ += n;
    return view;
  }

  Result<std::string_view> text(uint64_t n, std::string_view what) {
    QR_TRY(const auto view, bytes(n, what));
    return std::string_view(reinterpret_cast<const char*>(view.data()), view.size());
  }

  // What was read since the reader stood at `from`. REQUIRES a value that offset() had.
  std::span<const std::byte> since(uint64_t from) const { return data_.subspan(from - base_, offset() - from); }

  // Fails unless `count` records of at least `min_bytes` each can still follow. REQUIRES min_bytes > 0.
  Status check_count(uint64_t count, uint64_t min_bytes, std::string_view what) const {
    if (count <= remaining() / min_bytes) return {};
    return short_of(what, std::to_string(count) + " × at least " + std::to_string(min_bytes));
  }

  // An error at this reader's place, or at one it stood at before.
  tl::unexpected<Error> fail_here(std::string_view text) const { return fail_at(offset(), text); }
  static tl::unexpected<Error> fail_at(uint64_t offset, std::string_view text, Code code = Code::corrupt) {
    return fail(code, "byte " + std::to_string(offset) + ": " + std::string(text));
  }

 private:
  tl::unexpected<Error> short_of(std::string_view what, const std::string& wanted) const {
    return fail_here(std::string(what) + " takes " + wanted + " bytes, " + std::to_string(remaining()) + " are left");
  }

  std::span<const std::byte> data_;
  uint64_t base_ = 0;
  uint64_t at_ = 0;
};

}  // namespace quire
