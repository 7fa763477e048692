// The seam below memory: what keeps blocks that leave memory, or that may be wanted after the process has ended. A tier
// is told of blocks as they are computed and as they leave, says by name what it has, and brings runs of blocks back.
// It decides nothing: whether a run is worth waiting for is the engine's. Nothing of it can change an answer: what a
// tier cannot bring, or brings too late, is computed. The engine's thread calls it, and is never kept waiting: what a
// tier does not know by itself it is asked, and answers later. Several tiers are a TierChain.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "kv/prefix_tree.h"
#include "tensor/kv_view.h"

namespace quire {

// Where a tier lies, the nearest first.
enum class TierPlace : uint8_t { disk, remote };
inline constexpr size_t kTierPlaces = 2;
std::string_view name_of(TierPlace place);
using TokensByTier = std::array<int, kTierPlaces>;

// What a block stands for: its name, and everything that the name was made of. A tier compares it before it believes a
// name.
struct Spelling {
  Hash128 name;    // the same in every process
  Hash128 parent;  // the name of the block before it; zeros: there is none
  CacheKey key;
  std::vector<Token> tokens;
  std::vector<Extra> extras;
  bool operator==(const Spelling&) const = default;
};

// A block as it lies in a tier.
struct TierBlock {
  uint8_t groups = 0;            // bit g: the bytes of KV group g are among these
  std::vector<std::byte> bytes;  // of the groups that it has, one behind the other
};

// Bytes that were read and that nobody has taken yet, of one tier: who reads waits for room. Any thread.
class StagingRoom {
 public:
  explicit StagingRoom(int64_t most_bytes) : most_(most_bytes) {}
  void take(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ += bytes;
  }
  void give_back(int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      used_ -= bytes;
    }
    changed_.notify_all();
  }
  // Until there is room, or `over` says that nobody needs it. wake() asks `over` again.
  void wait(const std::function<bool()>& over) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return used_ < most_ || over(); });
  }
  void wake() {
    {
      const std::lock_guard lock(mutex_);
    }
    changed_.notify_all();
  }

 private:
  const int64_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t used_ = 0;
};

// A run of blocks on its way: the tier puts them in, the engine takes them out, each in order. Both hold it; the engine
// lets go of one that it does not want any more. Any thread.
class TierRead {
 public:
  explicit TierRead(std::vector<Spelling> wanted) : wanted_(std::move(wanted)), slots_(wanted_.size()) {}
  ~TierRead();
  TierRead(const TierRead&) = delete;
  TierRead& operator=(const TierRead&) = delete;

  enum class State : uint8_t { coming, here, missing };

  size_t n_blocks() const { return wanted_.size(); }
  const Spelling& wanted(size_t i) const { return wanted_[i]; }

  // The tier: block i is this, or cannot be had. Its bytes take that room, which may be null, until they are taken.
  void give(size_t i, TierBlock block, const std::shared_ptr<StagingRoom>& room);
  void lose(size_t i);
  // The engine: what has become of block i; `out` is filled when it is here, once.
  State take(size_t i, TierBlock& out);
  void abandon();
  bool abandoned() const { return abandoned_; }

 private:
  struct Slot {
    State state = State::coming;
    TierBlock block;
    std::shared_ptr<StagingRoom> room;
  };
  static void leave_room(Slot& slot, size_t n_bytes);

  const std::vector<Spelling> wanted_;
  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::atomic<bool> abandoned_{false};
};

// What a tier says of a path's names, when it has found out: of which groups it has their blocks, up to the first that
// it has not. Who asked lets go of an answer that nobody waits for any more. Any thread.
class TierAnswer {
 public:
  explicit TierAnswer(std::vector<Hash128> names) : names_(std::move(names)) {}

  std::span<const Hash128> names() const { return names_; }
  // The tier, once.
  void tell(std::vector<uint8_t> groups) {
    const std::lock_guard lock(mutex_);
    groups_ = std::move(groups);
    told_ = true;
  }
  bool told() const { return told_; }
  // Of block i; 0: it has it not, or has not told yet.
  uint8_t groups(size_t i) const {
    const std::lock_guard lock(mutex_);
    return i < groups_.size() ? groups_[i] : uint8_t{0};
  }
  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

 private:
  const std::vector<Hash128> names_;
  mutable std::mutex mutex_;
  std::vector<uint8_t> groups_;
  std::atomic<bool> told_{false}, abandoned_{false};
};

struct TierStats {
  TierPlace place = TierPlace::disk;
  int64_t n_blocks = 0, bytes = 0, most_bytes = 0;      // that it has now, and may have
  int64_t n_written = 0, written_bytes = 0;             // blocks that were stored, and are safe
  int64_t n_read = 0, read_bytes = 0, read_ns = 0;      // blocks that were brought, and how long each took, in sum
  int64_t n_refused = 0;                                // blocks that it did not take: more came than it could write
  int64_t n_damaged = 0, n_other = 0;                   // found to be damaged; under their name was something else
  int64_t n_read_errors = 0, n_write_errors = 0;        // of the system
  int64_t n_dropped_segments = 0, n_moved = 0;          // oldest ones, for room; blocks saved from them
  int64_t retained_bytes = 0, most_retained_bytes = 0;  // of blocks that are to stay for longer, and may
  int64_t n_skipped_segments = 0;                       // files of another model, version or kind
  int64_t engine_ns = 0;                                // that the engine's thread spent in it
  int64_t n_asked = 0, n_late = 0;                      // paths that it was asked for; of their answers, not in time
  bool up = true;                                       // it can be reached
  bool writing = true;                                  // false: it takes nothing for now, for what it met
};

// What a tier says to a block that it could take.
enum class TierWish : uint8_t { refuses, has, wants };

class Tier {
 public:
  virtual ~Tier() = default;

  virtual TierPlace place() const = 0;
  // has: it has the block, or will. refuses: it does not want it now.
  virtual TierWish wish(const LeavingBlock& block) = 0;
  // A block that it wanted, some time ago maybe. False: it does not want it any more, or has no memory for it.
  virtual bool take(const Spelling& block, TierBlock bytes) = 0;
  // Of which groups it has the block of that name, as bits; 0: it has it not, as far as it knows. What is said of names
  // alone.
  virtual uint8_t find(const Hash128& name) = 0;
  // Begins to find out about a path's names. Null: find() says all there is to say.
  virtual std::shared_ptr<TierAnswer> ask(std::vector<Hash128> names) = 0;
  // Begins to bring the blocks [begin, end) of that run, in order. REQUIRES one at least.
  virtual void bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) = 0;
  // How long a path's blocks are to stay, from its first on, as far as limits allow; it need not have them yet. Returns
  // how many it does not keep for a limit.
  virtual int retain(std::span<const NamedWish>, int64_t /*now_ns*/) { return 0; }
  // How long n blocks would take from now on, as measured, and an answer for n = 0; 0: unknown yet.
  virtual int64_t predict_ns(int64_t n_blocks) = 0;
  virtual TierStats stats() const = 0;
  // What is called, on any thread, when something of a run or an answer has come. Before the first of them.
  virtual void on_arrival(std::function<void()> call) = 0;
  // Writes what was taken, and ends: nothing is called any more. Idempotent.
  virtual void stop() = 0;
};

}  // namespace quire
