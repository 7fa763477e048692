// See dfa.h.
#include "text/regex/dfa.h"

#include <algorithm>
#include <map>

#include "text/utf8.h"

namespace quire {

using Op = Instr::Op;

class DfaBuilder {
 public:
  DfaBuilder(const RegexTree& tree, Program program) : tree_(tree), program_(std::move(program)) {}

  Result<Dfa> run() {
    QR_TRY_VOID(make_classes());
    intern({});  // the dead state
    std::vector<int> first;
    visited_.assign(program_.code.size(), false);
    close(program_.start, first);
    dfa_.start_ = intern(std::move(first));
    for (uint32_t s = 0; s < states_.size(); ++s) {
      for (uint32_t k = 0; k < dfa_.n_classes_; ++k) dfa_.next_.push_back(transition(states_[s], k));
      n_work_ += program_.code.size() * dfa_.n_classes_;
      if (states_.size() > Dfa::kMaxStates || n_work_ > Dfa::kMaxWork)
        return fail(Code::unsupported, "regex: too many states");
    }
    for (uint32_t k = 0; k < dfa_.n_classes_; ++k)
      dfa_.may_start_.push_back(dfa_.next_[dfa_.cell(dfa_.start_, k)] != 0);
    dfa_.two_pass_ = TwoPass(std::move(program_), std::move(members_));
    return std::move(dfa_);
  }

 private:
  using Threads = std::vector<int>;  // program counters at set, look or match, best first

  // Cuts all code points at the borders of all sets; pieces that lie in the same sets are one class.
  Status make_classes() {
    std::vector<char32_t> borders = {0};
    for (const CharSet& set : tree_.sets) {
      for (const CharSet::Range& r : set.ranges()) {
        borders.push_back(r.first);
        borders.push_back(r.second + 1);
      }
    }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    if (borders.back() > CharSet::kLast) borders.pop_back();
    std::map<std::vector<bool>, uint8_t> classes;
    std::vector<uint8_t> class_of;  // by border
    for (const char32_t border : borders) {
      std::vector<bool> members;
      for (const CharSet& set : tree_.sets) members.push_back(set.contains(border));
      const auto [it, fresh] = classes.try_emplace(members, static_cast<uint8_t>(classes.size()));
      if (fresh) members_.push_back(std::move(members));
      if (classes.size() > Dfa::kMaxClasses) return fail(Code::unsupported, "regex: too many different classes");
      class_of.push_back(it->second);
    }
    dfa_.n_classes_ = static_cast<uint32_t>(classes.size()) + 1;
    make_pages(borders, class_of);
    return {};
  }

  // From borders[i] up to borders[i + 1] every code point has class_of[i].
  void make_pages(const std::vector<char32_t>& borders, const std::vector<uint8_t>& class_of) {
    std::vector<int> page_of_class(class_of.size() + 256, -1);  // pages of one class
    size_t run = 0;
    for (size_t p = 0; p < dfa_.page_of_.size(); ++p) {
      const auto first = static_cast<char32_t>(p * 256);
      while (run + 1 < borders.size() && borders[run + 1] <= first) ++run;
      const bool uniform = run + 1 == borders.size() || borders[run + 1] >= first + 256;
      int& known = page_of_class[class_of[run]];
      if (!uniform || known < 0) {
        std::array<uint8_t, 256> page;
        for (char32_t i = 0; i < 256; ++i) {
          while (run + 1 < borders.size() && borders[run + 1] <= first + i) ++run;
          page[i] = class_of[run];
        }
        if (uniform) known = static_cast<int>(dfa_.pages_.size());
        dfa_.page_of_[p] = static_cast<uint16_t>(dfa_.pages_.size());
        dfa_.pages_.push_back(page);
      } else {
        dfa_.page_of_[p] = static_cast<uint16_t>(known);
      }
    }
    std::copy_n(dfa_.pages_[dfa_.page_of_[0]].begin(), 128, dfa_.ascii_.begin());
  }

  bool at_end(uint32_t klass) const { return klass + 1 == dfa_.n_classes_; }
  bool in_set(int set, uint32_t klass) const { return !at_end(klass) && members_[klass][static_cast<size_t>(set)]; }

  // Appends what `pc` reaches without reading, best first, stopping at looks.
  void close(int pc, Threads& out) {
    std::vector<int> todo = {pc};
    while (!todo.empty()) {
      pc = todo.back();
      todo.pop_back();
      if (visited_[static_cast<size_t>(pc)]) continue;
      visited_[static_cast<size_t>(pc)] = true;
      const Instr& i = program_.code[static_cast<size_t>(pc)];
      if (i.op == Op::split) {
        todo.push_back(i.other);
        todo.push_back(i.next);
      } else {
        out.push_back(pc);
      }
    }
  }

