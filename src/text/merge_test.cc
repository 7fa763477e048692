#include "text/merge.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quire {
namespace {

using Rules = std::map<std::pair<Symbol, Symbol>, Merge>;

MergeTable table_of(const Rules& rules) {
  MergeTable table;
  table.reserve(rules.size());
  for (const auto& [pair, merge] : rules) table.add(pair.first, pair.second, merge);
  return table;
}

// The definition, as slowly as it is written.
std::vector<Symbol> naive(const Rules& rules, std::vector<Symbol> s) {
  while (true) {
    size_t best = s.size();
    Merge merge;
    for (size_t i = 0; i + 1 < s.size(); ++i) {
      const auto it = rules.find({s[i], s[i + 1]});
      if (it != rules.end() && it->second.rank < merge.rank) best = i, merge = it->second;
    }
    if (best == s.size()) return s;
    s[best] = merge.result;
    s.erase(s.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(MergeTable, KeepsTheLowerRankOfOnePair) {
  MergeTable table;
  table.reserve(3);
  table.add(1, 2, {7, 10});
  table.add(1, 2, {3, 11});
  table.add(1, 2, {9, 12});
  EXPECT_EQ(table.find(1, 2).result, 11);
  EXPECT_EQ(table.find(2, 1).rank, Merge::kNever);
}

TEST(MergeSymbols, EqualRanksMergeLeftToRight) {
  const Rules rules = {{{0, 0}, {0, 1}}};  // aa → A
  std::vector<Symbol> s = {0, 0, 0};
  merge_symbols(table_of(rules), s);
  EXPECT_EQ(s, (std::vector<Symbol>{1, 0}));
}

TEST(MergeSymbols, AllStrategiesEqualTheDefinitionOnRandomTables) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    // Few ranks: ties are the hard part. Symbols 0..3 are letters, the rest results.
    Rules rules;
    const auto n_rules = 2 + random() % 40;
    for (unsigned r = 0; r < n_rules; ++r) {
      const auto left = static_cast<Symbol>(random() % 12), right = static_cast<Symbol>(random() % 12);
      const Merge merge{static_cast<uint32_t>(random() % 6), static_cast<Symbol>(4 + random() % 8)};
      rules.try_emplace({left, right}, merge);
    }
    const MergeTable table = table_of(rules);
    std::vector<Symbol> text(random() % 120);
    for (Symbol& s : text) s = static_cast<Symbol>(random() % 4);
    const std::vector<Symbol> want = naive(rules, text);
    for (const auto merge : {merge_by_scan, merge_by_heap, merge_by_rank_queues, merge_symbols}) {
      std::vector<Symbol> got = text;
      merge(table, got);
      ASSERT_EQ(got, want) << "round " << round;
    }
  }
}

TEST(MergeSymbols, AMillionEqualSymbolsEndAsTheyShould) {
  Rules rules;  // symbol k stands for 2^k letters
  for (Symbol k = 0; k < 8; ++k) rules[{k, k}] = {static_cast<uint32_t>(k), k + 1};
  std::vector<Symbol> s(1'000'000, 0);
  merge_symbols(table_of(rules), s);
  std::vector<Symbol> want(1'000'000 / 256, 8);
  want.push_back(6);  // 1 000 000 = 3906 · 256 + 64
  EXPECT_EQ(s, want);
}

}  // namespace
}  // namespace quire
