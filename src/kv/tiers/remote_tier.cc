#include "kv/tiers/remote_tier.h"

#include <array>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/nanoseconds.h"
#include "base/secure_random.h"
#include "base/thread.h"
#include "kv/tiers/remote_format.h"
#include "kv/tiers/tier_copy.h"
#include "kv/tiers/tier_log.h"

namespace quire {
namespace {

constexpr int kStoresAtOnce = 8;
constexpr int64_t kMostValueBytes = int64_t{256} << 20;  // half of what Redis takes
constexpr int64_t kLongestDrainMs = 1'000;

RedisOptions connection(const RemoteTierOptions& options, bool stores) {
  RedisOptions out = options.redis;
  out.stall_ms = options.stall_ms;
  out.retry_ms = options.retry_ms;
  out.most_retry_ms = options.most_retry_ms;
  out.most_pending = size_t{1} << 16;
  out.most_reply_bytes = static_cast<size_t>(most_value_bytes(options.shape)) + kUsualReplyBytes;
  out.name = "the remote tier";
  out.thread_name = stores ? "qr-remote-out" : "qr-remote-in";
  out.quiet = stores;  // one of the two says what befalls both
  return out;
}

int64_t longer(int64_t pause_ns, const RemoteTierOptions& options) {
  return pause_ns == 0 ? options.retry_ms * kNsPerMs : std::min(2 * pause_ns, options.most_retry_ms * kNsPerMs);
}

}  // namespace

// One path's names, batch by batch: few at first, for most paths that are not there end at once.
struct RemoteTier::Asking {
  std::shared_ptr<TierAnswer> answer;
  std::vector<uint8_t> groups;
  size_t begin = 0, end = 0;        // of this batch
  std::atomic<size_t> n_due{0};     // of it
  std::atomic<bool> failed{false};  // late, or lost
  int64_t begin_ns = 0;
};

Result<RemoteTierOptions> parse_remote_tier(const std::string& url,
                                            const std::string& password,
                                            const RedisTlsFiles& files) {
  RemoteTierOptions out;
  QR_TRY(out.redis, parse_redis_url(url, "a remote store"));
  QR_TRY_VOID(read_redis_tls(out.redis, files));
  if (!password.empty()) out.redis.password = password;
  return out;
}

Status check_remote(const RemoteTierOptions& options) {
  const int64_t bytes = most_value_bytes(options.shape);
  if (bytes <= kMostValueBytes) return {};
  return fail(Code::invalid, "a block takes up to " + std::to_string(bytes) + " bytes, the store holds at most " +
                                 std::to_string(kMostValueBytes) + " under one key");
}

RemoteTier::RemoteTier(RemoteTierOptions options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      shape_(hash_of(options_.shape)),
      room_(std::make_shared<StagingRoom>(options_.staging_bytes)),
      known_(options_.n_known, options_.keep_s * kNsPerMs * 500, secure_random_bits()) {
  in_ =
      std::make_unique<RedisClient>(connection(options_, false), RedisClient::Told{[this](bool up) { came(up); },
                                                                                   [this] {
                                                                                     const std::lock_guard lock(mutex_);
                                                                                     ++counts_.n_read_errors;
                                                                                   },
                                                                                   {}});
  out_ = std::make_unique<RedisClient>(connection(options_, true), RedisClient::Told{});
  storer_ = std::thread([this] {
    set_thread_name("qr-tier-store");
    store_all();
  });
  bringer_ = std::thread([this] {
    set_thread_name("qr-tier-bring");
    bring_all();
  });
}

void RemoteTier::stop() {
  if (!storer_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    const auto stored = [this] { return queue_.empty() && n_storing_ == 0; };
    if (out_->up()) done_.wait_for(lock, std::chrono::milliseconds(kLongestDrainMs), stored);
    stopping_ = true;
  }
  to_store_.notify_all();
  to_bring_.notify_all();
  room_->wake();
  storer_.join();
  bringer_.join();
  in_->stop();  // what waits for an answer hears that it is lost
  out_->stop();
}

// A store that went may come back empty.
void RemoteTier::came(bool up) {
  const std::lock_guard lock(mutex_);
  up_ = up;
  quiet_until_ns_ = 0;
  known_.forget_all();
}

uint8_t RemoteTier::find(const Hash128& name) {
  if (!up_) return 0;
  const std::lock_guard lock(mutex_);
  return known_.find(name, clock_.now_ns());
}

// --- what there is ---

std::shared_ptr<TierAnswer> RemoteTier::ask(std::vector<Hash128> names) {
  const int64_t now_ns = clock_.now_ns();
  {
    const std::lock_guard lock(mutex_);
    if (!up_ || stopping_ || now_ns < quiet_until_ns_) return nullptr;
    ++counts_.n_asked;
  }
  auto asking = std::make_shared<Asking>();
  asking->groups.resize(names.size());
  asking->answer = std::make_shared<TierAnswer>(std::move(names));
  asking->end = std::min(asking->groups.size(), kAskAtFirst);
  ask_some(asking);
  return asking->answer;
}

// Those of the batch. Sent by the engine's thread, or by the one on which the batch before was heard.
void RemoteTier::ask_some(const std::shared_ptr<Asking>& asking) {
  const size_t begin = asking->begin, end = asking->end;
  asking->begin_ns = clock_.now_ns();
  asking->n_due = end - begin;
  {
    const std::lock_guard lock(mutex_);
    asks_.begin(asking->begin_ns);
  }
  const std::string last = std::to_string(kRemoteHeadBytes - 1);
  for (size_t i = begin; i < end; ++i) {
    bool sent = false;
    try {
      const std::array<std::string, 4> words{"GETRANGE", remote_key(shape_, asking->answer->names()[i]), "0", last};
      sent = in_->send(
          words, [this, asking, i](const RedisReply& reply) { heard(asking, i, reply); },
          asking->begin_ns + options_.ask_ms * kNsPerMs);
    } catch (const std::bad_alloc&) {
      sent = false;
    }
    if (!sent) heard(asking, i, {RedisReply::Kind::lost, ""});
  }
}

void RemoteTier::heard(const std::shared_ptr<Asking>& asking, size_t i, const RedisReply& reply) {
  using Kind = RedisReply::Kind;
  if (reply.kind == Kind::string) asking->groups[i] = groups_of_head(reply.text, options_.shape);
  if (reply.kind == Kind::late || reply.kind == Kind::lost) asking->failed = true;
  if (--asking->n_due > 0) return;
  const auto from = asking->groups.begin() + static_cast<std::ptrdiff_t>(asking->begin);
  const auto to = asking->groups.begin() + static_cast<std::ptrdiff_t>(asking->end);
  const bool goes_on = std::find(from, to, 0) == to && asking->end < asking->groups.size() && !asking->failed;
  heard_all(*asking, reply.kind == Kind::late);
  if (goes_on && !asking->answer->abandoned() && !stopping_) {
    const size_t n = (asking->end - asking->begin) * kAskGrowth;
    asking->begin = std::exchange(asking->end, std::min(asking->end + n, asking->groups.size()));
    return ask_some(asking);
  }
  asking->groups.erase(std::find(asking->groups.begin(), asking->groups.end(), 0), asking->groups.end());
  asking->answer->tell(std::move(asking->groups));
  arrive();
}

// Of one batch. A store that is late is left alone for a while.
void RemoteTier::heard_all(Asking& asking, bool late) {
  const int64_t now_ns = clock_.now_ns();
  const std::lock_guard lock(mutex_);
  asks_.end(asking.begin_ns, now_ns, !asking.failed);
  if (late) {
    ++counts_.n_late;
    quiet_pause_ns_ = longer(quiet_pause_ns_, options_);
    quiet_until_ns_ = now_ns + quiet_pause_ns_;
  } else if (!asking.failed) {
    quiet_pause_ns_ = 0;
  }
  for (size_t i = asking.begin; i < asking.end && asking.groups[i] != 0; ++i)
    remember(asking.answer->names()[i], asking.groups[i], now_ns);
}

// REQUIRES mutex_. Without memory it is not known, and asked for again.
void RemoteTier::remember(const Hash128& name, uint8_t groups, int64_t now_ns) {
  try {
    known_.put(name, groups, now_ns);
  } catch (const std::bad_alloc&) {
    known_.forget_all();
  }
}

// --- storing ---

TierWish RemoteTier::wish_for(const Hash128& name, uint8_t groups, int64_t bytes) {
  if (groups == 0 || !up_ || stopping_ || !out_->up()) return TierWish::refuses;
  if (const uint8_t has = find(name); (has | groups) == has) return TierWish::has;
  const std::lock_guard lock(mutex_);
  if (queued_.contains(name)) return TierWish::has;
  const bool has_room = queued_bytes_ + bytes <= options_.queue_bytes || queued_.empty();
  if (has_room && clock_.now_ns() >= off_until_ns_) return TierWish::wants;
  ++counts_.n_refused;
  return TierWish::refuses;
}

TierWish RemoteTier::wish(const LeavingBlock& block) {
  const int64_t begin_ns = clock_.now_ns();
  const uint8_t groups = groups_of(block.blocks);
  const TierWish out = block.extras.size() > kMostExtras
                           ? TierWish::refuses
                           : wish_for(block.name, groups, options_.shape.bytes_of(groups));
  engine_ns_ += std::max<int64_t>(clock_.now_ns() - begin_ns, 0);
  return out;
}

bool RemoteTier::take(const Spelling& block, TierBlock bytes) {
  const int64_t begin_ns = clock_.now_ns(), n_bytes = std::ssize(bytes.bytes);
  TierWish wish = wish_for(block.name, bytes.groups, n_bytes);
  try {
    if (wish == TierWish::wants) {
      Block copy{block, std::move(bytes)};
      std::set<Hash128> name{block.name};  // its node: from here on only the queue may lack memory, and comes first
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(copy));
      queued_.merge(name);
      queued_bytes_ += n_bytes;
      to_store_.notify_one();
    }
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    ++counts_.n_refused;
    wish = TierWish::refuses;
  }
  engine_ns_ += std::max<int64_t>(clock_.now_ns() - begin_ns, 0);
  return wish != TierWish::refuses;
}

void RemoteTier::store_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    to_store_.wait(lock, [this] { return stopping_ || (!queue_.empty() && n_storing_ < kStoresAtOnce); });
    if (stopping_) return;
    const Block block = std::move(queue_.front());
    queue_.pop_front();
    ++n_storing_;
    lock.unlock();
    store(block);
    lock.lock();
  }
}

