// For tests: the part of the naive model that knows a tier (test_twin.h, which includes it).
#pragma once

namespace quire {

inline void Twin::use_tier() {
  const int64_t what = rng_.between(0, 7);
  if (what <= 1 && !seqs_.empty()) return extend(*any());
  if (what == 2 && !seqs_.empty()) return learn(*any());
  if (knobs_.segments && rng_.between(0, 19) == 0) tier_.open_segments();
  if (runs_.empty()) return;
  Run& run = runs_[static_cast<size_t>(rng_.between(0, static_cast<int64_t>(runs_.size()) - 1))];
  if (run.fetch.arrived_all() || what == 3) {
    give_up(run);
  } else if (what == 4) {
    lose(run);
  } else {
    arrive(run);
  }
}

// What eviction has just asked the tier about.
inline void Twin::leaves_for_tier(const std::string& path, uint64_t used) {
  if (knobs_.n_elsewhere == 0) return;
  ASSERT_FALSE(tier_.decisions.empty());
  const bool kept = tier_.decisions.front();
  tier_.decisions.pop_front();
  if (kept) {
    ++n_kept;
    goes_elsewhere(path, used);
  } else {
    std::erase_if(elsewhere_, [&](const auto& entry) { return entry.first.starts_with(path); });
  }
}

inline void Twin::goes_elsewhere(const std::string& path, uint64_t used) {
  elsewhere_[path] = used;
  while (elsewhere_.size() > static_cast<size_t>(knobs_.n_elsewhere)) elsewhere_.erase(oldest_elsewhere());
}

inline std::string Twin::oldest_elsewhere() {
  const std::string* oldest = nullptr;
  for (const auto& [path, used] : elsewhere_) {
    const auto next = elsewhere_.upper_bound(path);
    const bool leaf = next == elsewhere_.end() || !next->first.starts_with(path);
    if (leaf && (oldest == nullptr || used < elsewhere_[*oldest])) oldest = &path;
  }
  ++n_forgotten;
  return oldest == nullptr ? "" : *oldest;
}

// What is elsewhere behind what `seq` has, as far as it goes; `loading`: the first is on its way.
inline std::vector<std::string> Twin::expected_missing(const Seq& seq, bool& loading) const {
  const int most = cache_->max_fetch(seq.prefix());
  std::vector<std::string> out;
  loading = false;
  for (int b = 1; b <= most; ++b) {
    const std::string path = seq.path(b, knobs_.block_tokens);
    if (known_.contains(path)) continue;
    loading = loading_.contains(path);
    if (!elsewhere_.contains(path)) break;
    out.push_back(path);
  }
  return out;
}

// Of a sequence that has what match found.
inline void Twin::fetch(const Seq& seq) {
  const int n_free = cache_->n_free_blocks(), n_cached = cache_->n_cached_blocks();
  bool loading = false;
  std::vector<std::string> missing = expected_missing(seq, loading);
  const auto n = static_cast<int>(missing.size());
  Run run;
  const KvCache::Below found = cache_->fetch(seq.kv, seq.prefix(), cache_->max_fetch(seq.prefix()), run.fetch);
  n_waits += found == KvCache::Below::loading ? 1 : 0;
  if (exact()) {
    ASSERT_EQ(found == KvCache::Below::loading, loading);
    ASSERT_EQ(found == KvCache::Below::no_room, n > n_free + n_cached);
    if (n > n_free && n <= n_free + n_cached) {
      evict_in_model(n - n_free);
      missing = expected_missing(seq, loading);
    }
    if (n <= n_free + n_cached) {
      ASSERT_EQ(run.fetch.n_blocks(), missing.size());
    }
  }
  if (found != KvCache::Below::begun) return;
  const std::vector<Hash128> names = cache_->names(seq.prefix());
  const auto begin = static_cast<size_t>(std::find(names.begin(), names.end(), run.fetch.name(0)) - names.begin());
  ASSERT_GE(begin, seq.paths.size());
  for (size_t i = 0; i < run.fetch.n_blocks(); ++i) {
    ASSERT_EQ(run.fetch.name(i), names[begin + i]);
    if (exact()) loading_[missing[i]] = elsewhere_.extract(missing[i]).mapped();
  }
  missing.resize(run.fetch.n_blocks());
  run.before = seq.paths;
  run.before.resize(begin, "between");
  run.paths = missing;
  runs_.push_back(std::move(run));
  check();
}

inline void Twin::arrive(Run& run) {
  const std::string path = run.paths[run.fetch.n_arrived()];
  tier_.deliver(run.fetch, cache_->view());
  const bool is_found = cache_->indexed(run.fetch.blocks(run.fetch.n_arrived())[0].id());
  if (is_found) tier_.told.insert(run.fetch.name(run.fetch.n_arrived()));
  run.fetch.arrived();
  ++n_arrived;
  if (exact() && !path.empty()) known_[path] = loading_.extract(path).mapped();
}

inline void Twin::lose(Run& run) {
  const std::string path = run.paths[run.fetch.n_arrived()];
  for (size_t i = run.fetch.n_arrived(); i < run.paths.size(); ++i) run.paths[i].clear();
  run.fetch.lost();
  ++n_lost;
  if (!exact() || path.empty()) return;
  std::erase_if(loading_, [&](const auto& entry) { return entry.first.starts_with(path); });
  std::erase_if(elsewhere_, [&](const auto& entry) { return entry.first.starts_with(path); });
}

// The rest of what loads, from block i of a run on, is elsewhere again.
inline void Twin::back(Run& run, size_t i) {
  for (size_t j = run.paths.size(); j > i; --j) {
    const std::string path = std::exchange(run.paths[j - 1], "");
    if (exact() && !path.empty()) goes_elsewhere(path, loading_.extract(path).mapped());
  }
}

inline void Twin::give_up(Run& run) {
  back(run, run.fetch.n_arrived());
  std::swap(run, runs_.back());
  runs_.pop_back();
  ++n_given_up;
}

// Somebody has computed what was on its way.
inline void Twin::overtake(const std::string& path) {
  if (!loading_.contains(path)) return;
  for (Run& run : runs_) {
    const auto at = std::find(run.paths.begin(), run.paths.end(), path);
    if (at != run.paths.end()) back(run, static_cast<size_t>(at - run.paths.begin()));
  }
  ++n_overtaken;
}

inline void Twin::extend(Seq& seq) {
  if (!seq.fresh) return;
  const size_t n_had = seq.paths.size();
  const int found = cache_->extend(seq.kv, seq.prefix());
  const int n_found = found / knobs_.block_tokens;
  if (exact()) {
    ASSERT_EQ(n_found, expected_hit(seq));
    touch(seq, n_found);
  }
  for (size_t b = n_had; b < static_cast<size_t>(n_found); ++b) {
    seq.paths.push_back(seq.path(static_cast<int>(b) + 1, knobs_.block_tokens));
  }
  seq.first_held = std::max(seq.first_held, std::min(first_block(found), static_cast<size_t>(n_found)));
  seq.n_computed = found;
}

inline void Twin::learn(const Seq& seq) {
  const int begin = cache_->peek(seq.prefix()) / knobs_.block_tokens;
  const std::vector<uint8_t> groups =
      tier_.groups_of(seq.prefix(), cache_->names(seq.prefix()), static_cast<size_t>(begin), knobs_.block_tokens);
  const int n = cache_->learn(seq.prefix(), begin, groups);
  n_learned += n;
  if (!exact()) return;
  const int end = begin + static_cast<int>(groups.size());
  int b = 0;
  for (; b < end; ++b) {
    const std::string path = seq.path(b + 1, knobs_.block_tokens);
    if (known_.contains(path) || loading_.contains(path) || elsewhere_.contains(path)) continue;
    if (elsewhere_.size() == static_cast<size_t>(knobs_.n_elsewhere)) {
      const std::string oldest = oldest_elsewhere();
      if (oldest == seq.path(b, knobs_.block_tokens)) break;
      elsewhere_.erase(oldest);
    }
    elsewhere_[path] = ++clock_;
  }
  ASSERT_EQ(n, std::max(b - begin, 0));
  for (; b > 0; --b) {
    const std::string path = seq.path(b, knobs_.block_tokens);
    for (auto* states : {&known_, &loading_, &elsewhere_}) {
      if (states->contains(path)) (*states)[path] = ++clock_;
    }
  }
}
}  // namespace quire
