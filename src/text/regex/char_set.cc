// See char_set.h.
#include "text/regex/char_set.h"

#include <algorithm>

namespace quire {

void CharSet::tidy(size_t n_sorted) {
  std::inplace_merge(ranges_.begin(), ranges_.begin() + static_cast<ptrdiff_t>(n_sorted), ranges_.end());
  std::vector<Range> merged;
  for (const Range& r : ranges_) {
    if (!merged.empty() && r.first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, r.second);
    } else {
      merged.push_back(r);
    }
  }
  ranges_ = std::move(merged);
}

void CharSet::add(char32_t first, char32_t last) {
  const bool in_order = ranges_.empty() || first > ranges_.back().second + 1;
  ranges_.emplace_back(first, last);
  if (!in_order) tidy(ranges_.size() - 1);
}

void CharSet::add(const CharSet& other) {
  const size_t n = ranges_.size();
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  tidy(n);
}

CharSet CharSet::negated() const {
  CharSet out;
  char32_t next = 0;
  for (const Range& r : ranges_) {
    if (r.first > next) out.ranges_.emplace_back(next, r.first - 1);
    next = r.second + 1;
  }
  if (next <= kLast) out.ranges_.emplace_back(next, kLast);
  return out;
}

bool CharSet::contains(char32_t cp) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), cp,
                                      [](char32_t value, const Range& r) { return value < r.first; });
  return after != ranges_.begin() && cp <= (after - 1)->second;
}

CharSet CharSet::of_categories(Category first, Category last) {
  CharSet out;
  const std::span<const uint32_t> runs = category_runs();
  for (size_t i = 0; i < runs.size(); ++i) {
    const char32_t begin = runs[i] >> 8, end = i + 1 < runs.size() ? runs[i + 1] >> 8 : kLast + 1;
    const auto code = static_cast<uint8_t>(runs[i]);
    if (code != kUpperLowerRun && code != kLowerUpperRun) {
      const auto c = static_cast<Category>(code);
      if (c >= first && c <= last) out.add(begin, end - 1);
      continue;
    }
    for (char32_t cp = begin; cp < end; ++cp) {
      if (category(cp) >= first && category(cp) <= last) out.add(cp, cp);
    }
  }
  return out;
}

namespace {
CharSet with_bit(uint8_t bit) {
  CharSet out;
  for (char32_t cp = 0; cp <= CharSet::kLast;) {
    if ((unicode_class(cp) & bit) == 0) {
      ++cp;
      continue;
    }
    const char32_t first = cp;
    while (cp <= CharSet::kLast && (unicode_class(cp) & bit) != 0) ++cp;
    out.add(first, cp - 1);
  }
  return out;
}
}  // namespace

CharSet CharSet::space() {
  static const CharSet set = with_bit(unicode_bits::kSpace);
  return set;
}

CharSet CharSet::word() {
  static const CharSet set = with_bit(unicode_bits::kWord);
  return set;
}

CharSet CharSet::han() {
  CharSet out;
  const std::span<const uint32_t> pairs = han_ranges();
  for (size_t i = 0; i < pairs.size(); i += 2) out.ranges_.emplace_back(pairs[i], pairs[i + 1]);
  return out;
}

}  // namespace quire
