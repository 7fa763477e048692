// MessagePack from anybody, value by value, where it lies. The one idea: whoever reads says what should come next, and
// what is of no use is skipped by counting the values that are left, so nothing is nested on a stack or built, and a
// read costs no more than its bytes. An array or a map that says it has more values than there are bytes left has none.
// One thread. Source: the MessagePack specification.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

class MsgpackReader {
 public:
  // The bytes outlive it, and the views that it gives are into them.
  explicit MsgpackReader(std::string_view bytes) : bytes_(bytes) {}

  struct Integer {
    uint64_t bits = 0;
    bool negative = false;  // bits are those of an int64_t
  };
  // Each takes the next value if it is one of that kind; otherwise nothing is taken.
  bool take_nil();
  std::optional<Integer> take_integer();
  std::optional<std::string_view> take_text();   // of UTF-8, or said to be; nobody looks
  std::optional<std::string_view> take_bytes();  // bin or str
  // How many values follow, or how many pairs.
  std::optional<uint32_t> take_array();
  std::optional<uint32_t> take_map();
  // Whatever comes next, with all that is in it: its bytes. Nullopt: it does not end, or is no MessagePack.
  std::optional<std::string_view> skip();

  size_t at() const { return at_; }
  bool is_at_end() const { return at_ == bytes_.size(); }

 private:
  enum class Kind : uint8_t { nil, integer, text, bytes, array, map, other };
  struct Head {
    Kind kind = Kind::other;
    uint64_t value = 0;  // of an integer; values or pairs; 0 otherwise
    bool negative = false;
    size_t n_bytes = 0;   // of the head, an integer's whole
    size_t n_behind = 0;  // of the text or the like that follows
  };
  std::optional<Head> head() const;
  std::optional<Head> sized(size_t n_size, size_t n_more, Kind kind) const;
  uint64_t number(size_t at, size_t n) const;
  std::optional<Head> whole(const Head& head) const;
  std::optional<std::string_view> take_span(bool also_bytes);

  const std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace quire
