// The PCRE2 side of matcher.h. PCRE2's \s differs from every reference's (it takes U+180E), so the pattern's \s and \S
// are spelled out, and so is \v, one character to them and a class to PCRE2; class intersections (&&) mean something
// else in PCRE2 and are refused.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/regex/matcher.h"
#include "text/utf8.h"

namespace quire {

namespace {

// Steps of one match: a thousand times what the known patterns take for a long word.
constexpr uint32_t kMatchLimit = 10'000'000;
// Steps of all matches in a text, and bytes that they pass, for each of its bytes; PCRE2 counts those of a match from
// its beginning anew.
constexpr int64_t kStepsPerByte = 256, kStepsAtLeast = 16'384;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr std::string_view kSpaceRanges =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

template <auto F>
struct Free {
  template <class T>
  void operator()(T* p) const {
    F(p);
  }
};
using Code8 = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using Data8 = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using Context8 = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;

// Counts what a search does, by PCRE2's calls before each part of the pattern.
struct Fuel {
  int64_t left;
  PCRE2_SIZE at = 0;

  static int burn(pcre2_callout_block* call, void* data) {
    auto& fuel = *static_cast<Fuel*>(data);
    const PCRE2_SIZE now = call->current_position;
    fuel.left -= 1 + static_cast<int64_t>(now > fuel.at ? now - fuel.at : fuel.at - now);
    fuel.at = now;
    return fuel.left < 0 ? PCRE2_ERROR_CALLOUT : 0;
  }
};

class PcreMatcher final : public RegexMatcher {
 public:
  PcreMatcher(Code8 code, Context8 context) : code_(std::move(code)), context_(std::move(context)) {}

  bool find_all(std::string_view text, std::vector<ByteRange>& out) const override {
    const Data8 data(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    const Context8 context(pcre2_match_context_copy(context_.get()));
    if (data == nullptr || context == nullptr) return false;
    Fuel fuel{kStepsAtLeast + kStepsPerByte * static_cast<int64_t>(text.size())};
    pcre2_set_callout(context.get(), &Fuel::burn, &fuel);
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    for (size_t at = 0; at < text.size();) {
      const auto match = [&](uint32_t options) {
        return pcre2_match(code_.get(), subject, text.size(), at, options, data.get(), context.get());
      };
      int rc = match(0);
      if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = match(PCRE2_NO_JIT);  // the interpreter keeps its stack on the heap
      if (rc < 0) return rc == PCRE2_ERROR_NOMATCH;
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
      const size_t begin = range[0], end = range[1];
      if (begin > end || end < at) return false;  // \K in a lookbehind can do this
      out.push_back({begin, end});
      at = end > begin ? end : end < text.size() ? end + static_cast<size_t>(utf8_at(text, end).len) : text.size();
    }
    return true;
  }

 private:
  Code8 code_;
  Context8 context_;
};

// \s, \S and \v spelled out; an error for what PCRE2 would silently read otherwise.
Result<std::string> translate(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      ++i;
      if (next == 's') {
        out += in_class ? std::string(kSpaceRanges) : "[" + std::string(kSpaceRanges) + "]";
      } else if (next == 'S' && !in_class) {
        out += "[^" + std::string(kSpaceRanges) + "]";
      } else if (next == 'v') {
        out += "\\x0B";
      } else {
        out += c;
        if (next != '\0') out += next;
      }
      continue;
    }
    if (in_class && ((c == '&' && next == '&') || (c == '[' && next != ':'))) {
      return fail(Code::unsupported,
                  "regex: nested classes beside other unusual parts, at offset " + std::to_string(i));
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      if (next == '^') out += pattern[++i];
      continue;
    }
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<RegexMatcher>> make_pcre_matcher(std::string_view pattern, RegexDialect dialect) {
  QR_TRY(const std::string translated, translate(pattern));
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C |
                           PCRE2_AUTO_CALLOUT |
                           (dialect.dollar_before_newline ? PCRE2_MULTILINE : PCRE2_DOLLAR_ENDONLY);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code8 code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), options, &error, &offset,
                           nullptr));
  if (code == nullptr) {
    PCRE2_UCHAR text[128] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return fail(Code::invalid,
                "regex: " + std::string(reinterpret_cast<const char*>(text)) + " at offset " + std::to_string(offset));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where it fails the interpreter runs, with the same limits
  Context8 context(pcre2_match_context_create(nullptr));
  if (context == nullptr) return fail(Code::exhausted, "regex: out of memory");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  return std::make_unique<PcreMatcher>(std::move(code), std::move(context));
}

}  // namespace quire
