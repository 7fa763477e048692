// Sets of code points that BERT's pipeline is defined by. They follow the reference's old Unicode tables, not the
// Unicode 16 of unicode.h, because that is what the vocabularies were trained with.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace quire {

extern const uint32_t kBertPunctuation[];  // pieces of their own
extern const size_t kBertPunctuationSize;
extern const uint32_t kBertControl[];  // dropped by "clean text"
extern const size_t kBertControlSize;
extern const uint32_t kBertAccents[];  // dropped by "strip accents", after decomposition
extern const size_t kBertAccentsSize;
extern const uint32_t kReferenceMarks[];  // dropped by the normaliser StripAccents
extern const size_t kReferenceMarksSize;

// `pairs`: first, last of ranges, ascending.
inline bool in_ranges(const uint32_t* pairs, size_t n, char32_t cp) {
  if (cp < pairs[0]) return false;  // ASCII is no accent: most text ends here
  size_t low = 0, high = n / 2;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (pairs[middle * 2 + 1] < cp) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < n / 2 && pairs[low * 2] <= cp;
}
inline bool is_bert_punctuation(char32_t cp) { return in_ranges(kBertPunctuation, kBertPunctuationSize, cp); }
inline bool is_bert_control(char32_t cp) { return in_ranges(kBertControl, kBertControlSize, cp); }
inline bool is_bert_accent(char32_t cp) { return in_ranges(kBertAccents, kBertAccentsSize, cp); }
inline bool is_reference_mark(char32_t cp) { return in_ranges(kReferenceMarks, kReferenceMarksSize, cp); }

}  // namespace quire
