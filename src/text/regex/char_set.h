// A set of code points as sorted, disjoint, non-touching ranges; what a regex's classes are made of.
#pragma once
#include <initializer_list>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace quire {

class CharSet {
 public:
  using Range = std::pair<char32_t, char32_t>;  // first, last
  static constexpr char32_t kLast = 0x10FFFF;

  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges) {
    for (const Range& r : ranges) add(r.first, r.second);
  }
  static CharSet of_categories(Category first, Category last);
  static CharSet space();  // \s
  static CharSet word();   // \w
  static CharSet han();

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  CharSet negated() const;
  CharSet intersected(const CharSet& other) const { return unite(negated(), other.negated()).negated(); }
  bool intersects(const CharSet& other) const { return !intersected(other).ranges_.empty(); }
  bool contains(char32_t cp) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  static CharSet unite(CharSet a, const CharSet& b) {
    a.add(b);
    return a;
  }
  void tidy(size_t n_sorted);  // the first n and the rest are sorted each

  std::vector<Range> ranges_;
};

}  // namespace quire
