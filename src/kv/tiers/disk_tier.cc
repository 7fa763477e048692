#include "kv/tiers/disk_tier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"

namespace quire {
namespace {

constexpr int kReaders = 2;
constexpr int64_t kLongestPauseNs = 60'000'000'000;
constexpr double kNewest = 1.0 / 8;            // share of the newest measurement in the mean
constexpr double kHalfLifeNs = 8'000'000'000;  // of what was measured: a disk that was slow is tried again

// Copies what there is of the block, group by group.
TierBlock copy_of(const LeavingBlock& block, const KvView& memory) {
  TierBlock out;
  int64_t bytes = 0;
  for (size_t g = 0; g < block.blocks.size(); ++g) bytes += block.blocks[g] ? memory.groups[g].block_bytes : 0;
  out.bytes.resize(static_cast<size_t>(bytes));
  std::byte* to = out.bytes.data();
  for (size_t g = 0; g < block.blocks.size(); ++g) {
    if (!block.blocks[g]) continue;
    const KvGroupView& group = memory.groups[g];
    const auto n = static_cast<size_t>(group.block_bytes);
    out.groups = static_cast<uint8_t>(out.groups | 1U << g);
    if (n > 0) std::memcpy(to, group.base + block.blocks[g].id() * group.block_bytes, n);
    to += n;
  }
  return out;
}

// Where there is no memory for a line there is none.
void say(LogLevel level, std::string_view what, std::string_view why = {}) noexcept {
  try {
    log(level, std::string(what).append(why));
  } catch (const std::bad_alloc&) {
  }
}

uint8_t groups_of(const GroupBlocks& blocks) {
  uint8_t out = 0;
  for (size_t g = 0; g < blocks.size(); ++g) out = static_cast<uint8_t>(out | (blocks[g] ? 1U << g : 0U));
  return out;
}

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
  reading_since_ns_.reserve(kReaders);
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

// Without memory for a copy it is refused.
bool DiskTier::offer(const LeavingBlock& block, const KvView& memory) {
  try {
    return take(block, memory);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    ++counts_.n_refused;
    return false;
  }
}

bool DiskTier::take(const LeavingBlock& block, const KvView& memory) {
  const int64_t begin_ns = clock_.now_ns();
  const uint8_t groups = groups_of(block.blocks), has = store_->find(block.name);
  bool taken = (has | groups) == has;
  if (!taken && block.extras.size() <= kMostExtras) {
    const int64_t bytes = options_.store.shape.bytes_of(groups);
    std::unique_lock lock(mutex_);
    taken = queued_.contains(block.name);
    const bool room = queued_bytes_ + bytes <= options_.queue_bytes || queue_.empty();
    if (!taken && room && !stopping_ && begin_ns >= off_until_ns_) {
      lock.unlock();
      Block copy{{block.name, block.parent, block.key, {}, {}}, copy_of(block, memory)};
      copy.spelling.tokens.assign(block.tokens.begin(), block.tokens.end());
      copy.spelling.extras.assign(block.extras.begin(), block.extras.end());
      lock.lock();
      if (queue_.size() == queue_.capacity()) queue_.reserve(2 * queue_.size() + 1);  // so that all or nothing is done
      names_.reserve(queue_.capacity());
      queued_.insert(block.name);
      names_.push_back(block.name);
      queue_.push_back(std::move(copy));
      queued_bytes_ += bytes;
      taken = true;
      to_write_.notify_one();
    } else if (!taken) {
      ++counts_.n_refused;
    }
  }
  engine_ns_ += std::max<int64_t>(clock_.now_ns() - begin_ns, 0);
  return taken;
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

std::shared_ptr<TierRead> DiskTier::read(std::vector<Spelling> wanted) {
  QR_CHECK(!wanted.empty());
  auto out = std::make_shared<TierRead>(std::move(wanted), room_);
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({out, 0});
  }
  to_read_.notify_all();
  return out;
}

// Room comes before the next block: were it the other way round, later blocks could fill the room that an earlier one
// waits for.
void DiskTier::read_all() {
  std::shared_ptr<TierRead> read;
  size_t i = 0;
  while (true) {
    room_->wait([this] { return stopping_.load(); });
    if (!next_block(read, i)) return;
    bring(*read, i);
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
    Job& job = jobs_.front();
    const bool wanted = !job.read->abandoned();
    if (wanted) {
      read = job.read;
      i = job.next++;
    }
    if (!wanted || job.next == job.read->n_blocks()) jobs_.pop_front();
    if (wanted) return true;
  }
}

void DiskTier::bring(TierRead& read, size_t i) {
  using Outcome = SegmentStore::Read::Outcome;
  const int64_t begin_ns = clock_.now_ns();
  {
    const std::lock_guard lock(mutex_);
    reading_since_ns_.push_back(begin_ns);
  }
  SegmentStore::Read got{Outcome::failed, {}};
  try {
    got = store_->read(read.wanted(i));
  } catch (const std::bad_alloc&) {
    // It could not be read.
  }
  const auto bytes = std::ssize(got.block.bytes);
  got.outcome == Outcome::found ? read.give(i, std::move(got.block)) : read.lose(i);
  const int64_t ns = std::max<int64_t>(clock_.now_ns() - begin_ns, 0);
  const std::lock_guard lock(mutex_);
  reading_since_ns_.erase(std::find(reading_since_ns_.begin(), reading_since_ns_.end(), begin_ns));
  counts_.n_damaged += got.outcome == Outcome::damaged ? 1 : 0;
  counts_.n_other += got.outcome == Outcome::other ? 1 : 0;
  if (got.outcome == Outcome::failed && counts_.n_read_errors++ == 0)
    say(LogLevel::warn,
        "the disk tier could not read a block; it is computed again, and so are others that cannot be read");
  if (got.outcome != Outcome::none) observe(ns, bytes);
}

void DiskTier::observe(int64_t ns, int64_t bytes) {
  counts_.n_read += bytes > 0 ? 1 : 0;
  counts_.read_bytes += bytes;
  counts_.read_ns += ns;
  const auto took = static_cast<double>(ns);
  mean_read_ns_ = mean_read_ns_ == 0 ? took : mean_read_ns_ + (took - mean_read_ns_) * kNewest;
  read_at_ns_ = clock_.now_ns();
}

int64_t DiskTier::predict_ns(int64_t n_blocks) {
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.now_ns();
  for (const Job& job : jobs_) n_blocks += static_cast<int64_t>(job.read->n_blocks() - job.next);
  n_blocks += std::ssize(reading_since_ns_);
  const auto age_ns = static_cast<double>(std::max<int64_t>(now_ns - read_at_ns_, 0));
  double out = mean_read_ns_ * std::exp2(-age_ns / kHalfLifeNs) * static_cast<double>(n_blocks) / kReaders;
  int64_t longest_ns = 0;  // what has taken so long will take as long again
  for (const int64_t since_ns : reading_since_ns_) longest_ns = std::max(longest_ns, now_ns - since_ns);
  if (static_cast<double>(longest_ns) > 2 * mean_read_ns_) out += static_cast<double>(longest_ns);
  return static_cast<int64_t>(out);
}

TierStats DiskTier::stats() const {
  const SegmentStore::Counts store = store_->counts();
  const std::lock_guard lock(mutex_);
  TierStats out = counts_;
  out.n_blocks = store.n_blocks;
  out.bytes = store.bytes;
  out.most_bytes = options_.store.most_bytes;
  out.n_written = store.n_written;
  out.written_bytes = store.written_bytes;
  out.n_dropped_segments = store.n_dropped_segments;
  out.n_moved = store.n_moved;
  out.n_skipped_segments = store.n_skipped_segments;
  out.engine_ns = engine_ns_;
  out.writing = !writing_off_;
  return out;
}

}  // namespace quire
