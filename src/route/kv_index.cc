#include "route/kv_index.h"

#include <algorithm>
#include <utility>

#include "base/hash128.h"
#include "base/rng.h"

namespace quire {
namespace {

constexpr size_t kMostSought = 1 << 14;  // blocks of a prompt

uint64_t next_chain(uint64_t chain, const Token* tokens, int64_t n) {
  return hash128(tokens, static_cast<size_t>(n) * sizeof(Token), chain).lo;
}

uint64_t under(uint64_t chain, uint64_t salt) { return mix64(chain ^ mix64(salt)); }

}  // namespace

void KvIndex::set_workers(std::span<const uint64_t> workers) {
  std::vector<Held> freed;  // behind the lock's end
  const std::lock_guard lock(mu_);
  for (auto at = holders_.begin(); at != holders_.end();) {
    const bool stays = std::ranges::find(workers, at->first) != workers.end();
    if (!stays) {
      freed.push_back(clear(at->second));
      n_whole_ -= static_cast<int64_t>(at->second.whole);
    }
    at = stays ? std::next(at) : holders_.erase(at);
  }
  for (const uint64_t worker : workers) holders_.try_emplace(worker);
  for (auto& [worker, holder] : holders_) {
    if (std::ssize(holder.by_name) <= most_blocks_ / std::ssize(holders_)) continue;
    freed.push_back(clear(holder));  // its share has become smaller
    n_whole_ -= static_cast<int64_t>(std::exchange(holder.whole, false));
  }
}

uint64_t KvIndex::root(int64_t block_tokens, uint64_t adapter) const {
  return mix64(mix64(secret_ ^ static_cast<uint64_t>(block_tokens)) ^ adapter);
}

KvIndex::Taken KvIndex::take(uint64_t worker, const KvEvent& event) {
  Held freed;
  const std::lock_guard lock(mu_);
  const auto at = holders_.find(worker);
  if (at == holders_.end()) return Taken::well;
  if (event.kind == KvEvent::Kind::cleared) freed = clear(at->second);
  if (event.kind == KvEvent::Kind::cleared || !event.in_memory || event.group != 0) return Taken::well;
  if (event.kind == KvEvent::Kind::stored) return store(at->second, event);
  remove(at->second, event);
  return Taken::well;
}

KvIndex::Taken KvIndex::store(Holder& holder, const KvEvent& event) {
  if (holder.by_name.empty()) holder.block_tokens = event.block_tokens;
  if (holder.block_tokens != event.block_tokens) return Taken::strange;
  Node node{root(event.block_tokens, event.adapter), 0};
  if (event.has_parent) {
    const auto parent = holder.by_name.find(event.parent);
    if (parent == holder.by_name.end()) return Taken::strange;
    node = parent->second;
  }
  const int64_t share = most_blocks_ / std::ssize(holders_);
  for (size_t i = 0; i < event.hashes.size(); ++i) {
    if (const uint64_t extra = event.extras.empty() ? 0 : event.extras[i]; extra != 0 && extra != node.salt)
      node = {under(node.chain, extra), extra};
    // Of each block: one of an activated adapter goes on from a block of the model's own.
    if (event.adapter != 0) node.chain = under(node.chain, event.adapter);
    const auto at = static_cast<int64_t>(i) * event.block_tokens;
    node.chain = next_chain(node.chain, event.tokens.data() + at, event.block_tokens);
    const auto old = holder.by_name.find(event.hashes[i]);
    if (old != holder.by_name.end() && old->second.chain == node.chain) {
      old->second.n_copies += static_cast<uint32_t>(old->second.n_copies < UINT32_MAX);
      old->second.n_doubts = 0;
      continue;
    }
    if (old != holder.by_name.end()) {
      drop(holder, old->second.chain);
      old->second = {node.chain, node.salt};
    } else {
      while (std::ssize(holder.by_name) >= share || n_blocks_ >= most_blocks_)
        if (!forget_doubtful(holder)) return Taken::full;
      holder.by_name.emplace(event.hashes[i], Node{node.chain, node.salt});
      ++n_blocks_;
    }
    ++holder.by_chain[node.chain];
  }
  return Taken::well;
}

// Some engines have a block twice, and say of each copy that it was stored and that it was removed.
void KvIndex::remove(Holder& holder, const KvEvent& event) {
  for (const uint64_t name : event.hashes) {
    const auto at = holder.by_name.find(name);
    if (at == holder.by_name.end()) continue;
    if (Node& node = at->second; node.n_copies > 1) {
      holder.doubtful.push_back(name);
      --node.n_copies;
      ++node.n_doubts;
      if (std::ssize(holder.doubtful) > kMostDoubtful) forget_doubtful(holder);
      continue;
    }
    drop(holder, at->second.chain);
    holder.by_name.erase(at);
    --n_blocks_;
  }
}

// Makes room. False: every block of its is there. What was stored again since it was doubtful may go a little early
// when it is so anew.
bool KvIndex::forget_doubtful(Holder& holder) {
  while (!holder.doubtful.empty()) {
    const auto at = holder.by_name.find(holder.doubtful.front());
    holder.doubtful.pop_front();
    if (at == holder.by_name.end() || at->second.n_doubts == 0) continue;
    if (--at->second.n_doubts > 0) continue;
    drop(holder, at->second.chain);
    holder.by_name.erase(at);
    --n_blocks_;
    return true;
  }
  return false;
}

void KvIndex::drop(Holder& holder, uint64_t chain) {
  const auto at = holder.by_chain.find(chain);
  if (at != holder.by_chain.end() && --at->second == 0) holder.by_chain.erase(at);
}

// With their tables, which do not shrink by themselves.
KvIndex::Held KvIndex::clear(Holder& holder) {
  n_blocks_ -= std::ssize(holder.by_name);
  holder.n_expected = 0;
  return {std::exchange(holder.by_name, {}), std::exchange(holder.by_chain, {}),
          std::exchange(holder.expected_by_chain, {}), std::exchange(holder.doubtful, {}),
          std::exchange(holder.expected, {})};
}

void KvIndex::clear(uint64_t worker) {
  Held freed;
  const std::lock_guard lock(mu_);
  if (const auto at = holders_.find(worker); at != holders_.end()) freed = clear(at->second);
}

void KvIndex::set_whole(uint64_t worker, bool whole) {
  const std::lock_guard lock(mu_);
  const auto at = holders_.find(worker);
  if (at == holders_.end()) return;
  n_whole_ += static_cast<int64_t>(whole) - static_cast<int64_t>(at->second.whole);
  at->second.whole = whole;
}

void KvIndex::learn_salt(uint64_t worker, uint64_t asker, uint64_t salt) {
  const std::lock_guard lock(mu_);
  const auto at = holders_.find(worker);
  if (at == holders_.end() || asker == 0) return;
  auto& salts = at->second.salts;
  if (std::ssize(salts) >= kMostSalts && !salts.contains(asker)) salts.clear();
  salts[asker] = salt;
}

uint64_t KvIndex::salt_of(uint64_t worker, uint64_t asker) const {
  if (asker == 0) return 0;
  const std::lock_guard lock(mu_);
  const auto at = holders_.find(worker);
  if (at != holders_.end())
    if (const auto salt = at->second.salts.find(asker); salt != at->second.salts.end()) return salt->second;
  return mix64(secret_ ^ asker) | 1;
}

void KvIndex::expire(Holder& holder, int64_t now_ns) {
  while (!holder.expected.empty() &&
         (holder.expected.front().until_ns <= now_ns || holder.n_expected > kMostExpected)) {
    for (const uint64_t chain : holder.expected.front().chains) {
      const auto at = holder.expected_by_chain.find(chain);
      if (at != holder.expected_by_chain.end() && --at->second == 0) holder.expected_by_chain.erase(at);
    }
    holder.n_expected -= std::ssize(holder.expected.front().chains);
    holder.expected.pop_front();
  }
}

// Of all blocks that a worker may find: the last token is always computed.
const KvIndex::Plain& KvIndex::plain_of(std::vector<Plain>& plains,
                                        int64_t block_tokens,
                                        std::span<const Token> tokens) const {
  for (const Plain& plain : plains)
    if (plain.block_tokens == block_tokens) return plain;
  Plain& out = plains.emplace_back();
  out.block_tokens = block_tokens;
  out.chains.push_back(root(block_tokens, 0));
  for (int64_t at = 0; at + block_tokens < std::ssize(tokens) && out.chains.size() <= kMostSought; at += block_tokens)
    out.chains.push_back(next_chain(out.chains.back(), tokens.data() + at, block_tokens));
  return out;
}

// How many blocks it has. Those of everybody come first, those under the salt behind any of them.
int64_t KvIndex::walk(
    const Holder& holder, const Plain& plain, uint64_t salt, std::span<const Token> tokens, int64_t& n_steps) {
  const int64_t n = std::ssize(plain.chains) - 1;
  int64_t n_plain = 0;
  while (n_plain < n && holder.has(plain.chains[static_cast<size_t>(n_plain) + 1])) ++n_plain;
  n_steps += n_plain + 1;
  if (salt == 0) return n_plain;
  int64_t best = n_plain;
  for (int64_t from = 0; from <= n_plain && n_steps <= kMostSteps; ++from) {
    uint64_t chain = under(plain.chains[static_cast<size_t>(from)], salt);
    for (int64_t i = from; i < n && n_steps <= kMostSteps; ++i) {
      ++n_steps;
      chain = next_chain(chain, tokens.data() + i * plain.block_tokens, plain.block_tokens);
      if (!holder.has(chain)) break;
      best = std::max(best, i + 1);
    }
  }
  return best;
}

std::vector<KvIndex::Hit> KvIndex::find(std::span<const Token> tokens, std::span<const Sought> sought, int64_t now_ns) {
  std::vector<Hit> out;
  std::vector<Plain> plains;
  plains.reserve(sought.size());
  int64_t n_steps = 0;
  const std::lock_guard lock(mu_);
  for (const Sought& one : sought) {
    const auto at = holders_.find(one.worker);
    if (at == holders_.end() || !at->second.whole || at->second.block_tokens == 0) continue;
    Holder& holder = at->second;
    expire(holder, now_ns);
    const size_t n_plains = plains.size();
    const Plain& plain = plain_of(plains, holder.block_tokens, tokens);
    if (plains.size() > n_plains) n_steps += std::ssize(plain.chains);
    const int64_t n_blocks = walk(holder, plain, one.salt, tokens, n_steps);
    if (n_steps > kMostSteps && !out.empty()) break;
    out.push_back({one.worker, n_blocks * holder.block_tokens});
  }
  return out;
}

void KvIndex::expect(const Sought& given, std::span<const Token> tokens, int64_t now_ns) {
  const std::lock_guard lock(mu_);
  const auto at = holders_.find(given.worker);
  if (at == holders_.end() || at->second.block_tokens == 0) return;
  Holder& holder = at->second;
  Expected expected{now_ns + kExpectNs, {}};
  uint64_t chain = root(holder.block_tokens, 0);
  if (given.salt != 0) chain = under(chain, given.salt);
  const size_t most = kMostExpected / 16;  // of one prompt
  for (int64_t from = 0; from + holder.block_tokens < std::ssize(tokens) && expected.chains.size() < most;
       from += holder.block_tokens) {
    chain = next_chain(chain, tokens.data() + from, holder.block_tokens);
    expected.chains.push_back(chain);
  }
  if (expected.chains.empty()) return;
  for (const uint64_t one : expected.chains) ++holder.expected_by_chain[one];
  holder.n_expected += std::ssize(expected.chains);
  holder.expected.push_back(std::move(expected));
  expire(holder, now_ns);
}

KvIndex::State KvIndex::state(uint64_t worker) const {
  const std::lock_guard lock(mu_);
  const auto at = holders_.find(worker);
  if (at == holders_.end()) return {};
  return {at->second.whole, std::ssize(at->second.by_name)};
}

int64_t KvIndex::n_blocks() const {
  const std::lock_guard lock(mu_);
  return n_blocks_;
}

}  // namespace quire
