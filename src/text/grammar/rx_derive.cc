// See rx.h: derivatives and whether anything is left. Both walk with stacks of their own, so that no expression,
// however deep, reaches the machine's.
#include <algorithm>
#include <unordered_set>

#include "text/grammar/rx.h"

namespace quire::grammar {

namespace {
uint64_t memo_key(Rx a, Symbol s) { return uint64_t{a} << 32 | s; }
}  // namespace

// What needs no work and no memory.
bool RxStore::known(Rx a, Symbol s, Rx& out) const {
  const Node& node = nodes_[a];
  const bool is_byte = s < kFirstControl;
  const bool impossible = is_byte ? !sets_[node.first].has(static_cast<uint8_t>(s)) : (node.flags & kControls) == 0;
  if (impossible) {
    out = kNever;
    return true;
  }
  if (a == kAny) {
    out = kAny;
    return true;
  }
  switch (node.kind) {
    case Kind::never:
    case Kind::empty: out = kNever; return true;
    case Kind::set: out = kEmpty; return true;
    case Kind::control: out = args(a)[0] == s - kFirstControl ? kEmpty : kNever; return true;
    default: break;
  }
  const auto it = derived_.find(memo_key(a, s));
  if (it == derived_.end()) return false;
  out = it->second;
  return true;
}

// Puts the parts whose derivatives `a` needs and that are not known yet on `todo`.
bool RxStore::push_needed(Rx a, Symbol s, std::vector<Rx>& todo) const {
  const size_t before = todo.size();
  Rx ignored = kNever;
  const auto need = [&](Rx part) {
    if (!known(part, s, ignored)) todo.push_back(part);
  };
  const std::span<const uint32_t> parts = args(a);
  switch (nodes_[a].kind) {
    case Kind::cat:
      need(parts[0]);
      if (nullable(parts[0])) need(parts[1]);
      break;
    case Kind::alt:
    case Kind::both:
      for (const uint32_t part : parts) need(part);
      break;
    case Kind::negate:
    case Kind::repeat: need(parts[0]); break;
    default: break;
  }
  return todo.size() != before;
}

Rx RxStore::derive_multiple(Rx a, Symbol s) {
  const std::span<const uint32_t> p = args(a);  // modulus, rest so far, decimals left, behind the point
  uint32_t key[] = {p[0], p[1], p[2], p[3]};
  if (s == '-') return a;
  if (s == '.') {
    if (p[3] != 0) return kNever;
    key[3] = 1;
    return add(Kind::multiple, key);
  }
  if (p[3] != 0 && p[2] == 0) return s == '0' ? a : kNever;
  key[1] = static_cast<uint32_t>((uint64_t{p[1]} * 10 + (s - '0')) % p[0]);
  if (p[3] != 0) --key[2];
  return add(Kind::multiple, key);
}

Rx RxStore::derive_one(Rx a, Symbol s) {
  const auto of = [&](Rx part) {
    Rx out = kNever;
    known(part, s, out);
    return out;
  };
  const std::vector<uint32_t> p(args(a).begin(), args(a).end());  // making nodes moves the pool
  switch (nodes_[a].kind) {
    case Kind::cat: {
      const Rx through = cat(of(p[0]), p[1]);
      return nullable(p[0]) ? alt({through, of(p[1])}) : through;
    }
    case Kind::alt:
    case Kind::both: {
      std::vector<Rx> parts;
      parts.reserve(p.size());
      for (const uint32_t part : p) parts.push_back(of(part));
      return nodes_[a].kind == Kind::alt ? alt(std::move(parts)) : both(std::move(parts));
    }
    case Kind::negate: return s < kFirstControl ? negate(of(p[0])) : kNever;
    case Kind::repeat:
      return cat(of(p[0]), repeat(p[0], p[1] == 0 ? 0 : p[1] - 1, p[2] == kNoLimit ? kNoLimit : p[2] - 1));
    case Kind::multiple: return derive_multiple(a, s);
    default: return kNever;
  }
}

Rx RxStore::derive(Rx a, Symbol s) {
  Rx out = kNever;
  if (known(a, s, out)) return out;
  std::vector<Rx> todo{a};
  while (!todo.empty()) {
    const Rx next = todo.back();
    if (known(next, s, out)) {
      todo.pop_back();
    } else if (!push_needed(next, s, todo)) {
      out = derive_one(next, s);
      derived_.emplace(memo_key(next, s), out);
      if (++work_ > max_work_) exhausted_ = true;
      todo.pop_back();
    }
    if (exhausted_) return kNever;
  }
  return out;
}

bool RxStore::matches(Rx a, std::string_view text) {
  for (const char c : text) a = derive(a, static_cast<uint8_t>(c));
  return nullable(a);
}

const std::vector<uint8_t>& RxStore::probe_bytes() {
  if (probes_for_ == sets_.size()) return probes_;
  probes_for_ = sets_.size();
  const std::vector<uint8_t> classes = byte_classes();
  std::array<bool, 256> seen{};
  probes_.clear();
  for (size_t b = 0; b < 256; ++b) {
    if (!seen[classes[b]]) probes_.push_back(static_cast<uint8_t>(b));
    seen[classes[b]] = true;
  }
  return probes_;
}

// Whatever led to what is alive is alive: all of the search, against its steps, so that the next search ends sooner.
void RxStore::mark_alive(Rx found, const std::vector<std::pair<Rx, Rx>>& steps) {
  std::unordered_map<Rx, std::vector<Rx>> before;
  for (const auto& [from, to] : steps) before[to].push_back(from);
  std::vector<Rx> todo{found};
  while (!todo.empty()) {
    const Rx at = todo.back();
    todo.pop_back();
    for (const Rx from : before[at]) {
      if ((nodes_[from].flags & kAlive) != 0) continue;
      nodes_[from].flags |= kAlive;
      todo.push_back(from);
    }
  }
}

// Breadth first, so that what ends soon is found soon. Whatever is reached and cannot end is dead for good.
bool RxStore::alive(Rx a, size_t fuel, bool& unknown) {
  const auto settled = [&](Rx x) {
    return nullable(x) || (nodes_[x].flags & kAlive) != 0 || (x != kNever && (nodes_[x].flags & kBoolean) == 0);
  };
  if (settled(a)) return true;
  if ((nodes_[a].flags & kDead) != 0) return false;
  std::unordered_set<Rx> seen{a};
  std::vector<std::pair<Rx, Rx>> steps;
  std::vector<Rx> queue{a};
  const std::vector<uint8_t> probes = probe_bytes();
  for (size_t i = 0; i < queue.size(); ++i) {
    const Rx at = queue[i];
    for (const uint8_t b : probes) {
      if (!first(at).has(b)) continue;
      if (fuel-- == 0 || exhausted_) {
        unknown = true;
        return true;
      }
      const Rx next = derive(at, b);
      if ((nodes_[next].flags & kDead) != 0) continue;
      steps.emplace_back(at, next);
      if (settled(next)) {
        mark_alive(next, steps);
        return true;
      }
      if (seen.insert(next).second) queue.push_back(next);
    }
  }
  if (has_controls(a)) return true;  // control tokens stand alone in a lexeme, never under *and* or *not*
  for (const Rx at : queue) nodes_[at].flags |= kDead;
  return false;
}

}  // namespace quire::grammar
