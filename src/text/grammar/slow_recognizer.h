// For tests only: whether a text may begin, or be, a text of a grammar, by the textbook: Earley's sets by position over
// the network, lexemes by their derivatives one by one. Shares no tables and no determinised state with the matcher.
#pragma once
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "text/grammar/automaton.h"

namespace quire::grammar {

class SlowRecognizer {
 public:
  explicit SlowRecognizer(const Program& program) : net_(program.net), rx_(program.rx) {
    sets_.emplace_back();
    add(0, {net_.start_of[net_.root], 0, 0});
    close(0);
  }

  // False when no text of the grammar goes on with this byte.
  bool push(uint8_t b) {
    std::set<Thread> next;
    for (const auto& [at, item, rx] : threads_) {
      const Rx rest = rx_.derive(rx, b);
      if (rx_.alive(rest)) next.insert({at, item, rest});
    }
    threads_ = std::move(next);
    sets_.emplace_back();
    const size_t here = sets_.size() - 1;
    for (const auto& [at, item, rx] : threads_) {
      if (rx_.nullable(rx)) add(here, item);
    }
    std::erase_if(threads_, [](const Thread& t) { return std::get<2>(t) == RxStore::kEmpty; });
    close(here);
    return !threads_.empty() || complete();
  }
  bool complete() const {
    for (const Item& i : sets_.back()) {
      const auto& [state, count, origin] = i;
      if (origin == 0 && net_.states[state].rule == net_.root && final(i)) return true;
    }
    return false;
  }

 private:
  using Item = std::tuple<State, uint32_t, size_t>;  // state, count, where its rule began
  using Thread = std::tuple<size_t, Item, Rx>;       // where the lexeme began, the item behind it, what is left of it

  bool final(const Item& i) const {
    const auto& s = net_.states[std::get<0>(i)];
    return s.loop ? std::get<1>(i) >= s.min : s.final;
  }
  void add(size_t at, const Item& item) { sets_[at].insert(item); }
  Item behind(const Item& i, const Edge& e) const {
    return {e.to, net_.states[std::get<0>(i)].loop ? std::get<1>(i) + 1 : 0, std::get<2>(i)};
  }
  // Predicts and completes until nothing is new; from the start again each time, so the order never matters.
  void close(size_t at) {
    for (size_t before = 0; before != sets_[at].size();) {
      before = sets_[at].size();
      const std::set<Item> now = sets_[at];
      for (const Item& i : now) {
        const auto& [state, count, origin] = i;
        const auto& s = net_.states[state];
        if (final(i)) {
          const std::set<Item> from = sets_[origin];
          for (const Item& w : from)
            each_edge(w, [&](const Edge& e) {
              if (e.kind == Edge::Kind::rule && e.label == s.rule) add(at, behind(w, e));
            });
        }
        each_edge(i, [&](const Edge& e) {
          if (e.kind == Edge::Kind::empty) add(at, behind(i, e));
          if (e.kind == Edge::Kind::rule) add(at, {net_.start_of[e.label], 0, at});
        });
      }
    }
    for (const Item& i : sets_[at]) {
      each_edge(i, [&](const Edge& e) {
        if (e.kind == Edge::Kind::lexeme) threads_.insert({at, behind(i, e), net_.lexemes[e.label]});
      });
    }
  }
  template <class F>
  void each_edge(const Item& i, F&& f) const {
    const auto& s = net_.states[std::get<0>(i)];
    if (s.loop && s.max != kNoLimit && std::get<1>(i) >= s.max) return;
    for (uint32_t e = net_.first_edge[std::get<0>(i)]; e < net_.first_edge[std::get<0>(i) + 1]; ++e) f(net_.edges[e]);
  }

  const Network& net_;
  RxStore rx_;
  std::vector<std::set<Item>> sets_;
  std::set<Thread> threads_;
};

}  // namespace quire::grammar