void RemoteTier::store(const Block& block) {
  const int64_t bytes = std::ssize(block.block.bytes);
  const Hash128 name = block.spelling.name;
  const uint8_t groups = block.block.groups;
  bool sent = false;
  try {
    const std::array<std::string, 5> words{"SET", remote_key(shape_, name),
                                           remote_value(options_.shape, block.spelling, block.block), "EX",
                                           std::to_string(options_.keep_s)};
    const int64_t value_bytes = std::ssize(words[2]);
    sent = out_->send(
        words,
        [this, name, bytes, groups, value_bytes](const RedisReply& reply) {
          stored(name, bytes, groups, value_bytes, reply);
        },
        0);
  } catch (const std::bad_alloc&) {
    sent = false;
  }
  if (!sent) stored(name, bytes, groups, 0, {RedisReply::Kind::lost, ""});
}

void RemoteTier::stored(
    const Hash128& name, int64_t bytes, uint8_t groups, int64_t value_bytes, const RedisReply& reply) {
  {
    const std::lock_guard lock(mutex_);
    queued_.erase(name);
    queued_bytes_ -= bytes;
    --n_storing_;
    if (reply.kind == RedisReply::Kind::status) {
      ++counts_.n_written;
      counts_.written_bytes += value_bytes;
      if (up_) remember(name, groups, clock_.now_ns());
      if (std::exchange(writing_off_, false)) say(LogLevel::info, "the remote tier takes blocks again");
      off_pause_ns_ = 0;
    } else {
      could_not_store(reply);
    }
  }
  to_store_.notify_one();
  done_.notify_all();
}

