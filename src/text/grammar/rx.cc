// See rx.h: how expressions are made. Derivatives are in rx_derive.cc.
#include "text/grammar/rx.h"

#include <algorithm>

#include "text/kept_vector.h"

namespace quire::grammar {

namespace {
constexpr size_t kNodeBytes = 64;  // of a node with its key and its place in tables, about
}

RxStore::RxStore(size_t max_bytes, uint64_t max_work) : max_bytes_(max_bytes), max_work_(max_work) {
  set_id({});
  set_id(ByteSet::all());
  add(Kind::never, {});
  add(Kind::empty, {});
  const Rx any_byte = static_cast<Rx>(nodes_.size()) + 1;  // what `set` will give: kAny must be node 2
  const uint32_t key[] = {static_cast<uint32_t>(Kind::repeat), any_byte, 0, kNoLimit};
  keys_.add(key);
  nodes_.push_back({Kind::repeat, kNullable | kEndless, 1});
  set(ByteSet::all());
}

size_t RxStore::bytes() const {
  return nodes_.size() * kNodeBytes + keys_.bytes() + derived_.size() * 48 + sets_.size() * 96;
}

uint32_t RxStore::set_id(const ByteSet& bytes) {
  uint32_t run[8];
  for (size_t i = 0; i < 4; ++i) {
    run[2 * i] = static_cast<uint32_t>(bytes.words[i]);
    run[2 * i + 1] = static_cast<uint32_t>(bytes.words[i] >> 32);
  }
  const uint32_t id = set_keys_.add(run);
  if (id == sets_.size()) sets_.push_back(bytes);
  return id;
}

RxStore::Node RxStore::describe_sum(Kind kind, std::span<const uint32_t> args) {
  const bool any_of = kind == Kind::alt;
  uint8_t flags = any_of ? 0 : kBoolean | kNullable;
  ByteSet first = any_of ? ByteSet{} : ByteSet::all();
  for (const uint32_t a : args) {
    const Node& part = nodes_[a];
    first = any_of ? first | sets_[part.first] : first & sets_[part.first];
    flags |= part.flags & (kControls | kBoolean | kEndless);
    if (any_of) flags |= part.flags & kNullable;
    if (!any_of && (part.flags & kNullable) == 0) flags &= static_cast<uint8_t>(~kNullable);
  }
  return {kind, flags, set_id(first)};
}

RxStore::Node RxStore::describe(Kind kind, std::span<const uint32_t> args) {
  const auto inherit = [&](Rx a) { return static_cast<uint8_t>(nodes_[a].flags & (kControls | kBoolean | kEndless)); };
  switch (kind) {
    case Kind::never: return {kind, kDead, 0};
    case Kind::empty: return {kind, kNullable, 0};
    case Kind::set: return {kind, 0, args[0]};
    case Kind::control: return {kind, kControls, 0};
    case Kind::cat: {
      const Node &a = nodes_[args[0]], &b = nodes_[args[1]];
      const bool through = (a.flags & kNullable) != 0;
      const auto flags = static_cast<uint8_t>(inherit(args[0]) | inherit(args[1]) | (a.flags & b.flags & kNullable));
      return {kind, flags, through ? set_id(sets_[a.first] | sets_[b.first]) : a.first};
    }
    case Kind::alt:
    case Kind::both: return describe_sum(kind, args);
    case Kind::negate: {
      const auto flags = static_cast<uint8_t>(kBoolean | kEndless | (nullable(args[0]) ? 0 : kNullable));
      return {kind, flags, 1};
    }
    case Kind::repeat: {
      const auto flags = static_cast<uint8_t>(inherit(args[0]) | (args[1] == 0 ? kNullable : 0) |
                                              (args[2] == kNoLimit ? kEndless : 0));
      return {kind, flags, nodes_[args[0]].first};
    }
    case Kind::multiple: {
      uint64_t rest = args[1];
      for (uint32_t i = 0; i < args[2]; ++i) rest = rest * 10 % args[0];
      ByteSet first = ByteSet::range('0', '9');
      first.add('-');
      first.add('.');
      return {kind, static_cast<uint8_t>(kBoolean | kEndless | (rest == 0 ? kNullable : 0)), set_id(first)};
    }
  }
  return {};
}

Rx RxStore::add(Kind kind, std::span<const uint32_t> args) {
  thread_local std::vector<uint32_t> kept;
  const KeptVector held(kept);
  std::vector<uint32_t>& key = *held;
  key.push_back(static_cast<uint32_t>(kind));
  key.insert(key.end(), args.begin(), args.end());
  const uint32_t id = keys_.add(key);
  if (id == nodes_.size()) {
    nodes_.push_back(describe(kind, args));
    if (bytes() > max_bytes_) exhausted_ = true;
  }
  return id;
}

Rx RxStore::set(const ByteSet& bytes) {
  if (bytes.empty()) return kNever;
  const uint32_t id[] = {set_id(bytes)};
  return add(Kind::set, id);
}

Rx RxStore::control(uint32_t index) {
  const uint32_t id[] = {index};
  return add(Kind::control, id);
}

Rx RxStore::literal(std::string_view bytes) {
  Rx out = kEmpty;
  for (size_t i = bytes.size(); i-- > 0;) out = cat(byte(static_cast<uint8_t>(bytes[i])), out);
  return out;
}

Rx RxStore::cat(Rx a, Rx b) {
  if (a == kNever || b == kNever) return kNever;
  if (a == kEmpty) return b;
  if (b == kEmpty) return a;
  if (a == kAny && b == kAny) return kAny;
  const uint32_t pair[] = {a, b};
  return add(Kind::cat, pair);
}

Rx RxStore::cat(std::initializer_list<Rx> parts) {
  Rx out = kEmpty;
  for (auto it = parts.end(); it != parts.begin();) out = cat(*--it, out);
  return out;
}

// Takes sums of the same kind apart, sorts, drops what is there twice.
void RxStore::gather(Kind kind, std::vector<Rx>& parts) {
  const size_t n = parts.size();
  for (size_t i = 0; i < n; ++i) {
    if (nodes_[parts[i]].kind != kind) continue;
    const std::span<const uint32_t> inner = args(parts[i]);  // never of the same kind again
    parts[i] = inner[0];
    parts.insert(parts.end(), inner.begin() + 1, inner.end());
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
}

Rx RxStore::alt(std::vector<Rx> parts) {
  gather(Kind::alt, parts);
  ByteSet bytes;
  size_t n_sets = 0;
  for (const Rx a : parts) {
    if (a == kAny) return kAny;
    if (nodes_[a].kind != Kind::set) continue;
    bytes = bytes | sets_[nodes_[a].first];
    ++n_sets;
  }
  std::erase_if(parts, [&](Rx a) { return a == kNever || (n_sets > 1 && nodes_[a].kind == Kind::set); });
  if (n_sets > 1) {
    parts.push_back(set(bytes));
    std::sort(parts.begin(), parts.end());
  }
  const bool has_empty = std::find(parts.begin(), parts.end(), kEmpty) != parts.end();
  if (has_empty && std::any_of(parts.begin(), parts.end(), [&](Rx a) { return a != kEmpty && nullable(a); })) {
    std::erase(parts, kEmpty);
  }
  if (parts.empty()) return kNever;
  return parts.size() == 1 ? parts[0] : add(Kind::alt, parts);
}

// Whether one part is *not* another, or *not* any number of what another has some number of: nothing is left then,
// which would else take a search to see.
bool RxStore::contradicts(const std::vector<Rx>& parts) const {
  return std::any_of(parts.begin(), parts.end(), [&](Rx a) {
    if (nodes_[a].kind != Kind::negate) return false;
    const Rx out = args(a)[0];
    const bool any_number = nodes_[out].kind == Kind::repeat && args(out)[1] == 0 && args(out)[2] == kNoLimit;
    return std::any_of(parts.begin(), parts.end(), [&](Rx b) {
      return b == out || (any_number && nodes_[b].kind == Kind::repeat && args(b)[0] == args(out)[0]);
    });
  });
}

Rx RxStore::both(std::vector<Rx> parts) {
  gather(Kind::both, parts);
  std::erase(parts, kAny);
  if (parts.empty()) return kAny;
  ByteSet bytes = ByteSet::all();
  bool has_set = false;
  for (const Rx a : parts) {
    if (a == kNever) return kNever;
    if (a == kEmpty) {
      const bool fits = std::all_of(parts.begin(), parts.end(), [&](Rx p) { return nullable(p); });
      return fits ? kEmpty : kNever;
    }
    if (nodes_[a].kind == Kind::set) bytes = bytes & sets_[nodes_[a].first], has_set = true;
  }
  if (contradicts(parts)) return kNever;
  if (has_set) {
    std::erase_if(parts, [&](Rx a) { return nodes_[a].kind == Kind::set; });
    if (bytes.empty()) return kNever;
    parts.push_back(set(bytes));
    std::sort(parts.begin(), parts.end());
  }
  if (parts.size() == 1) return parts[0];
  const Rx out = add(Kind::both, parts);
  return !nullable(out) && first(out).empty() && !has_controls(out) ? kNever : out;
}

Rx RxStore::negate(Rx a) {
  if (a == kNever) return kAny;
  if (a == kAny) return kNever;
  if (nodes_[a].kind == Kind::negate) return args(a)[0];
  const uint32_t arg[] = {a};
  return add(Kind::negate, arg);
}

Rx RxStore::repeat(Rx a, uint32_t min, uint32_t max) {
  if (max == 0 || a == kEmpty) return kEmpty;
  if (a == kNever) return min == 0 ? kEmpty : kNever;
  if (nullable(a)) min = 0;
  if (min == 1 && max == 1) return a;
  if (nodes_[a].kind == Kind::repeat && args(a)[1] <= 1) {
    // (x{0,q}){m,n} is x{0,qn}, (x{1,q}){m,n} is x{m,qn}: counts of counts cost no more than counts.
    const uint64_t most = max == kNoLimit || args(a)[2] == kNoLimit ? kNoLimit : uint64_t{args(a)[2]} * max;
    return repeat(args(a)[0], args(a)[1] == 0 ? 0 : min, static_cast<uint32_t>(std::min<uint64_t>(most, kNoLimit)));
  }
  const uint32_t key[] = {a, min, max};
  return add(Kind::repeat, key);
}

Rx RxStore::multiple_of(uint32_t modulus, uint32_t scale) {
  has_multiples_ = true;
  const uint32_t key[] = {modulus, 0, scale, 0};
  return add(Kind::multiple, key);
}

// Whether any number of wide characters may come, and the end behind them is never forced: a repetition without limit,
// with or without something behind it.
bool RxStore::is_endless(Rx a, std::span<const Rx> wide) const {
  while (nodes_[a].kind == Kind::cat) a = args(a)[0];
  return nodes_[a].kind == Kind::repeat && args(a)[2] == kNoLimit &&
         std::find(wide.begin(), wide.end(), args(a)[0]) != wide.end();
}

int RxStore::free_chars(Rx a, std::span<const Rx> wide, int most) const {
  while (nodes_[a].kind == Kind::cat) a = args(a)[0];
  const std::span<const uint32_t> p = args(a);
  switch (nodes_[a].kind) {
    case Kind::repeat: {
      if (std::find(wide.begin(), wide.end(), p[0]) == wide.end()) return 0;
      return p[2] >= static_cast<uint32_t>(most) ? most : static_cast<int>(p[2]);
    }
    case Kind::alt: {
      bool endless = false;
      for (const uint32_t part : p) endless = endless || is_endless(part, wide);
      return endless ? most : 0;
    }
    case Kind::both: {
      // All texts but a finite number: whatever came, something may follow.
      for (const uint32_t part : p) {
        const bool few_out = nodes_[part].kind == Kind::negate && (nodes_[args(part)[0]].flags & kEndless) == 0;
        if (!few_out && !(nodes_[part].kind == Kind::repeat && is_endless(part, wide))) return 0;
      }
      return most;
    }
    default: return 0;
  }
}

std::vector<uint8_t> RxStore::byte_classes() const {
  std::vector<uint8_t> out(256, 0);
  size_t n = 1;
  const auto split = [&](const ByteSet& s) {
    std::array<int, 256> inside{};
    inside.fill(-1);
    const size_t before = n;
    std::array<bool, 256> out_of{};
    for (size_t b = 0; b < 256; ++b) {
      if (!s.has(static_cast<uint8_t>(b))) out_of[out[b]] = true;
    }
    for (size_t b = 0; b < 256; ++b) {
      if (!s.has(static_cast<uint8_t>(b)) || !out_of[out[b]] || out[b] >= before) continue;
      int& to = inside[out[b]];
      if (to < 0) to = static_cast<int>(n++);
      out[b] = static_cast<uint8_t>(to);
    }
  };
  for (const ByteSet& s : sets_) split(s);
  if (has_multiples_) {
    for (unsigned d = '0'; d <= '9'; ++d) split(ByteSet::range(d, d));
  }
  return out;
}

void RxStore::truncate(size_t n) {
  nodes_.resize(n);
  keys_.truncate(n);
  derived_.clear();
  exhausted_ = false;
}

}  // namespace quire::grammar
