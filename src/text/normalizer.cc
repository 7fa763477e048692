// See normalizer.h.
#include "text/normalizer.h"

#include <algorithm>

#include "text/bert_sets.h"
#include "text/byte_chars.h"
#include "text/unicode.h"
#include "text/unicode_form.h"
#include "text/utf8.h"

namespace quire {

namespace {

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    out.clear();
    if (!in.empty() && prefix_.size() + in.size() > max_bytes) return false;
    if (!in.empty()) out.append(prefix_).append(in);
    return true;
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    out.clear();
    if (from_.size() == 1) return replace_byte(in, max_bytes, out);
    size_t done = 0;
    for (size_t at = in.find(from_); at != std::string_view::npos; at = in.find(from_, done)) {
      out.append(in, done, at - done).append(to_);
      if (out.size() > max_bytes) return false;
      done = at + from_.size();
    }
    out.append(in, done);
    return out.size() <= max_bytes;
  }

 private:
  // Spaces, nearly always: a text may be nothing else, so no search for each.
  bool replace_byte(std::string_view in, size_t max_bytes, std::string& out) const {
    const auto n = static_cast<size_t>(std::count(in.begin(), in.end(), from_[0]));
    if (in.size() - n + n * to_.size() > max_bytes) return false;
    out.resize(in.size() - n + n * to_.size());
    char* at = out.data();
    for (const char c : in) {
      if (c == from_[0]) {
        at = std::copy(to_.begin(), to_.end(), at);
      } else {
        *at++ = c;
      }
    }
    return true;
  }

  std::string from_, to_;
};

class RegexReplace final : public Normalizer {
 public:
  RegexReplace(std::unique_ptr<RegexMatcher> matcher, std::string to)
      : matcher_(std::move(matcher)), to_(std::move(to)) {}
  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    out.clear();
    std::vector<ByteRange> matches;
    matcher_->find_all(in, matches);
    size_t done = 0;
    for (const ByteRange& m : matches) {
      out.append(in, done, m.begin - done).append(to_);
      if (out.size() > max_bytes) return false;
      done = m.end;
    }
    out.append(in, done);
    return out.size() <= max_bytes;
  }

 private:
  std::unique_ptr<RegexMatcher> matcher_;
  std::string to_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    size_t begin = 0, end = 0;  // end: after the last code point that is no space
    bool leading = true;
    for (size_t i = 0; i < in.size();) {
      const CodePoint c = utf8_at(in, i);
      if (leading && is_space(c.value)) {
        begin = i + static_cast<size_t>(c.len);
      } else if (!is_space(c.value)) {
        leading = false;
        end = i + static_cast<size_t>(c.len);
      }
      i += static_cast<size_t>(c.len);
    }
    if (!left_) begin = 0;
    if (!right_) end = in.size();
    out.assign(in, begin, end > begin ? end - begin : 0);
    return out.size() <= max_bytes;
  }

 private:
  bool left_, right_;
};

// Rewrites code point by code point with Self::put(cp, out); malformed bytes stay as they are.
template <class Self>
class PerCodePoint : public Normalizer {
 public:
  bool apply(std::string_view in, size_t max_bytes, std::string& out) const final {
    out.clear();
    out.reserve(std::min(in.size(), max_bytes));
    for (size_t i = 0; i < in.size() && out.size() <= max_bytes;) {
      const CodePoint c = utf8_at(in, i);
      if (c.valid) {
        Self::put(c.value, out);
      } else {
        out.push_back(in[i]);
      }
      i += static_cast<size_t>(c.len);
    }
    return out.size() <= max_bytes;
  }
};

struct Lowercase final : PerCodePoint<Lowercase> {
  static void put(char32_t cp, std::string& out) { append_lower(cp, out); }
};

struct StripAccents final : PerCodePoint<StripAccents> {
  static void put(char32_t cp, std::string& out) {
    if (!is_reference_mark(cp)) append_utf8(out, cp);
  }
};

