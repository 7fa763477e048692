// The bytes of every token in one buffer, and bytes → token through an open-addressed hash. Immutable after build.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace quire {

// A fast 64-bit mix of bytes; not for hostile keys: the tables are filled from a model's file, never from user text.
inline uint64_t mix_bytes(std::string_view s) {
  constexpr uint64_t kMul = 0x9E3779B97F4A7C15u;
  uint64_t h = s.size() * kMul;
  const char* p = s.data();
  size_t n = s.size();
  for (; n > 8; n -= 8, p += 8) {
    uint64_t w;
    std::memcpy(&w, p, 8);
    h = (h ^ w) * kMul;
    h ^= h >> 32;
  }
  uint64_t w = 0;
  std::memcpy(&w, p, n);
  h = (h ^ w) * kMul;
  return h ^ h >> 29;
}

class TokenIndex {
 public:
  // texts[id] is the byte string of id; `searchable[id]` false keeps it out of find(). Of equal texts the lowest id is
  // found; empty texts are never found. REQUIRES less than 4 GiB of text.
  void build(const std::vector<std::string>& texts, const std::vector<bool>& searchable);

  std::string_view text(Token id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  size_t size() const { return offsets_.empty() ? 0 : offsets_.size() - 1; }
  size_t max_len() const { return max_len_; }  // of the searchable texts

  // -1 when there is none.
  Token find(std::string_view text) const {
    if (slots_.empty() || text.size() > max_len_) return -1;
    const uint64_t h = mix_bytes(text);
    const auto tag = static_cast<uint32_t>(h);
    for (size_t i = static_cast<size_t>(h >> shift_);; i = (i + 1) & mask_) {
      const Slot& s = slots_[i];
      if (s.id < 0) return -1;
      if (s.tag == tag && this->text(s.id) == text) return s.id;
    }
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    Token id = -1;
  };
  std::string bytes_;
  std::vector<uint32_t> offsets_;
  std::vector<Slot> slots_;
  size_t mask_ = 0, max_len_ = 0;
  int shift_ = 63;
};

}  // namespace quire
