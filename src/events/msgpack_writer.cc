#include "events/msgpack_writer.h"

#include <bit>

namespace quire {

void MsgpackWriter::big_endian(uint64_t value, int n_bytes) {
  for (int i = n_bytes - 1; i >= 0; --i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
}

void MsgpackWriter::count(uint64_t value) {
  if (value < 0x80) return big_endian(value, 1);
  const int n_bytes = value <= 0xff ? 1 : value <= 0xffff ? 2 : value <= 0xffff'ffff ? 4 : 8;
  out_ += static_cast<char>(0xcc + std::countr_zero(static_cast<unsigned>(n_bytes)));
  big_endian(value, n_bytes);
}

void MsgpackWriter::integer(int64_t value) {
  if (value >= 0) return count(static_cast<uint64_t>(value));
  const auto bits = static_cast<uint64_t>(value);
  if (value >= -32) return big_endian(bits & 0xff, 1);
  const int n_bytes = value >= INT8_MIN ? 1 : value >= INT16_MIN ? 2 : value >= INT32_MIN ? 4 : 8;
  out_ += static_cast<char>(0xd0 + std::countr_zero(static_cast<unsigned>(n_bytes)));
  big_endian(bits, n_bytes);
}

void MsgpackWriter::real(double value) {
  out_ += '\xcb';
  big_endian(std::bit_cast<uint64_t>(value), 8);
}

void MsgpackWriter::text(std::string_view value) {
  const auto n = static_cast<uint32_t>(value.size());
  if (n < 32) {
    out_ += static_cast<char>(0xa0 | n);
  } else {
    const int n_bytes = n <= 0xff ? 1 : n <= 0xffff ? 2 : 4;
    out_ += static_cast<char>(0xd9 + std::countr_zero(static_cast<unsigned>(n_bytes)));
    big_endian(n, n_bytes);
  }
  out_ += value;
}

void MsgpackWriter::sized(uint32_t n, uint8_t small, char two, char four) {
  if (n < 16) {
    out_ += static_cast<char>(small | n);
    return;
  }
  out_ += n <= 0xffff ? two : four;
  big_endian(n, n <= 0xffff ? 2 : 4);
}

}  // namespace quire
