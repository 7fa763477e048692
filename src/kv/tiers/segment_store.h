// Blocks in append-only files. What append() has said yes to is safe: it is there after any crash. The index lives in
// memory and is rebuilt by reading the records' heads at the start; a record is believed when its checksums and all
// that it spells are right, so that a wrong or damaged one is a miss. A process never writes to a segment of another;
// the oldest go, whole, when there is no more room, but for what is to stay for longer and what was read since it was
// written, which moves to the newest. One thread appends at a time; everything else may be called by any. Source:
// log-structured stores (Rosenblum and Ousterhout 1991).
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/tiers/segment_format.h"
#include "kv/tiers/stored_wishes.h"
#include "kv/tiers/tier_folder.h"

namespace quire {

struct StoreOptions {
  StoreShape shape;
  int64_t most_bytes = 0;                  // of all segments; at least least_store_bytes()
  int64_t segment_bytes = 0;               // of one; 0: a 64th of all, at least a MiB or a quarter of all
  int64_t most_blocks = int64_t{1} << 21;  // stored in all segments; at least 64
  int64_t retain_bytes = 0;                // of blocks that are to stay for longer, a quarter of most_blocks at most;
                                           // of one tenant half of it
};

// What the index takes of memory for one that is stored, at most.
inline constexpr int64_t kIndexedBytes = 192;

// With less there would be no room for anything.
int64_t least_store_bytes(const StoreShape& shape);

class SegmentStore {
 public:
  struct Block {
    Spelling spelling;
    TierBlock block;
  };
  struct Read {
    enum class Outcome : uint8_t { found, none, damaged, other, failed } outcome = Outcome::none;
    TierBlock block;
  };
  struct Counts {
    int64_t n_blocks = 0, n_stored = 0, bytes = 0, n_written = 0, written_bytes = 0;
    int64_t n_dropped_segments = 0, n_moved = 0, n_skipped_segments = 0;
    int64_t retained_bytes = 0, most_retained_bytes = 0;
  };

  // Reads what is there, the newest first, as far as the options allow. Older segments, those of another model or
  // version and those that are damaged stay as they are, count and are the first to go. Code::invalid for numbers that
  // cannot be, Code::io where the folder cannot be read.
  static Result<std::unique_ptr<SegmentStore>> open(std::unique_ptr<TierFolder> folder, const StoreOptions& options);

  // Stores them and returns when they are safe; those that are there already are skipped. After a failure some may be
  // there, nothing is promised of them, and the next append begins a new segment.
  Status append(std::vector<Block> blocks);
  // As Tier::retain.
  int retain(std::span<const NamedWish> wishes, int64_t now_ns);
  // By which wishes are over.
  void tell_time(int64_t now_ns);
  uint8_t find(const Hash128& name) const;
  // The block of that name if it spells this. What cannot be read or is damaged is forgotten.
  Read read(const Spelling& wanted);
  Counts counts() const;

 private:
  struct Segment {
    uint64_t number = 0;
    std::string name;
    std::shared_ptr<TierFile> file;  // null: it is not ours
    int64_t bytes = 0;
    std::vector<Hash128> blocks;  // that were stored in it; some may be elsewhere by now
  };
  struct Place {
    uint64_t segment = 0;
    int64_t offset = 0, head_bytes = 0, payload_bytes = 0;
    uint8_t groups = 0;
    bool used = false;  // read since it was written there
    bool operator==(const Place&) const = default;
  };
  struct HashOfName {
    uint64_t seed;
    size_t operator()(const Hash128& name) const;
  };

  SegmentStore(std::unique_ptr<TierFolder> folder, const StoreOptions& options);
  Status read_folder();
  Status scan(Segment& segment);
  Result<RecordHead> read_head(const Segment& segment, int64_t offset, int64_t most_bytes) const;
  void learn(Segment& segment, int64_t offset, const RecordHead& head);
  Status append_all(std::vector<Block> blocks);
  Status write(const Block& block);
  bool is_full(const Segment& current, int64_t bytes) const;
  Status ready_for(int64_t bytes, std::vector<Block>& moved);
  Status begin_segment();
  std::vector<Place> moving_of(const Segment& oldest) const;
  std::vector<Block> blocks_of(const Segment& oldest) const;
  Status drop_oldest(std::vector<Block>& moved);
  Status finish();
  Read read_at(const Place& place, const TierFile& file, const Spelling& wanted) const;

  const std::unique_ptr<TierFolder> folder_;
  const StoreOptions options_;

  // Of who appends.
  Segment* current_ = nullptr;  // null: the next append begins one
  uint64_t last_number_ = 0;
  bool new_file_ = false;  // not yet safe in the folder
  std::vector<std::pair<Hash128, Place>> pending_;

  mutable std::mutex mutex_;              // of what follows
  std::map<uint64_t, Segment> segments_;  // by number, so by age
  std::unordered_map<Hash128, Place, HashOfName> index_;
  Counts counts_;
  StoredWishes wishes_;
  int64_t now_ns_ = 0;
};

}  // namespace quire
