// See unicode_form.h. Decomposition and composition of single code points come from utf8proc; its whole-string
// functions order marks in quadratic time and are not used.
#include "text/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <vector>

#include "text/bert_sets.h"
#include "text/utf8.h"

namespace quire {

namespace {

using CodePoints = std::vector<utf8proc_int32_t>;
constexpr size_t kPlanes = 0x110000;

// STABLE is what keeps the composition exclusions apart.
constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);

bool is_compat(UnicodeForm form) { return form == UnicodeForm::nfkc || form == UnicodeForm::nfkd; }
bool is_composed(UnicodeForm form) { return form == UnicodeForm::nfc || form == UnicodeForm::nfkc; }

// The reference's tables are Unicode 9: what later versions decompose or order as a mark, it leaves alone (and so do
// we, because vocabularies were trained with it). Pairs first, last.
constexpr uint32_t kTooNew[] = {
    0x7FD,   0x7FD,   0x898,   0x89F,   0x8CA,   0x8D3,   0x9FE,   0x9FE,   0xC3C,   0xC3C,   0xD3B,   0xD3C,   0xEBA,
    0xEBA,   0x1715,  0x1715,  0x1ABF,  0x1ACE,  0x1DF6,  0x1DFA,  0x32FF,  0x32FF,  0xA7F2,  0xA7F4,  0xA82C,  0xA82C,
    0xAB69,  0xAB69,  0x10781, 0x107BA, 0x10D24, 0x10D27, 0x10EAB, 0x10EAC, 0x10EFD, 0x10EFF, 0x10F46, 0x10F50, 0x10F82,
    0x10F85, 0x11070, 0x11070, 0x1133B, 0x1133B, 0x1145E, 0x1145E, 0x11839, 0x1183A, 0x11938, 0x11938, 0x1193D, 0x1193E,
    0x11943, 0x11943, 0x119E0, 0x119E0, 0x11A34, 0x11A34, 0x11A47, 0x11A47, 0x11A99, 0x11A99, 0x11D42, 0x11D42, 0x11D44,
    0x11D45, 0x11D97, 0x11D97, 0x11F41, 0x11F42, 0x16FF0, 0x16FF1, 0x1E030, 0x1E06D, 0x1E08F, 0x1E08F, 0x1E130, 0x1E136,
    0x1E2AE, 0x1E2AE, 0x1E2EC, 0x1E2EF, 0x1E4EC, 0x1E4EF, 0x1F16C, 0x1F16C, 0x1FBF0, 0x1FBF9};

bool too_new(char32_t cp) { return in_ranges(kTooNew, std::size(kTooNew), cp); }

void decompose(char32_t cp, UnicodeForm form, CodePoints& out) {
  std::array<utf8proc_int32_t, 32> buffer;  // the longest decomposition has 18 code points
  const int options = UTF8PROC_DECOMPOSE | (is_compat(form) ? UTF8PROC_COMPAT : 0);
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(cp), buffer.data(), buffer.size(),
                                         static_cast<utf8proc_option_t>(options), &boundary);
  if (n < 0 || n > static_cast<utf8proc_ssize_t>(buffer.size())) {
    out.push_back(static_cast<utf8proc_int32_t>(cp));
  } else {
    out.insert(out.end(), buffer.begin(), buffer.begin() + n);
  }
}

int combining_class(utf8proc_int32_t cp) { return utf8proc_get_property(cp)->combining_class; }

