// What a router knows of its engines' caches against the caches themselves, over an hour in which frames are lost,
// answers are cut, engines begin anew, and the router thinks that they did. Real are the caches with their evictions
// and hooks, what is written down of them, its mirror and its bytes, and who reads, follows and indexes these; the
// sockets between are a model. One thread, on a clock that the test moves.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/nanoseconds.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "engine/block_hooks.h"
#include "events/kv_encoder.h"
#include "events/kv_mirror.h"
#include "route/kv_follower.h"

namespace quire::sim {
namespace {

constexpr int kTokenBytes = 4, kBlockTokens = 16, kBlocks = 200, kDialogues = 40, kMostPrompt = 1200, kCommon = 40;
constexpr int64_t kTickNs = 200 * kNsPerMs, kTrafficNs = 600 * kNsPerSecond, kCalmNs = 420 * kNsPerSecond;
constexpr int kRounds = kSanitized ? 1 : 6;  // of ten minutes of traffic and a calm
constexpr uint64_t kSalts = 3;               // 0, which everybody shares, 1 and 2
constexpr size_t kMostUnread = 300;          // messages in a socket; what comes then is lost

using Frames = std::vector<std::string>;

// One process: a cache, and what it has published.
class Process : BlockWatcher {
 public:
  // `dumps`: it says all that it has when it is asked for that; else it has every batch still, as vLLM has many.
  Process(Rng& rng, bool dumps)
      : dumps_(dumps), encoder_(kBlockTokens, {rng.bits(), rng.bits(), rng.bits(), rng.bits()}), cache_(*this) {
    news_.all_cleared = true;
    step_ended();
  }
  const KvCache& cache() const { return cache_.cache; }
  std::string salt_name(uint64_t salt) const { return encoder_.salt_name(salt); }

  // Computes a prompt, as far as there is room.
  void compute(const Prefix& prefix) {
    SeqKv seq;
    KvCache& cache = cache_.cache;
    const auto n = static_cast<int>(prefix.tokens.size());
    cache.match(seq, prefix);
    if (cache.grow(seq, n)) cache.index(seq, prefix, n);
    cache.release(seq);
    step_ended();
  }
  // The batches since the last time.
  std::vector<Frames> take_published() { return std::exchange(published_, {}); }
  std::vector<Frames> answer(uint64_t number) const {
    std::vector<Frames> out;
    if (number == KvFollower::kAll && dumps_) {
      const auto all = mirror_.all();
      out.push_back({"", sequence_bytes(next_ - 1), encoder_.encode(*all, 1)});
    }
    for (uint64_t i = number; i < sent_.size(); ++i) out.push_back({"", sequence_bytes(i), sent_[i]});
    out.push_back({"", sequence_bytes(UINT64_MAX), ""});
    return out;
  }

 private:
  struct Cache {
    explicit Cache(BlockWatcher& watcher) : cache(layout(), memory(), options(watcher)) {}
    static KvLayout layout() {
      KvLayout out;
      out.claim(KvGroup{}, kTokenBytes);
      return out;
    }
    static std::vector<Buffer> memory() {
      std::vector<Buffer> out;
      out.push_back(std::move(*Buffer::allocate(int64_t{kTokenBytes} * kBlockTokens * kBlocks)));
      return out;
    }
    KvCacheOptions options(BlockWatcher& watcher) {
      KvCacheOptions out{.block_tokens = kBlockTokens, .n_blocks = kBlocks};
      hook_blocks(out, &watcher, tiers, cache, kBlocks);
      return out;
    }
    TierChain tiers;  // none
    KvCache cache;
  };

  void stored(const LeavingBlock& block) override {
    news_.tokens.insert(news_.tokens.end(), block.tokens.begin(), block.tokens.end());
    news_.blocks.push_back({block.name, block.parent, block.key.adapter, block.key.salt, true});
  }
  void removed(const Hash128& name) override { news_.blocks.push_back({name, {}, 0, 0, false}); }
  void step_ended() override {
    if (news_.empty()) return;
    mirror_.apply(news_);
    sent_.push_back(encoder_.encode(news_, 1));
    published_.push_back({"kv@pod@model", sequence_bytes(next_++), sent_.back()});
    news_ = {};
  }

  const bool dumps_;
  KvEncoder encoder_;
  KvMirror mirror_{kBlockTokens};
  KvNews news_;
  uint64_t next_ = 0;
  std::vector<std::string> sent_;
  std::vector<Frames> published_;
  Cache cache_;
};

// What is said of one engine on its way to the router.
struct Link {
  std::unique_ptr<Process> process;
  std::unique_ptr<KvFollower> follower;
  uint64_t worker = 0;
  std::deque<Frames> heard, answer;
  int64_t silent_ns = 0;  // since then nothing of the answer came
};

class World {
 public:
  World(uint64_t seed, int n_engines) : rng_(seed), links_(static_cast<size_t>(n_engines)) {
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < links_.size(); ++i) ids.push_back(links_[i].worker = 10 + i);
    index_.set_workers(ids);
    for (Link& link : links_) {
      link.follower = std::make_unique<KvFollower>(index_, counters, link.worker, "w", true);
      begin(link);
    }
    for (int i = 0; i < kDialogues; ++i) dialogues_.emplace_back();
  }
  void run(int64_t ns, bool calm) {
    for (const int64_t until = now_ + ns; now_ < until; now_ += kTickNs)
      for (Link& link : links_) tick(link, calm);
  }
  // How many of these prompts an engine found something of.
  int expect_equal() {
    int n_found = 0;
    for (const Link& link : links_) {
      const KvCache& cache = link.process->cache();
      EXPECT_TRUE(link.follower->whole()) << link.worker;
      EXPECT_EQ(index_.state(link.worker).n_blocks, cache.n_indexed_blocks()) << link.worker;
      for (size_t d = 0; d < dialogues_.size(); ++d) {
        const KvIndex::Sought sought{link.worker, index_.salt_of(link.worker, d % kSalts)};
        const auto hits = index_.find(dialogues_[d], std::span(&sought, 1), now_);
        const int64_t n = hits.empty() ? 0 : hits[0].n_tokens;
        EXPECT_EQ(n, cache.peek(prefix(d)) / kBlockTokens * kBlockTokens) << link.worker << ", dialogue " << d;
        n_found += static_cast<int>(n > 0);
      }
    }
    return n_found;
  }

