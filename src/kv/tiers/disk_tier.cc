#include "kv/tiers/disk_tier.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "kv/tiers/tier_copy.h"
#include "kv/tiers/tier_log.h"

namespace quire {
namespace {

constexpr int64_t kLongestPauseNs = 60'000'000'000;

}  // namespace

Result<std::unique_ptr<DiskTier>> DiskTier::open(const std::string& path,
                                                 const DiskTierOptions& options,
                                                 Clock& clock) {
  QR_TRY(std::unique_ptr<TierFolder> folder, open_tier_folder(path));
  return open(std::move(folder), options, clock);
}

Result<std::unique_ptr<DiskTier>> DiskTier::open(std::unique_ptr<TierFolder> folder,
                                                 const DiskTierOptions& options,
                                                 Clock& clock) {
  QR_TRY(std::unique_ptr<SegmentStore> store, SegmentStore::open(std::move(folder), options.store));
  return std::unique_ptr<DiskTier>(new DiskTier(std::move(store), options, clock));
}

DiskTier::DiskTier(std::unique_ptr<SegmentStore> store, const DiskTierOptions& options, Clock& clock)
    : options_(options),
      clock_(clock),
      store_(std::move(store)),
      room_(std::make_shared<StagingRoom>(options.staging_bytes)) {
  writer_ = std::thread([this] {
    set_thread_name("qr-tier-write");
    write_all();
  });
  for (int i = 0; i < kReaders; ++i) {
    readers_.emplace_back([this] {
      set_thread_name("qr-tier-read");
      read_all();
    });
  }
}

void DiskTier::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  to_write_.notify_all();
  to_read_.notify_all();
  room_->wake();
  if (writer_.joinable()) writer_.join();
  for (std::thread& reader : readers_) {
    if (reader.joinable()) reader.join();
  }
}

// --- writing ---

// Of what is not in the store. REQUIRES mutex_.
TierWish DiskTier::wish_for(const Hash128& name, int64_t bytes, int64_t now_ns) {
  if (queued_.contains(name)) return TierWish::has;
  const bool has_room = queued_bytes_ + bytes <= options_.queue_bytes || queue_.empty();
  if (has_room && !stopping_ && now_ns >= off_until_ns_) return TierWish::wants;
  ++counts_.n_refused;
  return TierWish::refuses;
}

TierWish DiskTier::wish(const LeavingBlock& block) {
  const int64_t begin_ns = clock_.now_ns();
  const uint8_t groups = groups_of(block.blocks), has = store_->find(block.name);
  TierWish out = TierWish::has;
  if ((has | groups) != has) {
    const std::lock_guard lock(mutex_);
    out = block.extras.size() <= kMostExtras ? wish_for(block.name, options_.store.shape.bytes_of(groups), begin_ns)
                                             : TierWish::refuses;
  }
  engine_ns_ += std::max<int64_t>(clock_.now_ns() - begin_ns, 0);
  return out;
}

bool DiskTier::take(const Spelling& block, TierBlock bytes) {
  const int64_t begin_ns = clock_.now_ns(), n_bytes = std::ssize(bytes.bytes);
  const std::lock_guard lock(mutex_);
  TierWish wish = wish_for(block.name, n_bytes, begin_ns);
  try {
    if (wish == TierWish::wants) {
      Block copy{block, std::move(bytes)};
      if (queue_.size() == queue_.capacity()) queue_.reserve(2 * queue_.size() + 1);  // so that all or nothing is done
      names_.reserve(queue_.capacity());
      queued_.insert(block.name);
      names_.push_back(block.name);
      queue_.push_back(std::move(copy));
      queued_bytes_ += n_bytes;
      to_write_.notify_one();
    }
  } catch (const std::bad_alloc&) {
    ++counts_.n_refused;
    wish = TierWish::refuses;
  }
  engine_ns_ += std::max<int64_t>(clock_.now_ns() - begin_ns, 0);
  return wish != TierWish::refuses;
}

void DiskTier::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    to_write_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::vector<Block> blocks = std::exchange(queue_, {});
    const std::vector<Hash128> names = std::exchange(names_, {});
    busy_writing_ = true;
    lock.unlock();
    write(std::move(blocks), names);
    lock.lock();
    busy_writing_ = false;
    written_.notify_all();
  }
}

