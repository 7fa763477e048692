#include "engine/loads.h"

#include <algorithm>
#include <new>

namespace quire {
namespace {

constexpr int64_t kLeastPatienceNs = 50'000'000;       // a thread may have to wait for its turn
constexpr int64_t kUnknownPatienceNs = 2'000'000'000;  // before any step has told what computing takes
constexpr int64_t kLate = 10;                          // times what was predicted
constexpr int64_t kAskShare = 8;                       // asking may take this part of what computing takes
// Bytes that all loads together ask a device to copy before a step: a millisecond or two, since who asks for more than
// the device's rings hold waits for it.
constexpr size_t kMostCopied = size_t{32} << 20;

}  // namespace

// Without memory for it nothing is brought.
bool Loads::begin(Sequence& seq, int64_t now_ns) {
  try {
    if (seq.may_match() && ask(seq, now_ns)) return true;
  } catch (const std::bad_alloc&) {
    seq.load = nullptr;
  }
  seq.load = nullptr;
  return false;
}

// What n more blocks of a path would take; 0: unknown.
int64_t Loads::compute_ns(int first, size_t n_blocks) const {
  const int block = uses_.pasts.cache().block_tokens();
  return static_cast<int64_t>(
      uses_.cost.predict_ns(StepShape::rows(first * block, static_cast<int>(n_blocks) * block)));
}

bool Loads::ask(Sequence& seq, int64_t now_ns) {
  const KvCache& cache = uses_.pasts.cache();
  const Prefix prefix = uses_.pasts.findable_of(seq);
  const auto n_have = static_cast<int>(seq.kv.table.size());
  const int most = cache.max_fetch(prefix);
  if (n_have >= most) return false;
  const std::vector<Hash128> names = cache.names(prefix);
  const auto rest = std::span(names).subspan(static_cast<size_t>(n_have), static_cast<size_t>(most - n_have));
  const int64_t all_ns = compute_ns(n_have, rest.size());
  const int64_t most_ns = all_ns > 0 ? all_ns / kAskShare : kUnknownPatienceNs;
  seq.load = std::make_unique<Load>();
  seq.load->first = n_have;
  seq.load->search = uses_.tiers.search(rest, most_ns);
  if (seq.load->search->over()) return choose(seq, now_ns);
  seq.load->give_up_ns = now_ns + most_ns;
  return true;
}

// Of what the tiers have, so many blocks that bringing them saves the most.
size_t Loads::worth_loading(const Load& load) const {
  const std::span<const uint8_t> tiers = load.path.tiers;
  size_t best = 0;
  int64_t best_ns = 0;
  for (size_t n = 1; n <= tiers.size(); ++n) {
    if (n < tiers.size() && tiers[n] == tiers[n - 1]) continue;
    const int64_t by_hand_ns = compute_ns(load.first, n), load_ns = uses_.tiers.predict_ns(tiers.first(n));
    if (by_hand_ns <= 0) return tiers.size();
    if (by_hand_ns - load_ns <= best_ns) continue;
    best = n;
    best_ns = by_hand_ns - load_ns;
  }
  return best;
}

// False: there is nothing to wait for.
bool Loads::choose(Sequence& seq, int64_t now_ns) {
  Load& load = *seq.load;
  load.path = uses_.tiers.found(*load.search);
  load.search = nullptr;
  if (load.path.size() == 0) return false;
  uses_.pasts.cache().learn(uses_.pasts.findable_of(seq), load.first, load.path.groups);
  load.path.cut(worth_loading(load));
  if (load.path.size() == 0) {
    ++uses_.accounts.counters().n_loads_declined;
    return false;
  }
  const int64_t by_hand_ns = compute_ns(load.first, load.path.size());
  const int64_t patience_ns = std::max(kLate * uses_.tiers.predict_ns(load.path.tiers), kLeastPatienceNs);
  load.give_up_ns = now_ns + (by_hand_ns > 0 ? std::min(patience_ns, by_hand_ns) : kUnknownPatienceNs);
  return fetch(seq, now_ns);
}

// False: there is nothing to wait for. Fetched is what was chosen, whatever else the tree knows of.
bool Loads::fetch(Sequence& seq, int64_t now_ns) {
  Load& load = *seq.load;
  const Prefix prefix = uses_.pasts.findable_of(seq);
  const int n_chosen = load.first + static_cast<int>(load.path.size());
  const KvCache::Below below = uses_.pasts.cache().fetch(seq.kv, prefix, n_chosen, load.run);
  if (below == KvCache::Below::loading) return now_ns < load.give_up_ns;
  if (below != KvCache::Below::begun) return false;
  load.copies.reserve(load.run.n_blocks());
  load.read = read(prefix, load);
  ++uses_.accounts.counters().n_loads;
  return true;
}

std::shared_ptr<TierRead> Loads::read(const Prefix& prefix, Load& load) {
  const KvCache& cache = uses_.pasts.cache();
  const Fetch& run = load.run;
  const std::vector<Hash128> names = cache.names(prefix);
  const PrefixBlocks cut{prefix, cache.block_tokens()};
  auto b = static_cast<size_t>(std::find(names.begin(), names.end(), run.name(0)) - names.begin());
  load.run_first = static_cast<int>(b);
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
  const auto tiers = std::span(load.path.tiers).subspan(static_cast<size_t>(load.run_first - load.first));
  return uses_.tiers.read(std::move(wanted), tiers.first(run.n_blocks()));
}

void Loads::poll(std::span<const std::unique_ptr<Sequence>> running, int64_t now_ns, bool nobody_moves) {
  const bool waits = nobody_moves || std::ranges::all_of(running, [](const auto& seq) { return seq->load != nullptr; });
  size_t room = kMostCopied;
  for (const auto& seq : running) {
    if (seq->load == nullptr) continue;
    Load& load = *seq->load;
    if (load.search != nullptr && !load.search->over() && now_ns < load.give_up_ns) continue;
    const bool own = load.read != nullptr;
    const bool is_cut = own && take_in(load, waits, room);
    const bool over = own ? load.run.arrived_all() : !goes_on(*seq, now_ns);
    if (!over && (is_cut || now_ns < load.give_up_ns)) continue;
    if (!over) ++uses_.accounts.counters().n_loads_overtaken;
    end(*seq);
  }
}

// Whether there is something to wait for still, of one that has no read of its own.
bool Loads::goes_on(Sequence& seq, int64_t now_ns) {
  try {
    return seq.load->search != nullptr ? choose(seq, now_ns) : fetch(seq, now_ns);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

int Loads::retain(const Prefix& prefix, std::span<const RetentionRange> ranges, int64_t now_ns) {
  const KvCache& cache = uses_.pasts.cache();
  std::vector<NamedWish> wishes;
  int begin = 0;
  for (const Hash128& name : cache.names(prefix)) {
    const int end = begin + cache.block_tokens();
    wishes.push_back({name, wish_of(ranges, begin, end, now_ns)});
    wishes.back().wish.whose = prefix.whose;
    begin = end;
  }
  return uses_.tiers.retain(wishes, now_ns);
}

// Begins to copy what has come into its blocks. True: it stopped for want of room, unless it waits anyway; where the
// host reaches the blocks there is no end of that.
bool Loads::put_all(Load& load, bool waits, size_t& room) const {
  const bool is_bounded = !waits && uses_.pasts.cache().view().copier() != nullptr;
  TierBlock block;
  while (load.copies.size() < load.run.n_blocks() && (load.copies.empty() || load.copies.back() != Copier::kFailed)) {
    if (is_bounded && room == 0) return true;
    const size_t i = load.copies.size();
    const TierRead::State state = load.read->take(i, block);
    if (state == TierRead::State::coming) return false;
    room -= std::min(room, block.bytes.size());
    load.copies.push_back(state == TierRead::State::here ? put(block, load.run.blocks(i)) : Copier::kFailed);
  }
  return false;
}

// Nobody reads a block before its copy is known to be done. waits: for those that are under way.
// True: as put_all's.
bool Loads::take_in(Load& load, bool waits, size_t& room) {
  const bool is_cut = put_all(load, waits, room);
  const KvView memory = uses_.pasts.cache().view();
  while (load.run.n_arrived() < load.copies.size()) {
    const size_t i = load.run.n_arrived();
    const CopyState state = memory.state(load.copies[i], waits);
    if (state == CopyState::under_way) return is_cut;
    if (state == CopyState::done) {
      arrived(load, i);
      ++load.n_arrived;
      const uint8_t tier = load.path.tiers[static_cast<size_t>(load.run_first - load.first) + i];
      load.arrived[static_cast<size_t>(uses_.tiers.place(tier))] += uses_.pasts.cache().block_tokens();
    } else {
      load.copies.clear();
      load.run.lost();
      ++uses_.accounts.counters().n_loads_lost;
    }
  }
  return is_cut;
}

// Where it was computed meanwhile it is found there, and this one is nobody's.
void Loads::arrived(Load& load, size_t i) const {
  const GroupBlocks& blocks = load.run.blocks(i);
  const bool is_found = uses_.pasts.cache().indexed(blocks[0].id());
  load.run.arrived();
  if (!is_found || uses_.watcher == nullptr) return;
  const Spelling& block = load.read->wanted(i);
  uses_.watcher->stored({block.name, block.key, block.parent, block.tokens, block.extras, blocks});
}

// The copy's number. It fails too where the block lacks a group that is wanted.
int64_t Loads::put(const TierBlock& block, const GroupBlocks& to) const {
  const KvView memory = uses_.pasts.cache().view();
  const std::byte* from = block.bytes.data();
  int64_t last = Copier::kDone;
  for (size_t g = 0; g < to.size(); ++g) {
    const bool has = (block.groups >> g & 1U) != 0;
    if (to[g] && !has) return Copier::kFailed;
    const KvGroupView& group = memory.groups[g];
    if (to[g]) {
      const int64_t copy = group.write(to[g].id(), from);
      if (copy == Copier::kFailed) return copy;
      last = std::max(last, copy);
    }
    if (has) from += group.block_bytes;
  }
  return last;
}

void Loads::end(Sequence& seq) {
  const TokensByTier brought = seq.load->arrived;
  seq.load = nullptr;
  seq.loaded = true;
  const int n_before = seq.n_computed;
  uses_.pasts.extend(seq);
  int rest = seq.n_computed - n_before;
  for (size_t place = 0; place < brought.size(); ++place) {
    const int n = std::min(rest, brought[place]);
    rest -= n;
    if (n > 0) uses_.accounts.loaded(seq, static_cast<TierPlace>(place), n);
  }
}

}  // namespace quire
