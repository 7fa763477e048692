// For tests: a tier below memory that keeps blocks, or does not, by chance, and believes no name that spells something
// else. In memory itself, without a clock; or through the disk tier's segments, on a disk that is in memory, and then
// what it brings comes out of these.
#pragma once
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "base/rng.h"
#include "kv/kv_cache.h"
#include "kv/tiers/segment_store.h"
#include "kv/tiers/test_folder.h"

namespace quire {

// Blocks of a run that are on their way, and not computed meanwhile.
inline int64_t n_loading(const KvCache& cache, const Fetch& run) {
  int64_t n = 0;
  for (size_t i = run.n_arrived(); i < run.n_blocks(); ++i) n += cache.indexed(run.blocks(i)[0].id()) ? 1 : 0;
  return n;
}

class TestTier {
 public:
  struct Stored {
    CacheKey key;
    Hash128 parent;
    std::vector<Token> tokens;
    std::vector<Extra> extras;
    std::vector<std::vector<std::byte>> bytes;  // by group; empty: had none
    uint8_t groups() const {
      uint8_t out = 0;
      for (size_t g = 0; g < bytes.size(); ++g) out = static_cast<uint8_t>(out | (bytes[g].empty() ? 0U : 1U << g));
      return out;
    }
  };

  TestTier(uint64_t seed, bool keeps) : rng_(seed), keeps_(keeps) {}

  // Before the first block. A process that ends and another that begins in between change nothing.
  void use_segments(const StoreShape& shape) {
    shape_ = shape;
    open_segments();
  }
  void open_segments() {
    segments_ = nullptr;
    auto opened = SegmentStore::open(std::make_unique<TestFolder>(disk_), {shape_, int64_t{1} << 30, 1 << 12});
    QR_CHECK(opened.has_value());
    segments_ = std::move(*opened);
  }

  // For KvCacheOptions::keep.
  bool keep(const LeavingBlock& block, const KvView& memory) {
    if (!keeps_) return false;
    decisions.push_back(rng_.between(0, 3) > 0);
    if (!decisions.back()) return false;
    Stored& out = stored[block.name];
    out = {block.key, block.parent, {block.tokens.begin(), block.tokens.end()}, {}, {}};
    out.extras.assign(block.extras.begin(), block.extras.end());
    for (size_t g = 0; g < block.blocks.size(); ++g) {
      out.bytes.emplace_back();
      if (!block.blocks[g]) continue;
      const std::byte* from = memory.groups[g].base + block.blocks[g].id() * memory.groups[g].block_bytes;
      out.bytes.back().assign(from, from + memory.groups[g].block_bytes);
    }
    if (segments_ != nullptr) {
      SegmentStore::Block whole{spelling_of(block.name, out), {out.groups(), {}}};
      for (const auto& bytes : out.bytes) whole.block.bytes.insert(whole.block.bytes.end(), bytes.begin(), bytes.end());
      QR_CHECK(segments_->append({whole}).has_value());
    }
    return true;
  }
  // Puts the bytes of the run's next block in their place.
  void deliver(const Fetch& run, const KvView& memory) {
    Stored& from = stored.at(run.name(run.n_arrived()));
    if (segments_ != nullptr) read_segments(run.name(run.n_arrived()), from);
    const GroupBlocks& to = run.blocks(run.n_arrived());
    for (size_t g = 0; g < to.size(); ++g) {
      if (!to[g]) continue;
      std::memcpy(memory.groups[g].base + to[g].id() * memory.groups[g].block_bytes, from.bytes[g].data(),
                  from.bytes[g].size());
    }
  }
  // Of which groups it has the blocks [begin, …) of this prefix, as far as they follow one another.
  std::vector<uint8_t> groups_of(const Prefix& prefix,
                                 const std::vector<Hash128>& names,
                                 size_t begin,
                                 int block_tokens) const {
    std::vector<uint8_t> out;
    const PrefixBlocks blocks{prefix, block_tokens};
    for (size_t b = begin; b < names.size(); ++b) {
      const auto at = stored.find(names[b]);
      if (at == stored.end()) break;
      const Stored& found = at->second;
      const auto tokens = blocks.tokens(static_cast<int>(b));
      const bool same = found.parent == (b == 0 ? Hash128{} : names[b - 1]) &&
                        found.key == blocks.key(static_cast<int>(b)) && std::ranges::equal(found.tokens, tokens) &&
                        found.extras == blocks.extras(static_cast<int>(b));
      if (!same) break;
      out.push_back(found.groups());
    }
    return out;
  }

  std::set<Hash128> told;  // blocks in memory, as they were told of
  std::map<Hash128, Stored> stored;
  std::deque<bool> decisions;  // what keep said, in order; whoever checks them takes them out

 private:
  static Spelling spelling_of(const Hash128& name, const Stored& block) {
    return {name, block.parent, block.key, block.tokens, block.extras};
  }
  // What the segments have of it, in place of what is remembered.
  void read_segments(const Hash128& name, Stored& block) {
    const SegmentStore::Read read = segments_->read(spelling_of(name, block));
    QR_CHECK(read.outcome == SegmentStore::Read::Outcome::found && (block.groups() & ~read.block.groups) == 0);
    const std::byte* from = read.block.bytes.data();
    for (size_t g = 0; g < block.bytes.size(); ++g) {
      if ((read.block.groups >> g & 1U) == 0) continue;
      const auto n = static_cast<size_t>(shape_.group_bytes[g]);
      block.bytes[g].assign(from, from + n);
      from += n;
    }
  }

  Rng rng_;
  const bool keeps_;
  TestDisk disk_;
  StoreShape shape_;
  std::unique_ptr<SegmentStore> segments_;  // null: in memory alone
};

}  // namespace quire