// REQUIRES mutex_. Why a connection ended is said by the other one.
void RemoteTier::could_not_store(const RedisReply& reply) {
  ++counts_.n_write_errors;
  const int64_t now_ns = clock_.now_ns();
  if (now_ns < off_until_ns_) return;  // one that was under way with the first
  off_pause_ns_ = longer(off_pause_ns_, options_);
  off_until_ns_ = now_ns + off_pause_ns_;
  if (reply.kind == RedisReply::Kind::lost || std::exchange(writing_off_, true)) return;
  say(LogLevel::warn, "the remote tier takes no blocks for now, and requests go on without it: ",
      std::string_view(reply.text).substr(0, 100));
}

void RemoteTier::wait_until_stored() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return queue_.empty() && n_storing_ == 0; });
}

// --- bringing ---

void RemoteTier::bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) {
  QR_CHECK(begin < end && end <= read->n_blocks());
  {
    const std::lock_guard lock(mutex_);
    jobs_.add(read, begin, end);
  }
  to_bring_.notify_all();
}

// Room comes before the next block: were it the other way round, later blocks could fill the room that an earlier one
// waits for.
void RemoteTier::bring_all() {
  std::shared_ptr<TierRead> read;
  size_t i = 0;
  while (true) {
    room_->wait([this] { return stopping_.load(); });
    if (!next_block(read, i)) return;
    bring_block(read, i);
    read = nullptr;
  }
}

