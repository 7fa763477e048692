// The upper half of the parser: Earley's algorithm over lexemes. A row is the set of items between two lexemes. Rows
// are values: one is known by the items that a lexeme carried into it (its kernel), the same kernel is the same row,
// and items point to the rows where their rules began. So rows form a graph in which everything that was worked out
// once is found again (in the tenth element of an array as in the second), going back costs nothing, and the whole
// parser becomes an automaton made bit by bit (automaton.h). Rules that match nothing are stepped over when they are
// predicted (Aycock, Horspool 2002). Nothing recurses. One thread at a time.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/intern.h"
#include "text/grammar/lexer.h"
#include "text/grammar/network.h"

namespace quire::grammar {

using Row = uint32_t;

class Rows {
 public:
  static constexpr size_t kMaxItems = 20'000;  // of one row: more is a grammar that means too much at once

  Rows(const Network& net, Lexer& lexer) : net_(net), lexer_(lexer) { clear(); }

  Row root() const { return 0; }
  LexState start(Row r) const { return info_[r].start; }  // the lexemes that may begin here
  bool complete(Row r) const { return info_[r].complete; }
  size_t n_items(Row r) const { return info_[r].n_items; }

  // Adds the items of `r` behind one of `lexemes` to the kernel being gathered.
  void scan(Row r, std::span<const uint32_t> lexemes);
  // The row of the gathered kernel, which is empty then. REQUIRES a scan that found something.
  Row take();
  bool gathered() const { return !kernel_.empty(); }

  bool exhausted() const { return exhausted_; }
  size_t size() const { return info_.size(); }
  size_t bytes() const;
  void clear();

 private:
  static constexpr Row kHere = ~Row{0};  // began in this row
  struct Item {
    State state;
    uint32_t count;  // of a counted loop
    Row origin;
    bool operator==(const Item&) const = default;
  };
  struct Wait {  // an item that may go on behind a lexeme or a rule
    uint32_t label;
    Item item;  // as it will be
    auto operator<=>(const Wait& o) const { return label <=> o.label; }
    bool operator==(const Wait& o) const { return label == o.label; }
  };
  struct Info {
    size_t lexeme_waits = 0, rule_waits = 0;  // where they begin in waits_; lexemes' first
    size_t end = 0;
    LexState start = 0;
    uint32_t n_items = 0;
    bool complete = false;
  };
  void build(std::span<const uint32_t> kernel);
  void put(const Item& item);
  void expand(const Item& item, std::vector<Wait>& lexemes, std::vector<Wait>& rules);
  void complete(const Item& item, const std::vector<Wait>& rules);
  Item advanced(const Item& item, const Edge& e) const;

  const Network& net_;
  Lexer& lexer_;
  Intern kernels_;
  std::vector<Info> info_;
  std::vector<Wait> waits_;
  std::vector<uint32_t> kernel_;

  // Of the row being built.
  std::vector<Item> items_;
  std::vector<uint32_t> seen_;       // open-addressed: index into items_ + 1
  std::vector<uint32_t> predicted_;  // by rule: the row for which it was predicted last, + 1
  bool complete_ = false;
  bool exhausted_ = false;
};

}  // namespace quire::grammar
