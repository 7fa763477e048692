// See two_pass.h.
#include "text/regex/two_pass.h"

#include <map>

namespace quire {

using Op = Instr::Op;

namespace {

// Behind each instruction those that it leads to without reading come first. There is no ring among them: nothing that
// can be empty is repeated without end (nfa.h).
std::vector<int> order_of(const Program& program) {
  std::vector<int> out;
  std::vector<bool> done(program.code.size(), false);
  std::vector<int> todo;
  for (size_t pc = 0; pc < program.code.size(); ++pc) {
    todo.push_back(static_cast<int>(pc));
    while (!todo.empty()) {
      const auto at = static_cast<size_t>(todo.back());
      const Instr& i = program.code[at];
      const size_t before = todo.size();
      if (!done[at] && (i.op == Op::split || i.op == Op::look)) {
        if (!done[static_cast<size_t>(i.next)]) todo.push_back(i.next);
        if (i.op == Op::split && !done[static_cast<size_t>(i.other)]) todo.push_back(i.other);
      }
      if (todo.size() > before) continue;
      todo.pop_back();
      if (!done[at]) out.push_back(static_cast<int>(at));
      done[at] = true;
    }
  }
  return out;
}

}  // namespace

// What one search works out: sets of instructions, each once, and the steps between them.
class TwoPassSearch {
 public:
  explicit TwoPassSearch(const TwoPass& of) : of_(of), n_instrs_(of.program_.code.size()) {
    intern(std::vector<bool>(n_instrs_, false));
  }

  bool run(const TwoPass::Decoded& text, size_t offset, std::vector<ByteRange>& out) {
    const size_t n = text.classes.size();
    states_.resize(n + 1);
    uint32_t state = 0;
    for (size_t i = n + 1; i-- > 0;) {
      const size_t klass = i == n ? of_.members_.size() : text.classes[i];
      state = before(state, klass);
      states_[i] = state;
      if (n_work_ > TwoPass::kMaxWork) return false;
    }
    const size_t n_before = out.size();
    size_t at = offset;
    for (size_t i = 0; i < n;) {
      const size_t end = has(i, of_.program_.start) ? match(text, i) : i;
      if (n_work_ > TwoPass::kMaxWork) {
        out.resize(n_before);
        return false;
      }
      size_t bytes = 0;
      for (size_t k = i; k < end; ++k) bytes += text.lengths[k];
      if (has(i, of_.program_.start)) out.push_back({at, at + bytes});
      at += end == i ? text.lengths[i] : bytes;
      i = end == i ? i + 1 : end;
    }
    return true;
  }

 private:
  struct State {
    std::vector<bool> from;        // by instruction: a match can be reached
    std::vector<uint32_t> before;  // by class: the state before such a code point, plus 1
    std::vector<int> ways;         // by instruction: the set or match that it leads to, −1 not known
  };

  bool has(size_t i, int pc) const { return sets_[states_[i]].from[static_cast<size_t>(pc)]; }

  uint32_t intern(std::vector<bool> from) {
    const auto [it, fresh] = index_.try_emplace(from, static_cast<uint32_t>(sets_.size()));
    if (fresh) {
      sets_.push_back({std::move(from), std::vector<uint32_t>(of_.members_.size() + 1, 0), {}});
      n_work_ += of_.members_.size();
    }
    return it->second;
  }

  uint32_t before(uint32_t state, size_t klass) {
    if (const uint32_t known = sets_[state].before[klass]; known != 0) return known - 1;
    n_work_ += n_instrs_;
    const bool at_end = klass == of_.members_.size();
    const auto in_set = [&](int set) { return !at_end && of_.members_[klass][static_cast<size_t>(set)]; };
    const std::vector<bool>& behind = sets_[state].from;
    std::vector<bool> from(n_instrs_, false);
    for (const int pc : of_.order_) {
      const Instr& i = of_.program_.code[static_cast<size_t>(pc)];
      const auto next = static_cast<size_t>(i.next);
      bool reached = true;
      if (i.op == Op::set) reached = in_set(i.set) && behind[next];
      if (i.op == Op::look) reached = (at_end ? i.at_end : in_set(i.set)) && from[next];
      if (i.op == Op::split) reached = from[next] || from[static_cast<size_t>(i.other)];
      from[static_cast<size_t>(pc)] = reached;
    }
    const uint32_t out = intern(std::move(from));
    sets_[state].before[klass] = out + 1;
    return out;
  }

  // The code point behind the match that begins at i. REQUIRES that there is one.
  size_t match(const TwoPass::Decoded& text, size_t i) {
    int pc = of_.program_.start;
    for (;; ++i) {
      pc = way(states_[i], pc);
      const Instr& instr = of_.program_.code[static_cast<size_t>(pc)];
      if (instr.op == Op::match || i == text.classes.size()) return i;
      pc = instr.next;
    }
  }

  int way(uint32_t state, int pc) {
    State& s = sets_[state];
    if (s.ways.empty()) {
      s.ways.assign(n_instrs_, -1);
      n_work_ += n_instrs_;
    }
    int& known = s.ways[static_cast<size_t>(pc)];
    if (known >= 0) return known;
    int at = pc;
    for (;; ++n_work_) {
      const Instr& i = of_.program_.code[static_cast<size_t>(at)];
      if (i.op == Op::set || i.op == Op::match) break;
      at = i.op == Op::look || s.from[static_cast<size_t>(i.next)] ? i.next : i.other;
    }
    return known = at;
  }

  const TwoPass& of_;
  const size_t n_instrs_;
  std::vector<State> sets_;
  std::map<std::vector<bool>, uint32_t> index_;
  std::vector<uint32_t> states_;  // by code point, and at the end
  size_t n_work_ = 0;
};

TwoPass::TwoPass(Program program, std::vector<std::vector<bool>> members)
    : program_(std::move(program)), members_(std::move(members)), order_(order_of(program_)) {}

bool TwoPass::find_all(const Decoded& text, size_t offset, std::vector<ByteRange>& out) const {
  return TwoPassSearch(*this).run(text, offset, out);
}

}  // namespace quire