  // The threads of a state once the next code point's class is known: looks are replaced by what lies behind them.
  Threads resolve_looks(const Threads& threads, uint32_t klass) {
    visited_.assign(program_.code.size(), false);
    Threads out, todo(threads.rbegin(), threads.rend());
    std::vector<bool> done(program_.code.size(), false);
    while (!todo.empty()) {
      const int pc = todo.back();
      todo.pop_back();
      if (done[static_cast<size_t>(pc)]) continue;
      done[static_cast<size_t>(pc)] = true;
      const Instr& i = program_.code[static_cast<size_t>(pc)];
      if (i.op != Op::look) {
        out.push_back(pc);
      } else if (at_end(klass) ? i.at_end : in_set(i.set, klass)) {
        Threads behind;
        close(i.next, behind);
        todo.insert(todo.end(), behind.rbegin(), behind.rend());
      }
    }
    return out;
  }

  uint32_t transition(const Threads& from, uint32_t klass) {
    const Threads threads = resolve_looks(from, klass);
    visited_.assign(program_.code.size(), false);
    Threads to;
    uint32_t matched = 0;
    for (const int pc : threads) {
      const Instr& i = program_.code[static_cast<size_t>(pc)];
      if (i.op == Op::match) {
        matched = 1;
        break;  // whatever is less preferred loses
      }
      if (in_set(i.set, klass)) close(i.next, to);
    }
    return intern(std::move(to)) << 1 | matched;
  }

  uint32_t intern(Threads threads) {
    const auto [it, fresh] = index_.try_emplace(std::move(threads), static_cast<uint32_t>(states_.size()));
    if (fresh) states_.push_back(it->first);
    return it->second;
  }

  const RegexTree& tree_;
  Program program_;
  Dfa dfa_;
  std::vector<std::vector<bool>> members_;  // by class: which sets hold it
  std::map<Threads, uint32_t> index_;
  std::vector<Threads> states_;
  std::vector<bool> visited_;
  size_t n_work_ = 0;
};

Result<Dfa> Dfa::compile(const RegexTree& tree) {
  QR_TRY(Program program, compile_nfa(tree));
  return DfaBuilder(tree, std::move(program)).run();
}

Dfa::Attempt Dfa::match_at(std::string_view text, size_t from) const {
  size_t end = kNoMatch;
  uint32_t state = start_;
  for (size_t i = from; i < text.size();) {
    const auto byte = static_cast<uint8_t>(text[i]);
    uint32_t klass;
    size_t len = 1;
    if (byte < 0x80) {
      klass = ascii_[byte];
    } else {
      const CodePoint c = utf8_at(text, i);
      klass = class_of(c.value);
      len = static_cast<size_t>(c.len);
    }
    const uint32_t entry = next_[cell(state, klass)];
    if ((entry & 1) != 0) end = i;
    state = entry >> 1;
    if (state == 0) return {end, i - from};
    i += len;
  }
  return {(next_[cell(state, n_classes_ - 1)] & 1) != 0 ? text.size() : end, text.size() - from};
}

bool Dfa::find_all(std::string_view text, std::vector<ByteRange>& out) const {
  // The patterns of real tokenizers read a few code points behind a match; so much is a sign of the other kind.
  const size_t n_vain_at_most = 8 * text.size() + 4096;
  size_t n_vain = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = utf8_at(text, i);
    size_t next = i + static_cast<size_t>(c.len);
    if (may_start_[class_of(c.value)]) {
      const Attempt attempt = match_at(text, i);
      if (attempt.end != kNoMatch) {
        out.push_back({i, attempt.end});
        if (attempt.end > i) next = attempt.end;
      }
      n_vain += attempt.n_read - std::min(attempt.n_read, next - i);
    }
    i = next;
    if (n_vain > n_vain_at_most) return search_from(i, text, out);
  }
  return true;
}

bool Dfa::search_from(size_t from, std::string_view text, std::vector<ByteRange>& out) const {
  TwoPass::Decoded decoded;
  for (size_t i = from; i < text.size();) {
    const CodePoint c = utf8_at(text, i);
    decoded.classes.push_back(static_cast<uint8_t>(class_of(c.value)));
    decoded.lengths.push_back(static_cast<uint8_t>(c.len));
    i += static_cast<size_t>(c.len);
  }
  return two_pass_.find_all(decoded, from, out);
}

}  // namespace quire
