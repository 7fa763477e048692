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

// Few long runs, tables with many ties and tables whose ranks go up as merges build on each other: both ways out of
// merge_by_runs must occur, and what it does must be the definition.
TEST(MergeSymbols, RunsEqualTheDefinitionOrAreRefused) {
  std::mt19937 random(11);
  int n_merged = 0, n_refused = 0;
  for (int round = 0; round < 3000; ++round) {
    Rules rules;
    const auto n_rules = 1 + random() % 24;
    const bool growing = random() % 2 == 0;
    for (unsigned r = 0; r < n_rules; ++r) {
      const auto left = static_cast<Symbol>(random() % 6), right = static_cast<Symbol>(random() % 6);
      const uint32_t rank = growing ? static_cast<uint32_t>(std::max(left, right)) * 4 + random() % 4 : random() % 6;
      const auto result =
          static_cast<Symbol>(growing ? static_cast<unsigned>(std::max(left, right)) + 1 : 2 + random() % 4);
      rules.try_emplace({left, random() % 2 == 0 ? left : right}, Merge{rank, result});
    }
    const MergeTable table = table_of(rules);
    std::vector<Symbol> text;
    for (unsigned run = 0; run < 1 + random() % 4; ++run)
      text.insert(text.end(), random() % 60, static_cast<Symbol>(random() % 3));
    std::vector<Symbol> got = text;
    if (!merge_by_runs(table, got)) {
      ASSERT_EQ(got, text) << "round " << round;
      ++n_refused;
      continue;
    }
    ++n_merged;
    ASSERT_EQ(got, naive(rules, text)) << "round " << round;
  }
  EXPECT_GT(n_merged, 1000);
  EXPECT_GT(n_refused, 100);
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
