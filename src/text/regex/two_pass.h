// All matches of a pattern in time that is linear whatever the text: for what the table (dfa.h) reads again and again
// because a match that begins here fails far behind. One pass from the end of the text finds, for every place, from
// which instructions a match can still be reached; one from its beginning follows the preferred way that is known to
// succeed, so nothing is ever read in vain. The idea is Frisch and Cardelli's (Greedy regular expression matching,
// 2004). Immutable; any thread: what a search works out is its own.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/byte_range.h"
#include "text/regex/nfa.h"

namespace quire {

class TwoPass {
 public:
  static constexpr size_t kMaxWork = size_t{1} << 24;  // instructions visited for what is new, in one search

  TwoPass() = default;
  // `members`: by class, which sets hold its code points. The class behind the last one is the end of the text.
  TwoPass(Program program, std::vector<std::vector<bool>> members);

  // A text as its code points: class and bytes of each.
  struct Decoded {
    std::vector<uint8_t> classes, lengths;
  };
  // Appends all matches as Dfa::find_all; their places are counted from `offset`. False: what is new about the text
  // took more than kMaxWork, and nothing was appended.
  bool find_all(const Decoded& text, size_t offset, std::vector<ByteRange>& out) const;

 private:
  friend class TwoPassSearch;

  Program program_;
  std::vector<std::vector<bool>> members_;
  std::vector<int> order_;  // all instructions, each behind those that it leads to without reading
};

}  // namespace quire
