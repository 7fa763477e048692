// See parse.h. Groups nest on an explicit stack; nothing recurses.
#include "text/regex/parse.h"

#include <algorithm>

#include "text/regex/class_parser.h"

namespace quire {

namespace {

using Kind = RegexNode::Kind;

// A group that is still open (the whole pattern is one).
struct Frame {
  enum class Type : uint8_t { group, look_ahead, look_ahead_not } type = Type::group;
  std::vector<int> alternatives, sequence;
  bool caseless = false;  // inside this group, from here on
};

class Parser {
 public:
  Parser(std::string_view pattern, RegexDialect dialect) : in_(pattern, dialect.ecma), dialect_(dialect), frames_(1) {}

  Result<RegexTree> run() {
    while (!in_.done()) {
      QR_TRY_VOID(step());
      const size_t max_sets = dialect_.ecma ? kMaxEcmaSets : kMaxRegexSets;
      if (tree_.sets.size() > max_sets) return in_.unsupported("more than " + std::to_string(max_sets) + " parts");
    }
    if (frames_.size() != 1) return in_.invalid("( without )");
    tree_.root = close(frames_.back());
    return std::move(tree_);
  }

 private:
  Status step() {
    if (in_.looking_at("(")) return open();
    if (in_.accept("|")) {
      Frame& f = frames_.back();
      f.alternatives.push_back(concat(f.sequence));
      f.sequence.clear();
      return {};
    }
    if (in_.looking_at(")")) return close_group();
    if (in_.accept("$")) {
      CharSet set;
      if (dialect_.dollar_before_newline) set.add('\n', '\n');
      push(look(std::move(set), true));
      return {};
    }
    if (in_.looking_at("^")) {
      if (!dialect_.ecma) return in_.unsupported("^");
      in_.accept("^");
      RegexNode node;
      node.kind = Kind::begin;
      push(add(std::move(node)));
      return {};
    }
    if (in_.looking_at("*") || in_.looking_at("+") || in_.looking_at("?")) return in_.invalid("nothing to repeat");
    if (in_.accept(".")) {
      CharSet line_ends{{'\n', '\n'}};
      if (dialect_.ecma) line_ends = CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
      push(set(line_ends.negated()));
      return repeat();
    }
    if (dialect_.ecma && (in_.looking_at("\\b") || in_.looking_at("\\B"))) return in_.unsupported("a word boundary");
    const bool caseless = frames_.back().caseless;
    QR_TRY(CharSet chars, in_.looking_at("[")    ? in_.bracket(caseless)
                          : in_.looking_at("\\") ? in_.escape(caseless)
                                                 : in_.literal(caseless));
    push(set(std::move(chars)));
    return repeat();
  }

  Status open() {
    if (frames_.size() == kMaxRegexDepth)
      return in_.unsupported("groups nested deeper than " + std::to_string(kMaxRegexDepth));
    in_.accept("(");
    Frame frame;
    frame.caseless = frames_.back().caseless;
    if (in_.accept("?")) {
      if (in_.accept("=")) {
        frame.type = Frame::Type::look_ahead;
      } else if (in_.accept("!")) {
        frame.type = Frame::Type::look_ahead_not;
      } else if (in_.accept("i:")) {
        frame.caseless = true;
      } else if (in_.accept("i)")) {
        frames_.back().caseless = true;
        return {};
      } else if (dialect_.ecma && in_.looking_at("<") && !in_.looking_at("<=") && !in_.looking_at("<!")) {
        while (!in_.done() && !in_.looking_at(">")) in_.skip();  // a name says nothing about what matches
        if (!in_.accept(">")) return in_.invalid("(?< without >");
      } else if (!in_.accept(":")) {
        const bool behind = in_.looking_at("<=") || in_.looking_at("<!");
        return in_.unsupported(behind ? "lookbehind" : "this kind of group");
      }
    }
    frames_.push_back(std::move(frame));
    return {};
  }

