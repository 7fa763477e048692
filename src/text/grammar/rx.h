// Regular expressions over bytes by derivatives: with *and*, *or* and *not*, every expression once (hash-consed), what
// is left of one behind a symbol worked out when it is first asked for (Brzozowski 1964; Owens, Reppy, Turon 2009).
// Expressions with counts stay small: `a{0,1000000000}` is one node. A symbol is a byte or, from kFirstControl on, a
// control token that the grammar names. One thread at a time; nothing here recurses.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/byte_set.h"
#include "text/grammar/intern.h"

namespace quire::grammar {

using Rx = uint32_t;      // an expression of one RxStore
using Symbol = uint32_t;  // 0..255 a byte, kFirstControl + i the i-th control token
inline constexpr Symbol kFirstControl = 256;
inline constexpr uint32_t kNoLimit = ~uint32_t{0};

class RxStore {
 public:
  static constexpr Rx kNever = 0;  // matches nothing
  static constexpr Rx kEmpty = 1;  // matches the empty string
  static constexpr Rx kAny = 2;    // matches every string of bytes

  // `max_bytes` bounds what is kept, `max_work` the derivatives worked out; beyond them exhausted() is true and results
  // mean nothing.
  explicit RxStore(size_t max_bytes, uint64_t max_work = ~uint64_t{0});

  Rx set(const ByteSet& bytes);
  Rx byte(uint8_t b) { return set(ByteSet::range(b, b)); }
  Rx control(uint32_t index);  // one control token, by its place in the grammar's list
  Rx literal(std::string_view bytes);
  Rx cat(Rx a, Rx b);
  Rx cat(std::initializer_list<Rx> parts);
  Rx alt(std::vector<Rx> parts);
  Rx both(std::vector<Rx> parts);  // and
  Rx negate(Rx a);                 // every string of bytes that `a` does not match
  Rx repeat(Rx a, uint32_t min, uint32_t max);
  Rx optional(Rx a) { return repeat(a, 0, 1); }
  Rx star(Rx a) { return repeat(a, 0, kNoLimit); }
  // Decimal numbers, sign and point included, that are whole multiples of modulus · 10^−scale; the syntax of numbers
  // is not its business, so it is used under `both`. REQUIRES 0 < modulus < 2^31, scale ≤ 30.
  Rx multiple_of(uint32_t modulus, uint32_t scale);

  bool nullable(Rx a) const { return (nodes_[a].flags & kNullable) != 0; }
  const ByteSet& first(Rx a) const { return sets_[nodes_[a].first]; }  // bytes that may begin a match: none is missing
  bool has_controls(Rx a) const { return (nodes_[a].flags & kControls) != 0; }

  // What may follow `symbol` in a match of `a`.
  Rx derive(Rx a, Symbol symbol);
  bool matches(Rx a, std::string_view text);
  // Whether `a` matches anything at all. Exact, but for expressions whose answer lies further than `fuel` derivatives:
  // then `unknown` is set and the answer is true.
  bool alive(Rx a, size_t fuel, bool& unknown);
  bool alive(Rx a) {  // as far as kAliveFuel goes; beyond it the store counts as exhausted
    if ((nodes_[a].flags & kBoolean) == 0) return a != kNever;
    bool unknown = false;
    const bool answer = alive(a, kAliveFuel, unknown);
    exhausted_ |= unknown;
    return answer;
  }
  static constexpr size_t kAliveFuel = size_t{1} << 16;

  // How many characters may surely follow, of those that each of `wide` matches, whatever they are; as far as the shape
  // of `a` shows it at once, at most `most`.
  int free_chars(Rx a, std::span<const Rx> wide, int most) const;

  // A map from bytes to classes that no expression made so far, nor any derivative of one, tells apart.
  std::vector<uint8_t> byte_classes() const;

  size_t size() const { return nodes_.size(); }
  size_t bytes() const;
  bool exhausted() const { return exhausted_; }
  void set_limits(size_t max_bytes, uint64_t max_work) {
    max_bytes_ = max_bytes;
    max_work_ = max_work;
  }
  void forget_derivatives() { derived_ = {}; }
  // Forgets every expression from n on and all derivatives.
  void truncate(size_t n);

 private:
  enum class Kind : uint8_t { never, empty, set, control, cat, alt, both, negate, repeat, multiple };
  enum Flags : uint8_t { kNullable = 1, kBoolean = 2, kControls = 4, kAlive = 8, kDead = 16, kEndless = 32 };
  struct Node {
    Kind kind;
    uint8_t flags;
    uint32_t first;  // into sets_
  };

  std::span<const uint32_t> args(Rx a) const { return keys_[a].subspan(1); }
  Rx add(Kind kind, std::span<const uint32_t> args);
  Node describe(Kind kind, std::span<const uint32_t> args);
  Node describe_sum(Kind kind, std::span<const uint32_t> args);
  uint32_t set_id(const ByteSet& bytes);
  bool is_endless(Rx a, std::span<const Rx> wide) const;
  bool contradicts(const std::vector<Rx>& parts) const;
  void gather(Kind kind, std::vector<Rx>& parts);
  bool known(Rx a, Symbol s, Rx& out) const;
  bool push_needed(Rx a, Symbol s, std::vector<Rx>& todo) const;
  Rx derive_one(Rx a, Symbol s);
  Rx derive_multiple(Rx a, Symbol s);
  void mark_alive(Rx found, const std::vector<std::pair<Rx, Rx>>& steps);
  const std::vector<uint8_t>& probe_bytes();

  std::vector<Node> nodes_;
  Intern keys_;  // of node i: kind, arguments
  std::vector<ByteSet> sets_;
  Intern set_keys_;
  std::unordered_map<uint64_t, Rx> derived_;  // (node, symbol)
  std::vector<uint8_t> probes_;               // one byte of each class, while probes_for_ sets are known
  size_t probes_for_ = 0;
  size_t max_bytes_;
  uint64_t max_work_;
  uint64_t work_ = 0;
  bool exhausted_ = false;
  bool has_multiples_ = false;
};

}  // namespace quire::grammar
