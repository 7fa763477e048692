#include "events/msgpack_reader.h"

namespace quire {

uint64_t MsgpackReader::number(size_t at, size_t n) const {
  uint64_t out = 0;
  for (size_t i = 0; i < n; ++i) out = out << 8 | static_cast<unsigned char>(bytes_[at + i]);
  return out;
}

// Only what is all there, or, of arrays and maps, can be.
std::optional<MsgpackReader::Head> MsgpackReader::whole(const Head& head) const {
  const size_t left = bytes_.size() - at_;
  if (head.n_bytes > left || head.n_behind > left - head.n_bytes) return std::nullopt;
  if (head.kind == Kind::array && head.value > left - head.n_bytes) return std::nullopt;
  if (head.kind == Kind::map && head.value > (left - head.n_bytes) / 2) return std::nullopt;
  return head;
}

// A head that says a size in `n_size` bytes; `n_more`: bytes behind it that the size does not count.
std::optional<MsgpackReader::Head> MsgpackReader::sized(size_t n_size, size_t n_more, Kind kind) const {
  if (bytes_.size() - at_ < 1 + n_size) return std::nullopt;
  const uint64_t n = number(at_ + 1, n_size);
  if (kind == Kind::array || kind == Kind::map) return whole({kind, n, false, 1 + n_size, 0});
  return whole({kind, 0, false, 1 + n_size, n + n_more});
}

std::optional<MsgpackReader::Head> MsgpackReader::head() const {
  if (at_ >= bytes_.size()) return std::nullopt;
  const auto c = static_cast<unsigned char>(bytes_[at_]);
  if (c < 0x80) return Head{Kind::integer, c, false, 1, 0};
  if (c < 0x90) return whole({Kind::map, c & 0x0fU, false, 1, 0});
  if (c < 0xa0) return whole({Kind::array, c & 0x0fU, false, 1, 0});
  if (c < 0xc0) return whole({Kind::text, 0, false, 1, c & 0x1fU});
  if (c >= 0xe0) return Head{Kind::integer, c | ~uint64_t{0xff}, true, 1, 0};
  const auto power = [c](unsigned char first) { return size_t{1} << (c - first); };
  if (c == 0xc0) return Head{Kind::nil, 0, false, 1, 0};
  if (c == 0xc1) return std::nullopt;  // never used
  if (c <= 0xc3) return Head{Kind::other, 0, false, 1, 0};
  if (c <= 0xc6) return sized(power(0xc4), 0, Kind::bytes);
  if (c <= 0xc9) return sized(power(0xc7), 1, Kind::other);
  if (c <= 0xcb) return whole({Kind::other, 0, false, 1, c == 0xca ? size_t{4} : size_t{8}});
  if (c >= 0xd4 && c <= 0xd8) return whole({Kind::other, 0, false, 1, 1 + power(0xd4)});
  if (c >= 0xd9 && c <= 0xdb) return sized(power(0xd9), 0, Kind::text);
  if (c >= 0xdc) return sized(2 * power(c <= 0xdd ? 0xdc : 0xde), 0, c <= 0xdd ? Kind::array : Kind::map);
  // An integer of 1 to 8 bytes, without a sign or with one.
  const bool is_signed = c >= 0xd0;
  const size_t n = power(is_signed ? 0xd0 : 0xcc);
  if (bytes_.size() - at_ < 1 + n) return std::nullopt;
  uint64_t bits = number(at_ + 1, n);
  const bool negative = is_signed && (bits >> (8 * n - 1) & 1) != 0;
  if (negative && n < 8) bits |= ~uint64_t{0} << (8 * n);
  return Head{Kind::integer, bits, negative, 1 + n, 0};
}

bool MsgpackReader::take_nil() {
  const auto next = head();
  if (!next || next->kind != Kind::nil) return false;
  ++at_;
  return true;
}

std::optional<MsgpackReader::Integer> MsgpackReader::take_integer() {
  const auto next = head();
  if (!next || next->kind != Kind::integer) return std::nullopt;
  at_ += next->n_bytes;
  return Integer{next->value, next->negative};
}

std::optional<std::string_view> MsgpackReader::take_span(bool also_bytes) {
  const auto next = head();
  if (!next || (next->kind != Kind::text && (!also_bytes || next->kind != Kind::bytes))) return std::nullopt;
  const std::string_view out = bytes_.substr(at_ + next->n_bytes, next->n_behind);
  at_ += next->n_bytes + next->n_behind;
  return out;
}

std::optional<std::string_view> MsgpackReader::take_text() { return take_span(false); }

std::optional<std::string_view> MsgpackReader::take_bytes() { return take_span(true); }

std::optional<uint32_t> MsgpackReader::take_array() {
  const auto next = head();
  if (!next || next->kind != Kind::array) return std::nullopt;
  at_ += next->n_bytes;
  return static_cast<uint32_t>(next->value);
}

std::optional<uint32_t> MsgpackReader::take_map() {
  const auto next = head();
  if (!next || next->kind != Kind::map) return std::nullopt;
  at_ += next->n_bytes;
  return static_cast<uint32_t>(next->value);
}

std::optional<std::string_view> MsgpackReader::skip() {
  const size_t begin = at_;
  for (uint64_t n_left = 1; n_left > 0; --n_left) {
    const auto next = head();
    if (!next) {
      at_ = begin;
      return std::nullopt;
    }
    at_ += next->n_bytes + next->n_behind;
    if (next->kind == Kind::array) n_left += next->value;
    if (next->kind == Kind::map) n_left += 2 * next->value;
  }
  return bytes_.substr(begin, at_ - begin);
}

}  // namespace quire