  Metrics metrics;
  KvCounters counters{metrics};
  int n_evicting = 0, n_given_up = 0, n_gone = 0;

 private:
  bool happens(double share) { return rng_.unit() < share; }

  void begin(Link& link) {
    link.process = std::make_unique<Process>(rng_, link.worker % 4 != 3);
    for (uint64_t salt = 1; salt < kSalts; ++salt)
      index_.learn_salt(link.worker, salt, kv_salt(link.process->salt_name(salt)));
  }
  Prefix prefix(size_t dialogue) const { return {dialogues_[dialogue], {1, 0, dialogue % kSalts}, {}, kCommon}; }

  // A dialogue goes on, or another one takes its place; all begin alike, and that is no secret.
  void use(Link& link) {
    const auto d = static_cast<size_t>(rng_.between(0, kDialogues - 1));
    std::vector<Token>& tokens = dialogues_[d];
    if (std::ssize(tokens) > kMostPrompt || happens(0.02)) tokens.clear();
    if (tokens.empty())
      for (Token i = 0; i < kCommon; ++i) tokens.push_back(i);
    for (int64_t n = rng_.between(1, 80); n > 0; --n) tokens.push_back(static_cast<Token>(rng_.between(0, 30'000)));
    const int before = link.process->cache().n_indexed_blocks();
    link.process->compute(prefix(d));
    n_evicting += static_cast<int>(before > kBlocks / 2 && link.process->cache().n_indexed_blocks() <= before);
  }

  void disturb(Link& link) {
    if (happens(1.0 / 1500)) {  // it begins anew: what was under way arrives or does not, and who asks hears no more
      while (!link.heard.empty() && happens(0.5)) link.heard.pop_back();
      link.answer.clear();
      begin(link);
      if (happens(0.5)) gone(link);
    }
    if (happens(1.0 / 3000)) gone(link);
  }
  // The router finds it gone, whether it was or not, and connects anew.
  void gone(Link& link) {
    ++n_gone;
    link.heard.clear();
    link.answer.clear();
    link.follower->restart(now_);
  }

  void tick(Link& link, bool calm) {
    if (!calm) disturb(link);
    if (!calm && happens(0.8)) use(link);
    const bool burst = !calm && happens(0.004);
    for (Frames& batch : link.process->take_published()) {
      if (!calm && (burst || happens(0.01))) continue;
      if (link.heard.size() < kMostUnread) link.heard.push_back(std::move(batch));
    }
    if (link.follower->asking()) return hear_answer(link, calm);
    if (!calm && happens(0.1)) return;  // a slow router
    for (; !link.heard.empty(); link.heard.pop_front()) link.follower->hear(link.heard.front(), now_);
    const auto number = link.follower->question(now_);
    if (!number) return;
    link.silent_ns = now_;
    link.answer.clear();
    if (!calm && happens(0.1)) return;  // the question is lost
    for (Frames& one : link.process->answer(*number)) link.answer.push_back(std::move(one));
    if (!calm && happens(0.2)) link.answer.resize(static_cast<size_t>(rng_.between(0, std::ssize(link.answer))));
  }

  void hear_answer(Link& link, bool calm) {
    for (int64_t n = calm ? 10'000 : rng_.between(0, 400); n > 0 && !link.answer.empty(); --n) {
      const Frames one = std::move(link.answer.front());
      link.answer.pop_front();
      link.silent_ns = now_;
      link.follower->told(one, now_);
      if (!link.follower->asking()) return link.answer.clear();
    }
    if (now_ - link.silent_ns < 5 * kNsPerSecond) return;
    ++n_given_up;
    link.answer.clear();
    link.follower->give_up(now_);
  }

  Rng rng_;
  KvIndex index_{1'000'000, 77};
  std::vector<Link> links_;
  std::vector<std::vector<Token>> dialogues_;
  int64_t now_ = 1000 * kNsPerSecond;
};

TEST(RouteIndex, AfterAnHourOfLossesAndRestartsItIsWhatTheEnginesHave) {
  World world(1, 4);
  int n_found = 0;
  for (int i = 0; i < kRounds; ++i) {
    world.run(kTrafficNs, false);
    world.run(kCalmNs, true);
    n_found += world.expect_equal();
  }
  EXPECT_GT(n_found, 10 * kRounds);
  EXPECT_GT(world.n_evicting, 500 * kRounds);
  EXPECT_GT(world.n_given_up, kRounds);
  EXPECT_GT(world.n_gone, kRounds);
  EXPECT_GT(world.counters.gaps.value(), 20U * kRounds);
  EXPECT_GT(world.counters.restarts.value(), 0U);
  EXPECT_GT(world.counters.dumps.value(), 20U * kRounds);
  EXPECT_GT(world.counters.replays.value(), 5U * kRounds);
  EXPECT_EQ(world.counters.full.value(), 0U);
}

}  // namespace
}  // namespace quire::sim