// Marks by class within each run, those of equal class in the order they came.
void order_marks(CodePoints& text) {
  for (auto it = text.begin(); it != text.end();) {
    if (combining_class(*it) == 0) {
      ++it;
      continue;
    }
    const auto end = std::find_if(it, text.end(), [](utf8proc_int32_t cp) { return combining_class(cp) == 0; });
    std::stable_sort(it, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    it = end;
  }
}

// The code points that the form may change, or that may join the one before them.
class Suspects {
 public:
  explicit Suspects(UnicodeForm form) {
    CodePoints parts;
    for (char32_t cp = 0x80; cp < kPlanes; ++cp) {
      if (too_new(cp)) continue;
      const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(cp));
      if (property->combining_class != 0) bits_.set(cp);
      const bool hangul = cp >= 0xAC00 && cp <= 0xD7A3;
      if (property->decomp_seqindex == 0xFFFF && !hangul) continue;
      parts.clear();
      decompose(cp, form, parts);
      if (parts.size() == 1 && parts[0] == static_cast<utf8proc_int32_t>(cp)) continue;
      if (is_composed(form)) {
        bits_.set(static_cast<size_t>(parts.back()));  // may be the second half of a composition
        CodePoints again = parts;
        const auto n = utf8proc_normalize_utf32(again.data(), static_cast<utf8proc_ssize_t>(again.size()), kCompose);
        if (n == 1 && again[0] == static_cast<utf8proc_int32_t>(cp)) continue;
      }
      bits_.set(cp);
    }
    for (size_t jamo = 0x1161; is_composed(form) && jamo <= 0x11C2; ++jamo) bits_.set(jamo);
  }
  bool operator()(char32_t cp) const { return cp >= 0x80 && bits_[cp]; }

 private:
  std::bitset<kPlanes> bits_;
};

const Suspects& suspects(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::nfc: {
      static const auto set = std::make_unique<Suspects>(UnicodeForm::nfc);
      return *set;
    }
    case UnicodeForm::nfd: {
      static const auto set = std::make_unique<Suspects>(UnicodeForm::nfd);
      return *set;
    }
    case UnicodeForm::nfkc: {
      static const auto set = std::make_unique<Suspects>(UnicodeForm::nfkc);
      return *set;
    }
    default: {
      static const auto set = std::make_unique<Suspects>(UnicodeForm::nfkd);
      return *set;
    }
  }
}

void append_stretch(UnicodeForm form, CodePoints& text, std::string& out) {
  order_marks(text);
  auto n = static_cast<utf8proc_ssize_t>(text.size());
  if (is_composed(form)) n = utf8proc_normalize_utf32(text.data(), n, kCompose);
  for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<char32_t>(text[static_cast<size_t>(i)]));
}

bool append_form(UnicodeForm form, std::string_view in, size_t max_bytes, std::string& out);

class Form final : public Normalizer {
 public:
  explicit Form(UnicodeForm form) : form_(form) { suspects(form); }  // the table is made now, not with the first text
  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    out.clear();
    return append_form(form_, in, max_bytes, out);
  }

 private:
  UnicodeForm form_;
};

}  // namespace

void append_unicode_form(UnicodeForm form, std::string_view in, std::string& out) {
  append_form(form, in, std::string::npos, out);
}

namespace {

bool append_form(UnicodeForm form, std::string_view in, size_t max_bytes, std::string& out) {
  const Suspects& suspect = suspects(form);
  CodePoints stretch;
  size_t done = 0, last = 0;  // copied up to here; start of the code point before i
  for (size_t i = 0; i < in.size();) {
    CodePoint c = utf8_at(in, i);
    if (!c.valid || !suspect(c.value)) {
      last = i;
      i += static_cast<size_t>(c.len);
      continue;
    }
    // From the innocent one before, which a mark may join, up to the next innocent one.
    const CodePoint before = utf8_at(in, last);
    const size_t begin = last >= done && before.valid && !too_new(before.value) ? last : i;
    out.append(in, done, begin - done);
    stretch.clear();
    for (i = begin; i < in.size(); i += static_cast<size_t>(c.len)) {
      c = utf8_at(in, i);
      if (!c.valid || (i > begin && !suspect(c.value))) break;
      decompose(c.value, form, stretch);
    }
    append_stretch(form, stretch, out);
    if (out.size() > max_bytes) return false;
    done = last = i;
  }
  out.append(in, done);
  return out.size() <= max_bytes;
}

}  // namespace

void append_lower(char32_t cp, std::string& out) {
  if (cp < 0x80) {
    out.push_back(static_cast<char>(cp >= 'A' && cp <= 'Z' ? cp + ('a' - 'A') : cp));
  } else if (cp == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(cp))));
  }
}

std::unique_ptr<Normalizer> make_unicode_form(UnicodeForm form) { return std::make_unique<Form>(form); }

}  // namespace quire
