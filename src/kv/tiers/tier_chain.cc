#include "kv/tiers/tier_chain.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

#include "kv/tiers/tier_copy.h"

namespace quire {

bool TierSearch::over() const {
  return std::ranges::all_of(answers_, [](const auto& answer) { return answer == nullptr || answer->told(); });
}

// Without memory for a copy nobody takes it.
bool TierChain::offer(const LeavingBlock& block, const KvView& memory) {
  settle(false);
  const auto is_it = [&](const Offered& offered) { return offered.spelling.name == block.name; };
  if (std::ranges::any_of(offered_, is_it)) return true;
  Offered offered;
  bool is_kept = false;
  try {
    for (size_t t = 0; t < tiers_.size(); ++t) {
      const TierWish wish = tiers_[t]->wish(block);
      if (wish == TierWish::wants) offered.tiers.push_back(t);
      is_kept = is_kept || wish == TierWish::has;
    }
    if (offered.tiers.empty()) return is_kept;
    offered.spelling = spelling_of(block);
    offered.copier = memory.copier();
    Offered& last = offered_.emplace_back();
    offered.copy = begin_copy(block, memory, offered.block);
    last = std::move(offered);
  } catch (const std::bad_alloc&) {
    if (!offered_.empty() && offered_.back().tiers.empty()) offered_.pop_back();
    return is_kept;
  }
  Offered& last = offered_.back();
  const CopyState state = memory.state(last.copy, false);
  if (state == CopyState::under_way) return true;
  is_kept = (state == CopyState::done && give(last)) || is_kept;
  offered_.pop_back();
  return is_kept;
}

// Whether any took it. One for whose copy there is no memory goes without.
bool TierChain::give(Offered& offered) {
  const auto takes = [&](size_t t) {
    try {
      const bool is_last = t == offered.tiers.back();
      return tiers_[t]->take(offered.spelling, is_last ? std::move(offered.block) : offered.block);
    } catch (const std::bad_alloc&) {
      return false;
    }
  };
  bool out = false;
  for (const size_t t : offered.tiers) out = takes(t) || out;
  return out;
}

void TierChain::settle(bool waits) {
  while (!offered_.empty()) {
    Offered& first = offered_.front();
    const CopyState state = first.copier->state(first.copy, waits);
    if (state == CopyState::under_way) return;
    if (state == CopyState::done) give(first);
    offered_.pop_front();
  }
}

int TierChain::retain(std::span<const NamedWish> wishes, int64_t now_ns) {
  int out = 0;
  for (const auto& tier : tiers_) out += tier->retain(wishes, now_ns);
  return out;
}

size_t TierChain::find(const Hash128& name, uint8_t groups) const {
  for (size_t t = 0; t < tiers_.size(); ++t) {
    if ((tiers_[t]->find(name) & groups) == groups) return t;
  }
  return tiers_.size();
}

// A tier is asked from the first block on that neither it nor a nearer one is known to have.
std::unique_ptr<TierSearch> TierChain::search(std::span<const Hash128> names, int64_t most_ns) {
  auto out = std::make_unique<TierSearch>();
  out->names_.assign(names.begin(), names.end());
  size_t begin = 0;
  for (size_t t = 0; t < tiers_.size(); ++t) {
    const auto known = [&](const Hash128& name) {
      return std::any_of(tiers_.begin(), tiers_.begin() + static_cast<std::ptrdiff_t>(t) + 1,
                         [&](const auto& tier) { return tier->find(name) != 0; });
    };
    while (begin < names.size() && known(names[begin])) ++begin;
    const bool asks = begin < names.size() && tiers_[t]->predict_ns(0) <= most_ns;
    out->begins_.push_back(begin);
    out->answers_.push_back(asks ? tiers_[t]->ask({names.begin() + static_cast<std::ptrdiff_t>(begin), names.end()})
                                 : nullptr);
  }
  return out;
}

// The nearest tier brings a block, unless one below has groups of it that it lacks.
TierPath TierChain::found(const TierSearch& search) const {
  TierPath out;
  for (size_t i = 0; i < search.names_.size(); ++i) {
    uint8_t best = 0, from = 0;
    for (size_t t = 0; t < tiers_.size(); ++t) {
      uint8_t groups = tiers_[t]->find(search.names_[i]);
      const TierAnswer* answer = search.answers_[t].get();
      if (groups == 0 && answer != nullptr && i >= search.begins_[t]) groups = answer->groups(i - search.begins_[t]);
      if (std::popcount(groups) <= std::popcount(best)) continue;
      best = groups;
      from = static_cast<uint8_t>(t);
    }
    if (best == 0) break;
    out.groups.push_back(best);
    out.tiers.push_back(from);
  }
  return out;
}

int64_t TierChain::predict_ns(std::span<const uint8_t> tiers) const {
  int64_t out = 0;
  for (size_t t = 0; t < tiers_.size(); ++t) {
    const auto n = std::ranges::count(tiers, static_cast<uint8_t>(t));
    if (n > 0) out += tiers_[t]->predict_ns(n);
  }
  return out;
}

std::shared_ptr<TierRead> TierChain::read(std::vector<Spelling> wanted, std::span<const uint8_t> tiers) {
  auto out = std::make_shared<TierRead>(std::move(wanted));
  for (size_t begin = 0, end = 0; begin < tiers.size(); begin = end) {
    while (end < tiers.size() && tiers[end] == tiers[begin]) ++end;
    tiers_[tiers[begin]]->bring(out, begin, end);
  }
  return out;
}

void TierChain::on_arrival(const std::function<void()>& call) {
  for (const auto& tier : tiers_) tier->on_arrival(call);
}

void TierChain::stop() {
  for (const auto& tier : tiers_) tier->stop();
}

std::vector<TierStats> TierChain::stats() const {
  std::vector<TierStats> out;
  out.reserve(tiers_.size());
  for (const auto& tier : tiers_) out.push_back(tier->stats());
  return out;
}

}  // namespace quire