void DiskTier::write(std::vector<Block> blocks, const std::vector<Hash128>& names) {
  int64_t bytes = 0;
  for (const Block& block : blocks) bytes += std::ssize(block.block.bytes);
  store_->tell_time(clock_.now_ns());
  const Status done = store_->append(std::move(blocks));
  const std::lock_guard lock(mutex_);
  for (const Hash128& name : names) queued_.erase(name);
  queued_bytes_ -= bytes;
  if (done) {
    if (std::exchange(writing_off_, false)) say(LogLevel::info, "the disk tier takes blocks again");
    pause_ns_ = 0;
    return;
  }
  ++counts_.n_write_errors;
  pause_ns_ = pause_ns_ == 0 ? options_.retry_ns : std::min(2 * pause_ns_, kLongestPauseNs);
  off_until_ns_ = clock_.now_ns() + pause_ns_;
  if (std::exchange(writing_off_, true)) return;
  say(LogLevel::warn, "the disk tier takes no blocks for now, and requests go on without it: ", done.error().message);
}

void DiskTier::wait_until_written() {
  std::unique_lock lock(mutex_);
  written_.wait(lock, [this] { return queue_.empty() && !busy_writing_; });
}

// --- reading ---

void DiskTier::bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) {
  QR_CHECK(begin < end && end <= read->n_blocks());
  {
    const std::lock_guard lock(mutex_);
    jobs_.add(read, begin, end);
  }
  to_read_.notify_all();
}

// Room comes before the next block: were it the other way round, later blocks could fill the room that an earlier one
// waits for.
void DiskTier::read_all() {
  std::shared_ptr<TierRead> read;
  size_t i = 0;
  while (true) {
    room_->wait([this] { return stopping_.load(); });
    if (!next_block(read, i)) return;
    bring_block(*read, i);
    if (on_arrival_) on_arrival_();
    read = nullptr;
  }
}

// False: it is over.
bool DiskTier::next_block(std::shared_ptr<TierRead>& read, size_t& i) {
  std::unique_lock lock(mutex_);
  while (true) {
    to_read_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return false;
    if (jobs_.next(read, i)) return true;
  }
}

void DiskTier::bring_block(TierRead& read, size_t i) {
  using Outcome = SegmentStore::Read::Outcome;
  const int64_t begin_ns = clock_.now_ns();
  {
    const std::lock_guard lock(mutex_);
    times_.begin(begin_ns);
  }
  SegmentStore::Read got{Outcome::failed, {}};
  try {
    got = store_->read(read.wanted(i));
  } catch (const std::bad_alloc&) {
    got.outcome = Outcome::failed;
  }
  const auto bytes = std::ssize(got.block.bytes);
  got.outcome == Outcome::found ? read.give(i, std::move(got.block), room_) : read.lose(i);
  const int64_t now_ns = clock_.now_ns();
  const bool measured = got.outcome != Outcome::none;
  const std::lock_guard lock(mutex_);
  times_.end(begin_ns, now_ns, measured);
  counts_.n_damaged += got.outcome == Outcome::damaged ? 1 : 0;
  counts_.n_other += got.outcome == Outcome::other ? 1 : 0;
  if (got.outcome == Outcome::failed && counts_.n_read_errors++ == 0)
    say(LogLevel::warn,
        "the disk tier could not read a block; it is computed again, and so are others that cannot be read");
  if (!measured) return;
  counts_.n_read += bytes > 0 ? 1 : 0;
  counts_.read_bytes += bytes;
  counts_.read_ns += std::max<int64_t>(now_ns - begin_ns, 0);
}

int64_t DiskTier::predict_ns(int64_t n_blocks) {
  if (n_blocks == 0) return 0;  // it is never asked
  const std::lock_guard lock(mutex_);
  return times_.predict_ns(n_blocks + jobs_.n_blocks() + times_.n_running(), kReaders, clock_.now_ns());
}

TierStats DiskTier::stats() const {
  const SegmentStore::Counts store = store_->counts();
  const std::lock_guard lock(mutex_);
  TierStats out = counts_;
  out.place = TierPlace::disk;
  out.n_blocks = store.n_blocks;
  out.bytes = store.bytes;
  out.most_bytes = options_.store.most_bytes;
  out.n_written = store.n_written;
  out.written_bytes = store.written_bytes;
  out.n_dropped_segments = store.n_dropped_segments;
  out.n_moved = store.n_moved;
  out.retained_bytes = store.retained_bytes;
  out.most_retained_bytes = store.most_retained_bytes;
  out.n_skipped_segments = store.n_skipped_segments;
  out.engine_ns = engine_ns_;
  out.writing = !writing_off_;
  return out;
}

}  // namespace quire
