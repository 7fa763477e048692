#include "engine/explains.h"

#include <algorithm>
#include <utility>

#include "engine/invocation.h"

namespace quire {

namespace {

// Where the tenant's own stored path parts from the sequence's.
void tell_parting(const Sequence& seq, PathTrace&& trace, Explanation& out) {
  const ExplainWish& wish = *seq.request.explain;
  const int at = trace.n_known + trace.n_common;
  const int begin = std::min(std::max(at - wish.n_before, seq.n_virtual), at);
  const int end = std::min(seq.n_prompt, at + wish.n_behind);
  const auto token = [&](int i) { return seq.tokens.begin() + i; };
  out.parts_at = at - seq.n_virtual;
  out.before.assign(token(begin), token(at));
  out.asked.assign(token(at), token(end));
  out.stored = std::move(trace.stored);
}

}  // namespace

void Explains::add(std::unique_ptr<Sequence>&& seq) { waiting_.push_back(std::move(seq)); }

std::unique_ptr<Sequence> Explains::remove_first() {
  if (waiting_.empty()) return nullptr;
  std::unique_ptr<Sequence> out = std::move(waiting_.front());
  waiting_.pop_front();
  return out;
}

std::unique_ptr<Sequence> Explains::remove(SeqId id) {
  const auto at = std::ranges::find_if(waiting_, [&](const auto& seq) { return seq->id == id; });
  if (at == waiting_.end()) return nullptr;
  std::unique_ptr<Sequence> out = std::move(*at);
  waiting_.erase(at);
  return out;
}

// Tokens behind `begin` whose blocks a tier is known to have whole, in every group, by the nearest that has them.
TokensByTier Explains::below(const Prefix& prefix, int begin, int most) const {
  TokensByTier out{};
  if (uses_.tiers.empty() || begin >= most) return out;
  const KvCache& cache = uses_.pasts.cache();
  const std::vector<Hash128> names = cache.names(prefix);
  const auto all = static_cast<uint8_t>((1U << static_cast<unsigned>(cache.n_groups())) - 1);
  for (int at = begin; at < most; at += cache.block_tokens()) {
    const size_t tier = uses_.tiers.find(names[static_cast<size_t>(at / cache.block_tokens())], all);
    if (tier == uses_.tiers.size()) break;
    out[static_cast<size_t>(uses_.tiers.place(tier))] += cache.block_tokens();
  }
  return out;
}

// Whether the first block that is missing is remembered as evicted, or where its tokens are known one behind it, whose
// window has gone. Of others' blocks nothing is told.
bool Explains::find_departure(const Prefix& prefix, const Reach& reach, int64_t now_ns, Explanation& out) const {
  const KvCache& cache = uses_.pasts.cache();
  const std::vector<Hash128> names = cache.names(prefix);
  const int first = reach.end() / cache.block_tokens();
  const int end = std::max(reach.known / cache.block_tokens(), first + 1);
  for (int b = first; b < end; ++b) {
    const Departure* left = cache.departure(names[static_cast<size_t>(b)]);
    if (left == nullptr || left->whose != prefix.whose) continue;
    out.evicted_ago_ns = std::max<int64_t>(now_ns - left->time_ns, 0);
    out.made_way_for_own = left->made_way == prefix.whose;
    return true;
  }
  return false;
}

// Whether another root has the first block that is missing, and all before it.
bool Explains::find_other_root(const Sequence& seq, const Reach& reach, Explanation& out) const {
  const KvCache& cache = uses_.pasts.cache();
  const std::vector<ExplainWish::Root>& others = seq.request.explain->others;
  for (size_t i = 0; i < others.size() && seq.n_virtual == 0; ++i) {
    Prefix prefix = uses_.pasts.prefix_of(seq);
    prefix.key.adapter = others[i].adapter;
    prefix.key.salt = others[i].salt;
    prefix.n_base = tokens_before_invocation(prefix.tokens, others[i].invocation);
    const std::span<const Token> all = prefix.tokens;
    prefix.tokens = all.first(static_cast<size_t>(reach.end() + cache.block_tokens()) + 1);
    if (cache.peek(prefix) <= reach.end()) continue;
    prefix.tokens = all;
    out.other = static_cast<int>(i);
    out.n_other = cache.peek(prefix);
    return true;
  }
  return false;
}

Explanation Explains::explain(const Sequence& seq, int64_t now_ns) const {
  const KvCache& cache = uses_.pasts.cache();
  const Prefix prefix = uses_.pasts.prefix_of(seq);
  const int n_virtual = seq.n_virtual;
  const auto text = [&](int n) { return std::max(n - n_virtual, 0); };
  TraceLimits limits;
  limits.n_stored = seq.request.explain->n_behind;
  PathTrace trace = cache.trace(prefix, limits);
  Reach reach;
  reach.memory = trace.n_matched;
  reach.known = trace.n_known;
  reach.most = cache.max_match(prefix) * cache.block_tokens();
  reach.below = below(prefix, reach.memory, reach.most);
  const bool begins_block = reach.end() == reach.memory && reach.memory >= n_virtual;
  const int n_part = begins_block ? trace.n_part : 0;

  Explanation out;
  out.n_prompt = seq.n_prompt - n_virtual;
  out.n_memory = text(reach.memory + n_part);
  out.n_remote =
      std::min(reach.below[static_cast<size_t>(TierPlace::remote)], text(reach.end() + n_part) - out.n_memory);
  out.n_disk = text(reach.end() + n_part) - out.n_memory - out.n_remote;
  out.block_tokens = cache.block_tokens();
  if (n_part > 0 && out.n_memory == out.n_prompt - 1) {
    out.cause = MissCause::whole;
    return out;
  }
  if (text(reach.most) == 0) {
    out.cause = MissCause::below_block;
    return out;
  }
  if (reach.end() >= reach.most) {
    out.cause = MissCause::whole;
    return out;
  }
  const bool parts = !trace.stored.empty() && reach.end() <= reach.known;
  if (parts) tell_parting(seq, std::move(trace), out);
  if (find_departure(prefix, reach, now_ns, out)) {
    out.cause = MissCause::evicted;
  } else if (reach.end() < reach.known) {
    out.cause = MissCause::partly_kept;
  } else if (find_other_root(seq, reach, out)) {
    out.cause = MissCause::other_root;
  } else {
    out.cause = parts ? MissCause::differs : MissCause::never_stored;
  }
  return out;
}

}  // namespace quire
