// See pretoken.h. The behaviours of split follow Hugging Face's definitions to the letter, odd corners included.
#include "text/pretoken.h"

#include <algorithm>

#include "text/byte_chars.h"
#include "text/utf8.h"

namespace quire {

namespace {

struct Part {
  ByteRange range;
  bool matched;
};

// The whole of [begin, end) as alternating matches and gaps; `matches` is relative to `begin`.
void cover(const std::vector<ByteRange>& matches, ByteRange whole, bool invert, std::vector<Part>& parts) {
  parts.clear();
  size_t done = whole.begin;
  for (const ByteRange& m : matches) {
    const ByteRange match{whole.begin + m.begin, whole.begin + m.end};
    if (match.begin > done) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < whole.end) parts.push_back({{done, whole.end}, invert});
}

void merge_with_previous(const std::vector<Part>& parts, std::vector<ByteRange>& out) {
  const size_t first = out.size();
  bool previous = false;
  for (const Part& p : parts) {
    if (p.matched && !previous && out.size() > first) {
      out.back().end = p.range.end;
    } else {
      out.push_back(p.range);
    }
    previous = p.matched;
  }
}

void merge_with_next(const std::vector<Part>& parts, std::vector<ByteRange>& out) {
  const size_t first = out.size();
  bool previous = false;
  for (auto p = parts.rbegin(); p != parts.rend(); ++p) {
    if (p->matched && !previous && out.size() > first) {
      out.back().begin = p->range.begin;
    } else {
      out.push_back(p->range);
    }
    previous = p->matched;
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(first), out.end());
}

void join_runs(const std::vector<Part>& parts, std::vector<ByteRange>& out) {
  const size_t first = out.size();
  bool previous = false;
  for (const Part& p : parts) {
    if (p.matched == previous && out.size() > first) {
      out.back().end = p.range.end;
    } else {
      out.push_back(p.range);
    }
    previous = p.matched;
  }
}

void drop_empty(std::vector<ByteRange>& ranges) {
  std::erase_if(ranges, [](const ByteRange& r) { return r.begin == r.end; });
}

class Split final : public PreTokenStep {
 public:
  Split(std::unique_ptr<RegexMatcher> matcher, SplitBehavior behavior, bool invert)
      : matcher_(std::move(matcher)), behavior_(behavior), invert_(invert) {}

  void apply(PreTokens& pieces) const override {
    std::vector<ByteRange> out, matches;
    out.reserve(pieces.ranges.size() * 2);
    std::vector<Part> parts;
    for (size_t i = 0; i < pieces.ranges.size(); ++i) {
      const bool one_byte = pieces.ranges[i].end - pieces.ranges[i].begin == 1;
      if (one_byte && behavior_ == SplitBehavior::isolated) {  // nothing to cut: a million newlines pass here
        out.push_back(pieces.ranges[i]);
        continue;
      }
      matches.clear();
      matcher_->find_all(pieces[i], matches);
      if (behavior_ == SplitBehavior::isolated) {
        isolate(matches, pieces.ranges[i], out);
      } else if (behavior_ == SplitBehavior::removed) {
        keep(matches, pieces.ranges[i], out);
      } else {
        cover(matches, pieces.ranges[i], invert_, parts);
        combine(parts, out);
      }
    }
    if (behavior_ != SplitBehavior::isolated) drop_empty(out);
    pieces.ranges = std::move(out);
  }

 private:
  static void isolate(const std::vector<ByteRange>& matches, ByteRange whole, std::vector<ByteRange>& out) {
    size_t done = whole.begin;
    for (const ByteRange& m : matches) {
      if (whole.begin + m.begin > done) out.push_back({done, whole.begin + m.begin});
      if (m.end > m.begin) out.push_back({whole.begin + m.begin, whole.begin + m.end});
      done = whole.begin + m.end;
    }
    if (done < whole.end) out.push_back({done, whole.end});
  }

  void keep(const std::vector<ByteRange>& matches, ByteRange whole, std::vector<ByteRange>& out) const {
    size_t done = whole.begin;
    for (const ByteRange& m : matches) {
      const ByteRange match{whole.begin + m.begin, whole.begin + m.end};
      if (invert_) {
        out.push_back(match);
      } else if (match.begin > done) {
        out.push_back({done, match.begin});
      }
      done = match.end;
    }
    if (!invert_ && done < whole.end) out.push_back({done, whole.end});
  }

  void combine(const std::vector<Part>& parts, std::vector<ByteRange>& out) const {
    switch (behavior_) {
      case SplitBehavior::merged_with_previous: return merge_with_previous(parts, out);
      case SplitBehavior::merged_with_next: return merge_with_next(parts, out);
      case SplitBehavior::contiguous: return join_runs(parts, out);
      case SplitBehavior::isolated:
      case SplitBehavior::removed: return;
    }
  }