// False: it is over.
bool RemoteTier::next_block(std::shared_ptr<TierRead>& read, size_t& i) {
  std::unique_lock lock(mutex_);
  while (true) {
    to_bring_.wait(lock, [this] { return stopping_ || (!jobs_.empty() && reads_.n_running() < kReadsAtOnce); });
    if (stopping_) return false;
    if (jobs_.next(read, i)) return true;
  }
}

// The range keeps a value that is too long from coming whole.
void RemoteTier::bring_block(const std::shared_ptr<TierRead>& read, size_t i) {
  const int64_t begin_ns = clock_.now_ns();
  {
    const std::lock_guard lock(mutex_);
    reads_.begin(begin_ns);
  }
  bool sent = false;
  try {
    const std::array<std::string, 4> words{"GETRANGE", remote_key(shape_, read->wanted(i).name), "0",
                                           std::to_string(most_value_bytes(options_.shape))};
    sent =
        in_->send(words, [this, read, i, begin_ns](const RedisReply& reply) { brought(*read, i, begin_ns, reply); }, 0);
  } catch (const std::bad_alloc&) {
    sent = false;
  }
  if (!sent) brought(*read, i, begin_ns, {RedisReply::Kind::lost, ""});
}

void RemoteTier::brought(TierRead& read, size_t i, int64_t begin_ns, const RedisReply& reply) {
  using Outcome = RemoteValue::Outcome;
  const bool is_value = reply.kind == RedisReply::Kind::string && !reply.text.empty();
  RemoteValue value;
  try {
    if (is_value) value = parse_value(reply.text, options_.shape, read.wanted(i));
  } catch (const std::bad_alloc&) {
    value.outcome = Outcome::damaged;
  }
  const bool found = is_value && value.outcome == Outcome::found;
  const auto bytes = std::ssize(value.block.bytes);
  found ? read.give(i, std::move(value.block), room_) : read.lose(i);
  const int64_t now_ns = clock_.now_ns();
  {
    const std::lock_guard lock(mutex_);
    reads_.end(begin_ns, now_ns, found);
    counts_.n_read += found ? 1 : 0;
    counts_.read_bytes += found ? bytes : 0;
    counts_.read_ns += found ? std::max<int64_t>(now_ns - begin_ns, 0) : 0;
    counts_.n_damaged += is_value && value.outcome == Outcome::damaged ? 1 : 0;
    counts_.n_other += is_value && value.outcome == Outcome::other ? 1 : 0;
    if (!found) known_.forget_all();  // it is not what it was: emptied, or its values are
  }
  to_bring_.notify_all();
  if (found) keep(read.wanted(i).name);
  arrive();
}

// Its time begins anew; without memory for the words it does not.
void RemoteTier::keep(const Hash128& name) {
  try {
    const std::array<std::string, 3> words{"EXPIRE", remote_key(shape_, name), std::to_string(options_.keep_s)};
    in_->send(words, nullptr, 0);
  } catch (const std::bad_alloc&) {
    return;
  }
}

// Of answers: what one takes, or would where it hangs.
int64_t RemoteTier::predict_ns(int64_t n_blocks) {
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.now_ns();
  if (n_blocks == 0) return asks_.predict_ns(1, 1, now_ns);
  return reads_.predict_ns(n_blocks + jobs_.n_blocks() + reads_.n_running(), kReadsAtOnce, now_ns);
}

TierStats RemoteTier::stats() const {
  const std::lock_guard lock(mutex_);
  TierStats out = counts_;
  out.place = TierPlace::remote;
  out.engine_ns = engine_ns_;
  out.writing = !writing_off_;
  out.up = up_;
  return out;
}

}  // namespace quire