struct Nmt final : PerCodePoint<Nmt> {
  static void put(char32_t cp, std::string& out) {
    const bool control =
        (cp >= 1 && cp <= 8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F) || cp == 0x7F || cp == 0x8F || cp == 0x9F;
    if (control) return;
    const bool space = cp == 9 || cp == 0xA || cp == 0xC || cp == 0xD || cp == 0x1680 ||
                       (cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 || cp == 0xFEFF ||
                       cp == 0xFFFD;
    append_utf8(out, space ? U' ' : cp);
  }
};

class ByteCharacters final : public Normalizer {
 public:
  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    out.clear();
    append_byte_chars(in, out);  // twice as much at most
    return out.size() <= max_bytes;
  }
};

bool is_chinese(char32_t cp) {  // as the reference has it, gaps included
  if (cp < 0x3400) return false;
  return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) || (cp >= 0x20000 && cp <= 0x2A6DF) ||
         (cp >= 0x2A700 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) || (cp >= 0xF900 && cp <= 0xFAFF) ||
         (cp >= 0x2F800 && cp <= 0x2FA1F);
}

struct CleanText final : PerCodePoint<CleanText> {
  static void put(char32_t cp, std::string& out) {
    if (cp >= ' ' && cp < 0x7F) {
      out.push_back(static_cast<char>(cp));
    } else if (!is_bert_control(cp)) {
      append_utf8(out, is_space(cp) ? U' ' : cp);
    }
  }
};

struct SpaceChinese final : PerCodePoint<SpaceChinese> {
  static void put(char32_t cp, std::string& out) {
    const bool chinese = is_chinese(cp);
    if (chinese) out.push_back(' ');
    append_utf8(out, cp);
    if (chinese) out.push_back(' ');
  }
};

struct StripBertAccents final : PerCodePoint<StripBertAccents> {
  static void put(char32_t cp, std::string& out) {
    if (!is_bert_accent(cp)) append_utf8(out, cp);
  }
};

class Chain final : public Normalizer {
 public:
  explicit Chain(NormalizerChain steps) : steps_(std::move(steps)) {}
  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    out.assign(in);
    std::string next;
    for (const auto& step : steps_) {
      if (!step->apply(out, max_bytes, next)) return false;
      out.swap(next);
    }
    return true;
  }

 private:
  NormalizerChain steps_;
};

}  // namespace

std::unique_ptr<Normalizer> make_regex_replace(std::unique_ptr<RegexMatcher> matcher, std::string to) {
  return std::make_unique<RegexReplace>(std::move(matcher), std::move(to));
}

std::unique_ptr<Normalizer> make_strip(bool left, bool right) { return std::make_unique<Strip>(left, right); }
std::unique_ptr<Normalizer> make_lowercase() { return std::make_unique<Lowercase>(); }
std::unique_ptr<Normalizer> make_strip_accents() { return std::make_unique<StripAccents>(); }
std::unique_ptr<Normalizer> make_nmt() { return std::make_unique<Nmt>(); }
std::unique_ptr<Normalizer> make_byte_characters() { return std::make_unique<ByteCharacters>(); }

std::unique_ptr<Normalizer> make_bert(BertRules rules) {
  NormalizerChain steps;
  if (rules.clean_text) steps.push_back(std::make_unique<CleanText>());
  if (rules.handle_chinese_chars) steps.push_back(std::make_unique<SpaceChinese>());
  if (rules.strip_accents) {
    steps.push_back(make_unicode_form(UnicodeForm::nfd));
    steps.push_back(std::make_unique<StripBertAccents>());
  }
  if (rules.lowercase) steps.push_back(make_lowercase());
  return std::make_unique<Chain>(std::move(steps));
}

std::unique_ptr<Normalizer> make_prepend(std::string prefix) { return std::make_unique<Prepend>(std::move(prefix)); }

std::unique_ptr<Normalizer> make_replace(std::string from, std::string to) {
  return std::make_unique<Replace>(std::move(from), std::move(to));
}

std::optional<std::string_view> normalize(const NormalizerChain& chain,
                                          std::string_view text,
                                          TextBudget& budget,
                                          std::string& scratch) {
  std::string other;
  std::string_view now = text;
  for (const auto& step : chain) {
    if (!step->apply(now, budget.room(), other)) return std::nullopt;
    budget.take(other.size());
    scratch.swap(other);
    now = scratch;
  }
  return now;
}

}  // namespace quire