  std::unique_ptr<RegexMatcher> matcher_;
  SplitBehavior behavior_;
  bool invert_;
};

// A step that writes every piece anew, into one new text.
class Rewrite : public PreTokenStep {
 public:
  void apply(PreTokens& pieces) const final {
    std::string text;
    std::vector<ByteRange> ranges;
    const size_t max_bytes = pieces.budget != nullptr ? pieces.budget->room() : std::string::npos;
    for (size_t i = 0; i < pieces.ranges.size() && text.size() <= max_bytes; ++i) {
      const size_t begin = text.size();
      rewrite(pieces[i], pieces.at_start && pieces.ranges[i].begin == 0, max_bytes, text);
      ranges.push_back({begin, text.size()});
    }
    pieces.too_large |= text.size() > max_bytes;
    if (pieces.budget != nullptr) pieces.budget->take(text.size());
    pieces.owned = std::move(text);
    pieces.text = pieces.owned;
    pieces.ranges = std::move(ranges);
    pieces.in_byte_chars |= writes_byte_chars();
  }

 private:
  virtual bool writes_byte_chars() const { return false; }
  // May stop once `out` has more than max_bytes.
  virtual void rewrite(std::string_view piece, bool first, size_t max_bytes, std::string& out) const = 0;
};

class AddPrefixSpace final : public Rewrite {
  void rewrite(std::string_view piece, bool, size_t, std::string& out) const override {
    if (!piece.starts_with(' ')) out.push_back(' ');
    out.append(piece);
  }
};

class ToByteChars final : public Rewrite {
  void rewrite(std::string_view piece, bool, size_t, std::string& out) const override { append_byte_chars(piece, out); }
  bool writes_byte_chars() const override { return true; }
};

class Metaspace final : public Rewrite {
 public:
  Metaspace(std::string replacement, PrependScheme scheme) : replacement_(std::move(replacement)), scheme_(scheme) {}

 private:
  void rewrite(std::string_view piece, bool first, size_t max_bytes, std::string& out) const override {
    const bool has = piece.starts_with(' ') || piece.starts_with(replacement_);
    const bool wanted = scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && first);
    if (wanted && !has) out += replacement_;
    for (const char c : piece) {
      if (out.size() > max_bytes) return;
      if (c == ' ') {
        out += replacement_;
      } else {
        out.push_back(c);
      }
    }
  }

  std::string replacement_;
  PrependScheme scheme_;
};

class Both final : public PreTokenStep {
 public:
  Both(std::unique_ptr<PreTokenStep> first, std::unique_ptr<PreTokenStep> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  void apply(PreTokens& pieces) const override {
    first_->apply(pieces);
    second_->apply(pieces);
  }

 private:
  std::unique_ptr<PreTokenStep> first_, second_;
};

class FixedLength final : public PreTokenStep {
 public:
  explicit FixedLength(size_t n) : n_(n) {}
  void apply(PreTokens& pieces) const override {
    std::vector<ByteRange> out;
    for (const ByteRange& r : pieces.ranges) {
      size_t begin = r.begin, count = 0;
      for (size_t i = r.begin; i < r.end;) {
        i += static_cast<size_t>(utf8_at(pieces.text.substr(0, r.end), i).len);
        if (++count < n_ && i < r.end) continue;
        out.push_back({begin, i});
        begin = i;
        count = 0;
      }
    }
    pieces.ranges = std::move(out);
  }

 private:
  size_t n_;
};

}  // namespace

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::unique_ptr<PreTokenStep> make_split(std::unique_ptr<RegexMatcher> matcher, SplitBehavior behavior, bool invert) {
  return std::make_unique<Split>(std::move(matcher), behavior, invert);
}

std::unique_ptr<PreTokenStep> make_add_prefix_space() { return std::make_unique<AddPrefixSpace>(); }

std::unique_ptr<PreTokenStep> make_to_byte_chars() { return std::make_unique<ToByteChars>(); }

std::unique_ptr<PreTokenStep> make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
  auto step = std::make_unique<Metaspace>(replacement, scheme);
  if (!split) return step;
  auto cut = make_split(make_literal_matcher(std::move(replacement)), SplitBehavior::merged_with_next, false);
  return std::make_unique<Both>(std::move(step), std::move(cut));
}

std::unique_ptr<PreTokenStep> make_fixed_length(size_t n) { return std::make_unique<FixedLength>(n); }

Result<std::unique_ptr<PreTokenStep>> make_pattern_split(std::string_view pattern, RegexDialect dialect) {
  QR_TRY(auto matcher, make_matcher(pattern, dialect));
  return make_split(std::move(matcher), SplitBehavior::isolated, false);
}

}  // namespace quire
