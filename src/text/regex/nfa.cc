// See nfa.h. Emitted back to front: emit(node, next) returns where `node`, followed by `next`, begins. The recursion
// follows the groups of a pattern, which the parser limits to kMaxRegexDepth.
#include "text/regex/nfa.h"

namespace quire {

namespace {

using Kind = RegexNode::Kind;
using Op = Instr::Op;

class Emitter {
 public:
  explicit Emitter(const RegexTree& tree) : tree_(tree) {}

  Result<Program> run() {
    const int match = add({});
    QR_TRY(program_.start, emit(tree_.root, match));
    return std::move(program_);
  }

 private:
  const RegexNode& node(int i) const { return tree_.nodes[static_cast<size_t>(i)]; }
  const CharSet& set(const RegexNode& n) const { return tree_.sets[static_cast<size_t>(n.set)]; }

  int add(Instr instr) {
    program_.code.push_back(instr);
    return static_cast<int>(program_.code.size()) - 1;
  }

  int add_split(bool lazy, int enter, int leave) {
    return add({Op::split, -1, false, lazy ? leave : enter, lazy ? enter : leave});
  }

  Result<int> emit(int index, int next) {
    if (program_.code.size() > kMaxInstrs) return fail(Code::unsupported, "regex: too large");
    const RegexNode& n = node(index);
    switch (n.kind) {
      case Kind::set: return add({Op::set, n.set, false, next, -1});
      case Kind::look: return add({Op::look, n.set, n.at_end, next, -1});
      case Kind::concat: return emit_concat(n, next);
      case Kind::alternate: {
        QR_TRY(int entry, emit(n.children.back(), next));
        for (size_t i = n.children.size() - 1; i-- > 0;) {
          QR_TRY(const int first, emit(n.children[i], next));
          entry = add_split(false, first, entry);
        }
        return entry;
      }
      case Kind::repeat:
        if (n.possessive && !is_match(next)) return possessive();
        return emit_repeat(n, next);
      case Kind::begin:
      case Kind::ahead: return fail(Code::unsupported, "regex: a part of the dialect of JSON Schema");
    }
    return fail(Code::internal, "regex: node kind");
  }

  Result<int> emit_concat(const RegexNode& n, const int end) {
    int next = end;
    for (size_t i = n.children.size(); i-- > 0;) {
      const RegexNode& child = node(n.children[i]);
      if (child.kind == Kind::repeat) {
        if (child.possessive && !greedy_is_possessive(n, i, end)) return possessive();
        QR_TRY(next, emit_repeat(child, next));
      } else {
        QR_TRY(next, emit(n.children[i], next));
      }
    }
    return next;
  }

  static tl::unexpected<Error> possessive() {
    return fail(Code::unsupported, "regex: a possessive count that a greedy one cannot replace");
  }

  // True where giving back what child i took could never lead to a match: every way on begins outside its class, or the
  // pattern may end before anything mandatory comes.
  bool greedy_is_possessive(const RegexNode& n, size_t i, int end) const {
    const RegexNode& body = node(node(n.children[i]).children[0]);
    if (body.kind != Kind::set) return false;
    for (size_t k = i + 1; k < n.children.size(); ++k) {
      const RegexNode& after = node(n.children[k]);
      const bool optional = after.kind == Kind::repeat && after.min == 0;
      const RegexNode& first = after.kind == Kind::repeat ? node(after.children[0]) : after;
      if (first.kind != Kind::set && first.kind != Kind::look) return false;
      if (set(first).intersects(set(body))) return optional && all_optional_from(n, k, end);
      if (!optional) return true;
    }
    return is_match(end);
  }
  bool all_optional_from(const RegexNode& n, size_t k, int end) const {
    for (; k < n.children.size(); ++k) {
      const RegexNode& c = node(n.children[k]);
      if (c.kind != Kind::repeat || c.min > 0) return false;
    }
    return is_match(end);
  }
  bool is_match(int pc) const { return program_.code[static_cast<size_t>(pc)].op == Op::match; }

  bool can_be_empty(int index) const {
    const RegexNode& n = node(index);
    switch (n.kind) {
      case Kind::set: return false;
      case Kind::look:
      case Kind::begin:
      case Kind::ahead: return true;
      case Kind::repeat: return n.min == 0 || can_be_empty(n.children[0]);
      case Kind::concat:
        for (const int c : n.children) {
          if (!can_be_empty(c)) return false;
        }
        return true;
      case Kind::alternate:
        for (const int c : n.children) {
          if (can_be_empty(c)) return true;
        }
        return false;
    }
    return true;
  }

  Result<int> emit_repeat(const RegexNode& n, int next) {
    const int child = n.children[0];
    if (can_be_empty(child)) return fail(Code::unsupported, "regex: a count of something that can be empty");
    if (n.possessive && node(child).kind != Kind::set) return fail(Code::unsupported, "regex: a possessive group");
    int entry = next;
    if (n.max < 0) {
      const int loop = add_split(n.lazy, -1, next);
      QR_TRY(const int body, emit(child, loop));
      Instr& split = program_.code[static_cast<size_t>(loop)];
      (n.lazy ? split.other : split.next) = body;
      entry = loop;
    } else {
      for (int i = n.min; i < n.max; ++i) {
        QR_TRY(const int body, emit(child, entry));
        entry = add_split(n.lazy, body, next);
      }
    }
    for (int i = 0; i < n.min; ++i) {
      QR_TRY(entry, emit(child, entry));
    }
    return entry;
  }

  const RegexTree& tree_;
  Program program_;
};

}  // namespace

Result<Program> compile_nfa(const RegexTree& tree) { return Emitter(tree).run(); }

}  // namespace quire
