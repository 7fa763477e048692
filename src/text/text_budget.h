// How large a tokenizer's rules may make a text. Real ones add a prefix, write a space in three bytes and take
// characters apart: less than twelve times. A hostile file's rules would double it thirty times, or write a book for
// each letter. One for each call that encodes.
#pragma once
#include <algorithm>
#include <cstddef>

#include "base/result.h"

namespace quire {

class TextBudget {
 public:
  static constexpr size_t kBytes = 4 << 20;    // beside what follows
  static constexpr size_t kPerByte = 16;       // of the text, after one rule
  static constexpr size_t kPerByteInAll = 64;  // of the text, written by all rules

  explicit TextBudget(size_t text_bytes)
      : text_bytes_(text_bytes), most_(kBytes + kPerByte * text_bytes), left_(kBytes + kPerByteInAll * text_bytes) {}

  // What one rule may write now.
  size_t room() const { return std::min(most_, left_); }
  void take(size_t n) { left_ -= std::min(n, left_); }
  // That a rule wanted more.
  tl::unexpected<Error> exceeded() const {
    return fail(Code::invalid, "tokenizer: its rules make a text of " + std::to_string(text_bytes_) +
                                   " bytes larger than " + std::to_string(most_) +
                                   " (text_growth: 4 MiB and 16 times)");
  }

 private:
  size_t text_bytes_, most_, left_;
};

}  // namespace quire
