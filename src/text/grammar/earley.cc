// See earley.h.
#include "text/grammar/earley.h"

#include <algorithm>

namespace quire::grammar {

void Rows::clear() {
  kernels_ = {};
  info_.clear();
  waits_.clear();
  kernel_.clear();
  exhausted_ = false;
  predicted_.assign(net_.start_of.size(), 0);
  seen_.assign(256, 0);
  const uint32_t root[] = {net_.start_of[net_.root], 0, kHere};
  kernels_.add(root);
  build(root);
}

size_t Rows::bytes() const {
  return kernels_.bytes() + info_.size() * sizeof(Info) + waits_.size() * sizeof(Wait) + predicted_.size() * 4;
}

void Rows::put(const Item& item) {
  if (items_.size() * 2 >= seen_.size()) {
    seen_.assign(seen_.size() * 2, 0);
    const std::vector<Item> again = std::move(items_);
    items_.clear();
    for (const Item& i : again) put(i);
  }
  size_t at = mix(mix(item.state, item.count), item.origin) & (seen_.size() - 1);
  for (; seen_[at] != 0; at = (at + 1) & (seen_.size() - 1)) {
    if (items_[seen_[at] - 1] == item) return;
  }
  items_.push_back(item);
  seen_[at] = static_cast<uint32_t>(items_.size());
}

Rows::Item Rows::advanced(const Item& item, const Edge& e) const {
  const Network::StateInfo& s = net_.states[item.state];
  if (!s.loop) return {e.to, 0, item.origin};
  // Without a greatest count the least is as far as counting matters.
  return {e.to, s.max == kNoLimit ? std::min(item.count + 1, s.min) : item.count + 1, item.origin};
}

// The rule of `item` ends here: whoever waited for it where it began goes on.
void Rows::complete(const Item& item, const std::vector<Wait>&) {
  if (item.origin == kHere) return;  // it matched nothing, which was stepped over when it was predicted
  const Rule rule = net_.states[item.state].rule;
  if (item.origin == root() && rule == net_.root) complete_ = true;
  const Info& from = info_[item.origin];
  const auto begin = waits_.begin() + static_cast<ptrdiff_t>(from.rule_waits);
  const auto end = waits_.begin() + static_cast<ptrdiff_t>(from.end);
  for (auto it = std::lower_bound(begin, end, Wait{rule, {}}); it != end && it->label == rule; ++it) {
    Item next = it->item;
    if (next.origin == kHere) next.origin = item.origin;
    put(next);
  }
}

void Rows::expand(const Item& item, std::vector<Wait>& lexemes, std::vector<Wait>& rules) {
  const Network::StateInfo& s = net_.states[item.state];
  if (s.loop ? item.count >= s.min : s.final) complete(item, rules);
  if (s.loop && s.max != kNoLimit && item.count >= s.max) return;
  for (uint32_t i = net_.first_edge[item.state]; i < net_.first_edge[item.state + 1]; ++i) {
    const Edge& e = net_.edges[i];
    const Item next = advanced(item, e);
    switch (e.kind) {
      case Edge::Kind::empty: put(next); break;
      case Edge::Kind::lexeme: lexemes.push_back({e.label, next}); break;
      case Edge::Kind::rule:
        rules.push_back({e.label, next});
        if (predicted_[e.label] != info_.size() + 1) {
          predicted_[e.label] = static_cast<uint32_t>(info_.size()) + 1;
          put({net_.start_of[e.label], 0, kHere});
        }
        if (net_.nullable[e.label] && !s.loop) put(next);
        break;
    }
  }
}

void Rows::build(std::span<const uint32_t> kernel) {
  items_.clear();
  std::fill(seen_.begin(), seen_.end(), 0);
  complete_ = info_.empty() && net_.nullable[net_.root];
  for (size_t i = 0; i < kernel.size(); i += 3) put({kernel[i], kernel[i + 1], kernel[i + 2]});
  std::vector<Wait> lexemes, rules;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (items_.size() > kMaxItems) {
      exhausted_ = true;
      break;
    }
    expand(Item(items_[i]), lexemes, rules);
  }
  std::stable_sort(lexemes.begin(), lexemes.end());
  std::stable_sort(rules.begin(), rules.end());
  Info info;
  info.lexeme_waits = waits_.size();
  info.rule_waits = info.lexeme_waits + lexemes.size();
  info.end = info.rule_waits + rules.size();
  info.n_items = static_cast<uint32_t>(items_.size());
  info.complete = complete_;
  std::vector<uint32_t> allowed;
  for (const Wait& w : lexemes) {
    if (allowed.empty() || allowed.back() != w.label) allowed.push_back(w.label);
  }
  waits_.insert(waits_.end(), lexemes.begin(), lexemes.end());
  waits_.insert(waits_.end(), rules.begin(), rules.end());
  info.start = lexer_.start(allowed);
  info_.push_back(info);
  if (seen_.size() > 4096) seen_.assign(256, 0);
}

void Rows::scan(Row r, std::span<const uint32_t> lexemes) {
  const Info& from = info_[r];
  const auto end = waits_.begin() + static_cast<ptrdiff_t>(from.rule_waits);
  auto it = waits_.begin() + static_cast<ptrdiff_t>(from.lexeme_waits);
  for (const uint32_t l : lexemes) {
    for (it = std::lower_bound(it, end, Wait{l, {}}); it != end && it->label == l; ++it) {
      const Row origin = it->item.origin == kHere ? r : it->item.origin;
      kernel_.insert(kernel_.end(), {it->item.state, it->item.count, origin});
    }
  }
}

Row Rows::take() {
  struct Triple {
    uint32_t a, b, c;
    auto operator<=>(const Triple&) const = default;
  };
  if (kernel_.size() > 3) {
    std::vector<Triple> triples(kernel_.size() / 3);
    for (size_t i = 0; i < triples.size(); ++i) triples[i] = {kernel_[3 * i], kernel_[3 * i + 1], kernel_[3 * i + 2]};
    std::sort(triples.begin(), triples.end());
    triples.erase(std::unique(triples.begin(), triples.end()), triples.end());
    kernel_.clear();
    for (const Triple& t : triples) kernel_.insert(kernel_.end(), {t.a, t.b, t.c});
  }
  const Row row = kernels_.add(kernel_);
  if (row == info_.size()) build(kernel_);
  kernel_.clear();
  return row;
}

}  // namespace quire::grammar
