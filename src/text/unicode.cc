// See unicode.h. The runs of unicode_data.cc are spread once, at first use, into a two-level table: 256 code points a
// page, equal pages shared; a look-up is two loads.
#include "text/unicode.h"

#include <array>
#include <map>
#include <vector>

namespace quire {

extern const uint32_t kCategoryRuns[];
extern const size_t kCategoryRunCount;
extern const uint32_t kHanRanges[];
extern const size_t kHanRangeCount;

namespace {

constexpr char32_t kEnd = 0x110000;

bool white_space(char32_t cp) {
  return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
         (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool word_beyond_categories(char32_t cp) {  // joiners, and the circled letters, which are alphabetic symbols
  return cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
         (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
}

uint8_t class_of(Category c, char32_t cp) {
  using namespace unicode_bits;
  const bool space = white_space(cp), word = word_beyond_categories(cp) || c == Category::pc;
  unsigned bits = (space ? kSpace : 0u) | (word ? kWord : 0u);
  if (c >= Category::lu && c <= Category::lo) bits |= kLetter | kWord;
  if (c >= Category::mn && c <= Category::me) bits |= kMark | kWord;
  if (c >= Category::nd && c <= Category::no) bits |= kNumber;
  if (c == Category::nd || c == Category::nl) bits |= kWord;
  if (c >= Category::pc && c <= Category::po) bits |= kPunct;
  if (c >= Category::sm && c <= Category::so) bits |= kSymbol;
  return static_cast<uint8_t>(bits);
}

struct Entry {
  Category category = Category::cn;
  uint8_t bits = 0;
  auto operator<=>(const Entry&) const = default;
};

struct Table {
  using Page = std::array<Entry, 256>;
  std::array<uint16_t, kEnd / 256> page_of{};
  std::vector<Page> pages;

  Table() {
    std::map<Page, uint16_t> seen;
    const std::span<const uint32_t> runs = category_runs();
    size_t run = 0;
    for (char32_t first = 0; first < kEnd; first += 256) {
      Page page;
      while (run + 1 < runs.size() && runs[run + 1] >> 8 <= first) ++run;
      const char32_t run_end = run + 1 < runs.size() ? runs[run + 1] >> 8 : kEnd;
      const auto code = static_cast<uint8_t>(runs[run]);
      // A page inside one run, which most are, is filled at once. White space and the other exceptions of class_of lie
      // in pages of several runs.
      if (run_end >= first + 256 && code < kUpperLowerRun) {
        page.fill({static_cast<Category>(code), class_of(static_cast<Category>(code), first)});
      } else {
        for (char32_t i = 0; i < 256; ++i) {
          const char32_t cp = first + i;
          while (run + 1 < runs.size() && runs[run + 1] >> 8 <= cp) ++run;
          const Category c = category_in(runs[run], cp);
          page[i] = {c, class_of(c, cp)};
        }
      }
      const auto [it, fresh] = seen.try_emplace(page, static_cast<uint16_t>(pages.size()));
      if (fresh) pages.push_back(page);
      page_of[first / 256] = it->second;
    }
  }

  static Category category_in(uint32_t run, char32_t cp) {
    const auto code = static_cast<uint8_t>(run);
    const bool odd = ((cp - (run >> 8)) & 1) != 0;
    if (code == kUpperLowerRun) return odd ? Category::ll : Category::lu;
    if (code == kLowerUpperRun) return odd ? Category::lu : Category::ll;
    return static_cast<Category>(code);
  }
};

Entry look_up(char32_t cp) {
  static const Table table;
  return cp < kEnd ? table.pages[table.page_of[cp >> 8]][cp & 0xFF] : Entry{};
}

}  // namespace

Category category(char32_t cp) { return look_up(cp).category; }
uint8_t unicode_class(char32_t cp) { return look_up(cp).bits; }
std::span<const uint32_t> category_runs() { return {kCategoryRuns, kCategoryRunCount}; }
std::span<const uint32_t> han_ranges() { return {kHanRanges, kHanRangeCount * 2}; }

}  // namespace quire