  Status close_group() {
    if (frames_.size() == 1) return in_.invalid(") without (");
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    const int body = close(frame);
    if (frame.type == Frame::Type::group) {
      in_.accept(")");
      push(body);
      return repeat();
    }
    if (dialect_.ecma) {
      RegexNode ahead;
      ahead.kind = Kind::ahead;
      ahead.negative = frame.type == Frame::Type::look_ahead_not;
      ahead.children.push_back(body);
      push(add(std::move(ahead)));
      in_.accept(")");
      return {};
    }
    const RegexNode& node = tree_.nodes[static_cast<size_t>(body)];
    if (node.kind != Kind::set) return in_.unsupported("a lookahead for more than one class");
    const CharSet& wanted = tree_.sets[static_cast<size_t>(node.set)];
    const bool negative = frame.type == Frame::Type::look_ahead_not;
    push(look(negative ? wanted.negated() : wanted, negative));
    in_.accept(")");
    return {};
  }

  // Wraps the last node in the count that follows it, if one does.
  Status repeat() {
    RegexNode node;
    node.kind = Kind::repeat;
    if (in_.accept("?")) {
      node.min = 0, node.max = 1;
    } else if (in_.accept("*")) {
      node.min = 0, node.max = -1;
    } else if (in_.accept("+")) {
      node.min = 1, node.max = -1;
    } else if (in_.looking_at("{") && (!dialect_.ecma || in_.at_count())) {
      QR_TRY_VOID(counts(node));
    } else {
      return {};
    }
    node.lazy = in_.accept("?");
    node.possessive = !node.lazy && in_.accept("+");
    if (in_.looking_at("*") || in_.looking_at("+") || in_.looking_at("?") ||
        (in_.looking_at("{") && (!dialect_.ecma || in_.at_count()))) {
      return in_.unsupported("a count of a count");
    }
    std::vector<int>& sequence = frames_.back().sequence;
    node.children.push_back(sequence.back());
    sequence.pop_back();
    push(add(std::move(node)));
    return {};
  }

  Status counts(RegexNode& node) {
    in_.accept("{");
    QR_TRY(node.min, number());
    node.max = node.min;
    if (in_.accept(",")) {
      node.max = -1;
      if (!in_.looking_at("}")) {
        QR_TRY(node.max, number());
        if (node.max < node.min) return in_.invalid("counts out of order");
      }
    }
    if (!in_.accept("}")) return in_.unsupported("a { that is no count");
    return {};
  }

  Result<int> number() {
    int value = -1;
    for (; !in_.done() && in_.peek() >= '0' && in_.peek() <= '9'; in_.skip()) {
      const int digit = in_.peek() - '0', most = dialect_.ecma ? kMaxEcmaCount : kMaxRegexCount;
      if (std::max(value, 0) > (most - digit) / 10) return in_.unsupported("a count above " + std::to_string(most));
      value = std::max(value, 0) * 10 + digit;
    }
    if (value < 0) return in_.unsupported("a { that is no count");
    return value;
  }

  int add(RegexNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<int>(tree_.nodes.size()) - 1;
  }
  void push(int node) { frames_.back().sequence.push_back(node); }
  int set(CharSet chars) {
    RegexNode node;
    node.kind = Kind::set;
    node.set = static_cast<int>(tree_.sets.size());
    tree_.sets.push_back(std::move(chars));
    return add(std::move(node));
  }
  int look(CharSet chars, bool at_end) {
    const int node = set(std::move(chars));
    tree_.nodes.back().kind = Kind::look;
    tree_.nodes.back().at_end = at_end;
    return node;
  }
  int concat(const std::vector<int>& sequence) {
    if (sequence.size() == 1) return sequence[0];
    RegexNode node;
    node.kind = Kind::concat;
    node.children = sequence;
    return add(std::move(node));
  }
  int close(Frame& frame) {
    const int last = concat(frame.sequence);
    if (frame.alternatives.empty()) return last;
    RegexNode node;
    node.kind = Kind::alternate;
    node.children = frame.alternatives;
    node.children.push_back(last);
    return add(std::move(node));
  }

  ClassParser in_;
  RegexDialect dialect_;
  std::vector<Frame> frames_;
  RegexTree tree_;
};

}  // namespace

Result<RegexTree> parse_regex(std::string_view pattern, RegexDialect dialect) {
  if (pattern.size() > kMaxRegexSize) {
    return fail(Code::invalid,
                "regex: " + std::to_string(pattern.size()) + " bytes, the limit is " + std::to_string(kMaxRegexSize));
  }
  return Parser(pattern, dialect).run();
}

}  // namespace quire
