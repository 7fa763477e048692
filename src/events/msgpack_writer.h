// MessagePack, as far as we write it: each value in its shortest form, behind one another in a string. Arrays and maps
// say how many values or pairs follow. Any thread. Source: the MessagePack specification.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

class MsgpackWriter {
 public:
  void nil() { out_ += '\xc0'; }
  void integer(int64_t value);
  void count(uint64_t value);
  void real(double value);  // always 64 bits
  void text(std::string_view value);
  void array(uint32_t n) { sized(n, 0x90, '\xdc', '\xdd'); }
  void map(uint32_t n) { sized(n, 0x80, '\xde', '\xdf'); }

  std::string take() { return std::move(out_); }

 private:
  void sized(uint32_t n, uint8_t small, char two, char four);
  void big_endian(uint64_t value, int n_bytes);

  std::string out_;
};

}  // namespace quire
