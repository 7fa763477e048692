// The remote tier: a Redis or Valkey that several servers of one model share. Two connections, one that brings and is
// asked, one that stores, so that nobody waits behind what is stored; a thread each that checks out what there is to
// do, so that the engine's thread only copies, looks up and formats sixteen short questions. Every call has a deadline.
// Without the store, or with one that is slow, full, emptied or wrong, there are misses: a value is believed when its
// checksums and all that it spells are right. Bytes that wait to be stored, are on their way or were brought and not
// yet taken are bounded; what comes beyond is refused, and computed again when it is wanted.
#pragma once
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "kv/tiers/known_names.h"
#include "kv/tiers/read_jobs.h"
#include "kv/tiers/segment_format.h"
#include "kv/tiers/tier.h"
#include "redis/redis_client.h"

namespace quire {

struct RemoteTierOptions {
  RedisOptions redis;  // where; the rest of it is the tier's
  StoreShape shape;
  int64_t queue_bytes = int64_t{64} << 20;    // that wait to be stored, or are on their way there
  int64_t staging_bytes = int64_t{64} << 20;  // that were brought and not taken
  int64_t keep_s = 86'400;                    // a block in the store since it was stored or last brought
  size_t n_known = size_t{1} << 20;           // names of which is remembered that the store has them
  int ask_ms = 50;                            // what there is, at most
  int stall_ms = 2'000;                       // a reply; then the connection is given up
  int retry_ms = 500,
      most_retry_ms = 30'000;  // before the next connection, or before it is asked or given blocks again
};

// Of an address (parse_redis_url) and, in place of its own unless empty, a password. Fails (Code::io, Code::invalid)
// naming what is wrong, never the password.
Result<RemoteTierOptions> parse_remote_tier(const std::string& url,
                                            const std::string& password,
                                            const RedisTlsFiles& files = {});
// Code::invalid naming the limit.
Status check_remote(const RemoteTierOptions& options);

class RemoteTier final : public Tier {
 public:
  // Connects when it can. `clock` is the system's (SystemClock), or as fast; it outlives this and is asked by every
  // thread. REQUIRES checked options.
  RemoteTier(RemoteTierOptions options, Clock& clock);
  ~RemoteTier() override { stop(); }

  TierPlace place() const override { return TierPlace::remote; }
  TierWish wish(const LeavingBlock& block) override;
  bool take(const Spelling& block, TierBlock bytes) override;
  uint8_t find(const Hash128& name) override;
  std::shared_ptr<TierAnswer> ask(std::vector<Hash128> names) override;
  void bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) override;
  int64_t predict_ns(int64_t n_blocks) override;
  TierStats stats() const override;
  void on_arrival(std::function<void()> call) override { on_arrival_ = std::move(call); }
  void stop() override;

  bool up() const { return up_; }
  void wait_until_stored();  // what was offered so far, or given up; for tests

 private:
  struct Block {
    Spelling spelling;
    TierBlock block;
  };
  struct Asking;
  static constexpr int kReadsAtOnce = 8;
  static constexpr size_t kAskAtFirst = 16, kAskGrowth = 4;

  TierWish wish_for(const Hash128& name, uint8_t groups, int64_t bytes);
  void store_all();
  void store(const Block& block);
  void stored(const Hash128& name, int64_t bytes, uint8_t groups, int64_t value_bytes, const RedisReply& reply);
  void could_not_store(const RedisReply& reply);
  void bring_all();
  bool next_block(std::shared_ptr<TierRead>& read, size_t& i);
  void bring_block(const std::shared_ptr<TierRead>& read, size_t i);
  void brought(TierRead& read, size_t i, int64_t begin_ns, const RedisReply& reply);
  void ask_some(const std::shared_ptr<Asking>& asking);
  void heard(const std::shared_ptr<Asking>& asking, size_t i, const RedisReply& reply);
  void heard_all(Asking& asking, bool late);
  void remember(const Hash128& name, uint8_t groups, int64_t now_ns);
  void keep(const Hash128& name);
  void came(bool up);
  void arrive() const {
    if (on_arrival_) on_arrival_();
  }

  const RemoteTierOptions options_;
  Clock& clock_;
  const Hash128 shape_;
  const std::shared_ptr<StagingRoom> room_;
  std::function<void()> on_arrival_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable to_store_, to_bring_, done_;
  std::deque<Block> queue_;
  std::set<Hash128> queued_;  // in the queue, or on their way
  int64_t queued_bytes_ = 0, n_storing_ = 0;
  bool writing_off_ = false;
  int64_t off_until_ns_ = 0, off_pause_ns_ = 0;      // storing
  int64_t quiet_until_ns_ = 0, quiet_pause_ns_ = 0;  // asking
  ReadJobs jobs_;
  CallTimes reads_{kReadsAtOnce + 1}, asks_{64};
  KnownNames known_;
  TierStats counts_;

  std::atomic<bool> stopping_{false}, up_{false};
  std::atomic<int64_t> engine_ns_{0};
  std::unique_ptr<RedisClient> in_, out_;
  std::thread storer_, bringer_;
};

}  // namespace quire
