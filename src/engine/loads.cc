#include "engine/loads.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace quire {
namespace {

constexpr int64_t kLeastPatienceNs = 50'000'000;       // a thread may have to wait for its turn
constexpr int64_t kUnknownPatienceNs = 2'000'000'000;  // before any step has told what computing takes
constexpr int64_t kLate = 10;                          // times what was predicted

}  // namespace

// Without memory for it nothing is brought.
bool Loads::begin(Sequence& seq, int64_t now_ns) {
  try {
    if (seq.may_match() && ask(seq, now_ns)) return true;
  } catch (const std::bad_alloc&) {
  }
  seq.load = nullptr;
  return false;
}

bool Loads::ask(Sequence& seq, int64_t now_ns) {
  KvCache& cache = uses_.pasts.cache();
  const Prefix prefix = uses_.pasts.prefix_of(seq);
  const auto n_have = static_cast<int>(seq.kv.table.size());
  const int most = (static_cast<int>(seq.tokens.size()) - 1) / cache.block_tokens();
  if (n_have >= most) return false;
  const std::vector<Hash128> names = cache.names(prefix);
  std::vector<uint8_t> groups;
  for (int b = n_have; b < most; ++b) {
    const uint8_t has = uses_.tier.find(names[static_cast<size_t>(b)]);
    if (has == 0) break;
    groups.push_back(has);
  }
  if (groups.empty()) return false;
  cache.learn(prefix, n_have, groups);
  const auto n_blocks = static_cast<int>(groups.size());
  const int block = cache.block_tokens();
  const auto compute_ns =
      static_cast<int64_t>(uses_.cost.predict_ns(StepShape::rows(n_have * block, n_blocks * block)));
  const int64_t load_ns = uses_.tier.predict_ns(n_blocks);
  if (compute_ns > 0 && load_ns >= compute_ns) {
    ++uses_.accounts.counters().n_loads_declined;
    return false;
  }
  seq.load = std::make_unique<Load>();
  const int64_t patience_ns = std::max(kLate * load_ns, kLeastPatienceNs);
  seq.load->give_up_ns = now_ns + (compute_ns > 0 ? std::min(patience_ns, compute_ns) : kUnknownPatienceNs);
  return fetch(seq, now_ns);
}

// False: there is nothing to wait for.
bool Loads::fetch(Sequence& seq, int64_t now_ns) {
  const Prefix prefix = uses_.pasts.prefix_of(seq);
  const KvCache::Below below = uses_.pasts.cache().fetch(seq.kv, prefix, seq.load->run);
  if (below == KvCache::Below::loading) return now_ns < seq.load->give_up_ns;
  if (below != KvCache::Below::begun) return false;
  seq.load->read = read(prefix, seq.load->run);
  ++uses_.accounts.counters().n_loads;
  return true;
}

std::shared_ptr<TierRead> Loads::read(const Prefix& prefix, const Fetch& run) {
  const KvCache& cache = uses_.pasts.cache();
  const std::vector<Hash128> names = cache.names(prefix);
  const PrefixBlocks cut{prefix, cache.block_tokens()};
  auto b = static_cast<size_t>(std::find(names.begin(), names.end(), run.name(0)) - names.begin());
  std::vector<Spelling> wanted;
  for (size_t i = 0; i < run.n_blocks(); ++i, ++b) {
    QR_CHECK(b < names.size() && names[b] == run.name(i), "a run follows its path");
    const auto block = static_cast<int>(b);
    const auto tokens = cut.tokens(block);
    wanted.push_back({names[b],
                      b == 0 ? Hash128{} : names[b - 1],
                      cut.key(block),
                      {tokens.begin(), tokens.end()},
                      cut.extras(block)});
  }
  return uses_.tier.read(std::move(wanted));
}

void Loads::poll(std::span<const std::unique_ptr<Sequence>> running, int64_t now_ns) {
  for (const auto& seq : running) {
    if (seq->load == nullptr) continue;
    Load& load = *seq->load;
    const bool own = load.read != nullptr;
    if (own) take_in(load);
    const bool over = own ? load.run.arrived_all() : !still_comes(*seq, now_ns);
    if (!over && now_ns < load.give_up_ns) continue;
    if (!over) ++uses_.accounts.counters().n_loads_overtaken;
    end(*seq);
  }
}

bool Loads::still_comes(Sequence& seq, int64_t now_ns) {
  try {
    return fetch(seq, now_ns);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Loads::take_in(Load& load) {
  TierBlock block;
  while (!load.run.arrived_all()) {
    const size_t i = load.run.n_arrived();
    const TierRead::State state = load.read->take(i, block);
    if (state == TierRead::State::coming) return;
    if (state == TierRead::State::here && put(block, load.run.blocks(i))) {
      load.run.arrived();
      ++load.n_arrived;
    } else {
      load.run.lost();
      ++uses_.accounts.counters().n_loads_lost;
    }
  }
}

// False: it lacks a group that is wanted.
bool Loads::put(const TierBlock& block, const GroupBlocks& to) const {
  const KvView memory = uses_.pasts.cache().view();
  const std::byte* from = block.bytes.data();
  for (size_t g = 0; g < to.size(); ++g) {
    const bool has = (block.groups >> g & 1U) != 0;
    if (to[g] && !has) return false;
    const KvGroupView& group = memory.groups[g];
    const auto n = static_cast<size_t>(group.block_bytes);
    if (to[g] && n > 0) std::memcpy(group.base + to[g].id() * group.block_bytes, from, n);
    if (has) from += n;
  }
  return true;
}

void Loads::end(Sequence& seq) {
  const int n_brought = seq.load->n_arrived * uses_.pasts.cache().block_tokens();
  seq.load = nullptr;
  seq.loaded = true;
  const int n_before = seq.n_computed;
  uses_.pasts.extend(seq);
  uses_.accounts.loaded(seq, std::min(seq.n_computed - n_before, n_brought));
}

}  // namespace quire
