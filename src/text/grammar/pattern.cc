// See pattern.h. The recursion follows the tree's nesting, which the parser bounds (kMaxRegexDepth groups).
#include "text/grammar/pattern.h"

#include "text/regex/parse.h"

namespace quire::grammar {

namespace {

using Kind = RegexNode::Kind;
constexpr int kMaxUnrolled = 256;      // repetitions of something with an assertion in it
constexpr size_t kMaxSteps = 100'000;  // nodes visited: unrolling may multiply

class PatternCompiler {
 public:
  PatternCompiler(const RegexTree& tree, CharCoder& coder) : tree_(tree), coder_(coder), rx_(coder.store()) {
    classify();
  }

  Result<Rx> run(PatternMeans means) {
    if (means == PatternMeans::whole_text) return rest(tree_.root, RxStore::kEmpty, true);
    all_ = rx_.star(coder_.any());
    QR_TRY(const Rx later, rest(tree_.root, all_, false));
    if (!has_begin(tree_.root)) return rx_.cat(all_, later);
    QR_TRY(const Rx first, rest(tree_.root, all_, true));
    return rx_.alt({first, rx_.cat(all_, later)});
  }

 private:
  const RegexNode& node(int i) const { return tree_.nodes[static_cast<size_t>(i)]; }
  bool has_begin(int i) const { return begins_[static_cast<size_t>(i)]; }
  bool asserts(int i) const { return asserts_[static_cast<size_t>(i)]; }

  // Children have lower numbers than their parents, so one pass in order knows of each what is in it.
  void classify() {
    begins_.resize(tree_.nodes.size());
    asserts_.resize(tree_.nodes.size());
    for (size_t i = 0; i < tree_.nodes.size(); ++i) {
      const RegexNode& n = tree_.nodes[i];
      begins_[i] = n.kind == Kind::begin;
      asserts_[i] = n.kind == Kind::begin || n.kind == Kind::look || n.kind == Kind::ahead;
      for (const int c : n.children) {
        if (has_begin(c)) begins_[i] = true;
        if (asserts(c)) asserts_[i] = true;
      }
    }
  }

  // What the text may be from where node i begins, `after` being what it may be behind it.
  Result<Rx> rest(int i, Rx after, bool at_begin) {
    if (++steps_ > kMaxSteps) return fail(Code::unsupported, "regex: assertions repeated too often");
    const RegexNode& n = node(i);
    switch (n.kind) {
      case Kind::set: return rx_.cat(coder_.one_of(tree_.sets[static_cast<size_t>(n.set)]), after);
      case Kind::begin: return at_begin ? after : RxStore::kNever;
      case Kind::look: return rx_.nullable(after) ? RxStore::kEmpty : RxStore::kNever;  // $ alone makes this node
      case Kind::ahead: {
        // Any bytes behind it: `after` sees to it that they are text, and what is settled is settled at once.
        QR_TRY(const Rx ahead, rest(n.children[0], RxStore::kAny, at_begin));
        return rx_.both({after, n.negative ? rx_.negate(ahead) : ahead});
      }
      case Kind::alternate: {
        std::vector<Rx> parts;
        for (const int c : n.children) {
          QR_TRY(const Rx part, rest(c, after, at_begin));
          parts.push_back(part);
        }
        return rx_.alt(std::move(parts));
      }
      case Kind::concat: return sequence(n, after, at_begin);
      case Kind::repeat: return repetition(n, after, at_begin);
    }
    return fail(Code::internal, "regex: node kind");
  }

  Result<Rx> sequence(const RegexNode& n, Rx after, bool at_begin) {
    // `inside` is the rest where something was matched before, `begin` where nothing was.
    Rx inside = after, begin = after;
    bool differ = false;
    for (size_t k = n.children.size(); k-- > 0;) {
      const int c = n.children[k];
      const Rx behind_inside = inside;
      QR_TRY(inside, rest(c, behind_inside, false));
      if (!at_begin || (!differ && !has_begin(c))) {
        begin = inside;
        continue;
      }
      const Kind kind = node(c).kind;
      const bool zero_width = kind == Kind::begin || kind == Kind::look || kind == Kind::ahead;
      if (differ && !zero_width && can_be_empty(c)) {
        return fail(Code::unsupported, "regex: ^ behind what may match nothing");
      }
      QR_TRY(begin, rest(c, zero_width ? begin : behind_inside, true));
      differ = true;
    }
    return at_begin ? begin : inside;
  }

  bool can_be_empty(int i) {
    const auto alone = rest(i, RxStore::kEmpty, true);
    return !alone || rx_.nullable(*alone) || asserts(i);
  }

  Result<Rx> repetition(const RegexNode& n, Rx after, bool at_begin) {
    if (n.possessive) return fail(Code::unsupported, "regex: a possessive count");
    const int body = n.children[0];
    if (!asserts(body)) {
      QR_TRY(const Rx plain, rest(body, RxStore::kEmpty, false));
      const auto max = n.max < 0 ? kNoLimit : static_cast<uint32_t>(n.max);
      return rx_.cat(rx_.repeat(plain, static_cast<uint32_t>(n.min), max), after);
    }
    if (n.max < 0 || n.max > kMaxUnrolled) {
      return fail(Code::unsupported, "regex: an assertion that is repeated without a small limit");
    }
    Rx out = after;
    for (int k = n.max; k > 0; --k) {
      QR_TRY(const Rx once, rest(body, out, at_begin && k == 1));
      out = k > n.min ? rx_.alt({after, once}) : once;
    }
    return out;
  }

  const RegexTree& tree_;
  CharCoder& coder_;
  RxStore& rx_;
  std::vector<bool> begins_, asserts_;
  Rx all_ = RxStore::kNever;
  size_t steps_ = 0;
};

}  // namespace

Result<Rx> compile_pattern(std::string_view pattern, PatternMeans means, CharCoder& coder) {
  RegexDialect dialect;
  dialect.ecma = true;
  QR_TRY(const RegexTree tree, parse_regex(pattern, dialect));
  QR_TRY(const Rx out, PatternCompiler(tree, coder).run(means));
  if (coder.store().exhausted()) return fail(Code::exhausted, "regex: too large");
  return out;
}

}  // namespace quire::grammar
