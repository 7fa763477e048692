// The remote tier against a store that keeps values and lies when it is told to, and against a real Redis, where one is
// installed.
#include "kv/tiers/remote_tier.h"

#include <gtest/gtest.h>

#include "kv/tiers/remote_format.h"
#include "kv/tiers/test_blocks.h"
#include "redis/testing.h"

namespace quire {
namespace {

constexpr int kBlockBytes = 4096, kTokens = TestBlocks<kBlockBytes>::kTokens;

// A tier, and what is offered to it.
struct World : TestBlocks<kBlockBytes> {
  explicit World(int port, RemoteTierOptions options = {}, uint64_t fingerprint = 7) {
    options.redis.host = "127.0.0.1";
    options.redis.port = port;
    options.shape = {fingerprint, kTokens, {kBlockBytes}};
    if (options.retry_ms == RemoteTierOptions().retry_ms) {
      options.retry_ms = 10;
      options.most_retry_ms = 100;
    }
    shape = options.shape;
    tier = std::make_unique<RemoteTier>(options, clock);
    tier->on_arrival([this] { ++n_arrivals; });
  }
  bool connect() const {
    return eventually([this] { return tier->up() && tier->ask({{1, 1}}) != nullptr; });
  }
  bool offer(uint64_t n) const { return offer_to(*tier, n); }
  // Offers until it is taken: its second connection may be on its way still.
  bool store(uint64_t n) {
    const bool taken = eventually([&] { return offer(n); });
    tier->wait_until_stored();
    return taken;
  }
  std::shared_ptr<TierRead> read(std::vector<Spelling> wanted) const { return read_from(*tier, std::move(wanted)); }
  static TierRead::State wait(TierRead& read, size_t i, TierBlock& out) {
    TierRead::State state = TierRead::State::coming;
    eventually([&] { return (state = read.take(i, out)) != TierRead::State::coming; });
    return state;
  }
  bool has(uint64_t n) const {
    TierBlock got;
    const auto read = this->read({spelling(n)});
    const TierRead::State state = wait(*read, 0, got);
    EXPECT_NE(state, TierRead::State::coming);
    if (state != TierRead::State::here) return false;
    EXPECT_EQ(got.bytes, bytes(n));
    return true;
  }
  // How many of the names [0, n) it says are there.
  size_t asked(uint64_t n) const {
    std::vector<Hash128> names;
    names.reserve(n);
    for (uint64_t i = 0; i < n; ++i) names.push_back(spelling(i).name);
    const auto answer = tier->ask(names);
    if (answer == nullptr) return 0;
    EXPECT_TRUE(eventually([&] { return answer->told(); }));
    size_t out = 0;
    while (answer->groups(out) != 0) ++out;
    return out;
  }

  SystemClock clock;
  StoreShape shape;
  std::atomic<int> n_arrivals{0};
  std::unique_ptr<RemoteTier> tier;
};

RemoteTierOptions patient() {
  RemoteTierOptions out;
  out.ask_ms = out.stall_ms = kPatienceMs;  // however busy the machine is
  return out;
}

// What one tier stored another one brings, of as many as there are, however many are asked for at once.
void expect_shared(int port) {
  World a(port, patient()), b(port, patient());
  ASSERT_TRUE(a.connect() && b.connect());
  for (uint64_t n = 0; n < 150; ++n) ASSERT_TRUE(a.store(n)) << n;
  EXPECT_EQ(a.tier->find(World::spelling(3).name), 1) << "it stored it itself";
  EXPECT_EQ(b.tier->find(World::spelling(3).name), 0) << "it has not asked yet";
  EXPECT_EQ(b.asked(200), 150U);
  EXPECT_EQ(b.tier->find(World::spelling(3).name), 1);
  std::vector<Spelling> wanted;
  wanted.reserve(150);
  for (uint64_t n = 0; n < 150; ++n) wanted.push_back(World::spelling(n));
  wanted.push_back(World::spelling(999));
  const auto read = b.read(wanted);
  TierBlock got;
  for (uint64_t n = 0; n < 150; ++n) {
    ASSERT_EQ(World::wait(*read, n, got), TierRead::State::here) << n;
    EXPECT_EQ(got.bytes, World::bytes(n));
    EXPECT_EQ(got.groups, 1);
  }
  EXPECT_EQ(World::wait(*read, 150, got), TierRead::State::missing);
  EXPECT_GE(b.n_arrivals.load(), 151);
  const TierStats stored = a.tier->stats(), brought = b.tier->stats();
  EXPECT_EQ(stored.n_written, 150);
  EXPECT_EQ(brought.n_read, 150);
  EXPECT_EQ(brought.read_bytes, 150 * kBlockBytes);
  EXPECT_EQ(brought.n_damaged + brought.n_other + brought.n_late, 0);
  EXPECT_GT(b.tier->predict_ns(10), 0);
  EXPECT_GT(b.tier->predict_ns(0), 0);
}

TEST(RemoteTier, WhatOneStoredAnotherBrings) {
  const FakeStore store;
  expect_shared(store.port());
}

TEST(RemoteTier, WhatIsThereIsNotStoredAgainAndOneThatIsAskedOftenIsBoundedInWhatItRemembers) {
  FakeStore store;
  RemoteTierOptions options = patient();
  options.n_known = 32;
  World w(store.port(), options);
  ASSERT_TRUE(w.connect());
  ASSERT_TRUE(w.store(1));
  EXPECT_TRUE(w.offer(1)) << "it has it";
  w.tier->wait_until_stored();
  EXPECT_EQ(store.n_asked("SET"), 1);
  for (uint64_t n = 2; n < 100; ++n) ASSERT_TRUE(w.store(n));
  int n_known = 0;
  for (uint64_t n = 1; n < 100; ++n) n_known += w.tier->find(World::spelling(n).name) != 0 ? 1 : 0;
  EXPECT_GE(n_known, 15);
  EXPECT_LE(n_known, 32);
}

// Every bit of a value, every length of it, another block's, another model's: misses that are counted.
TEST(RemoteTier, NoWrongValueIsEverBrought) {
  const StoreShape shape{7, kTokens, {kBlockBytes}};
  const Spelling wanted = World::spelling(1);
  const TierBlock block{1, World::bytes(1)};
  const std::string value = remote_value(shape, wanted, block);
  using Outcome = RemoteValue::Outcome;
  const RemoteValue right = parse_value(value, shape, wanted);
  ASSERT_EQ(right.outcome, Outcome::found);
  EXPECT_EQ(right.block.bytes, block.bytes);
  EXPECT_EQ(groups_of_head(value.substr(0, kRemoteHeadBytes), shape), 1);
  EXPECT_LE(std::ssize(value), most_value_bytes(shape));
  for (size_t bit = 0; bit < value.size() * 8; bit += bit < 4096 ? 1 : 97) {
    std::string wrong = value;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(parse_value(wrong, shape, wanted).outcome, Outcome::found) << bit;
  }
  for (size_t n = 0; n < value.size(); n += n < 300 ? 1 : 61)
    EXPECT_EQ(parse_value(value.substr(0, n), shape, wanted).outcome, Outcome::damaged) << n;
  EXPECT_EQ(parse_value(value + "x", shape, wanted).outcome, Outcome::damaged);
  EXPECT_EQ(parse_value(remote_value(shape, World::spelling(2), block), shape, wanted).outcome, Outcome::other);
  Spelling tenant = wanted;
  tenant.key.salt ^= 1;
  EXPECT_EQ(parse_value(remote_value(shape, tenant, block), shape, wanted).outcome, Outcome::other);
  Spelling tokens = wanted;
  tokens.tokens[2] ^= 1;
  EXPECT_EQ(parse_value(remote_value(shape, tokens, block), shape, wanted).outcome, Outcome::other) << "a collision";
  const StoreShape another{8, kTokens, {kBlockBytes}};
  EXPECT_EQ(parse_value(remote_value(another, wanted, block), shape, wanted).outcome, Outcome::other);
  EXPECT_EQ(groups_of_head(remote_value(another, wanted, block), shape), 0);
  EXPECT_NE(remote_key(hash_of(shape), wanted.name), remote_key(hash_of(another), wanted.name));
}

TEST(RemoteTier, LyingStoresAreMissesThatAreCounted) {
  FakeStore store;
  World w(store.port(), patient()), other_model(store.port(), patient(), 8);
  ASSERT_TRUE(w.connect() && other_model.connect());
  for (uint64_t n = 1; n <= 4; ++n) ASSERT_TRUE(w.store(n));
  ASSERT_TRUE(other_model.store(1));
  EXPECT_TRUE(w.has(1));
  const auto key = [&](const World& of, uint64_t n) { return remote_key(hash_of(of.shape), World::spelling(n).name); };
  store.change([&](auto& values) {
    values[key(w, 1)][3000] ^= 1;                            // of the right length
    values[key(w, 2)] = values[key(other_model, 1)];         // of another model
    values[key(w, 3)].append(size_t{1} << 22, 'x');          // far too long
    values[key(w, 4)].resize(values[key(w, 4)].size() / 2);  // too short
  });
  for (uint64_t n = 1; n <= 4; ++n) EXPECT_FALSE(w.has(n)) << n;
  EXPECT_EQ(w.tier->stats().n_damaged, 3);
  EXPECT_EQ(w.tier->stats().n_other, 1);
  EXPECT_TRUE(w.tier->up()) << "its connection is as good as it was";
  ASSERT_TRUE(w.store(1)) << "it is stored anew";
  EXPECT_TRUE(w.has(1));
}

// Replies that are none, of every kind and at every command: nothing is found, nobody waits for ever, and a store that
// is right again is used again.
TEST(RemoteTier, WhateverTheStoreAnswersItEndsInAMiss) {
  FakeStore store;
  World w(store.port());
  ASSERT_TRUE(w.connect());
  ASSERT_TRUE(w.store(1));
  const char* const answers[] = {"-ERR no\r\n",    "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
                                 "$-1\r\n",        ":5\r\n",
                                 "nonsense\r\n",   "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
                                 "$3\r\nxyz\r\n",  "+OK\r\n",
                                 "+OK\r\n+OK\r\n", "$99999999999\r\n"};
  for (const char* answer : answers) {
    store.meddle([answer](const FakeStore::Words& words, std::string right) -> std::optional<std::string> {
      return words[0] == "SELECT" ? right : answer;
    });
    EXPECT_FALSE(w.has(1)) << answer;
    EXPECT_EQ(w.asked(2), 0U) << answer;
    w.offer(2);
    w.tier->wait_until_stored();
  }
  store.meddle([](const FakeStore::Words&, const std::string&) -> std::optional<std::string> { return std::nullopt; });
  EXPECT_FALSE(w.has(1));
  store.meddle({});
  EXPECT_TRUE(eventually([&] { return w.has(1); }));
  EXPECT_TRUE(eventually([&] { return w.store(3) && w.has(3); }));
}

TEST(RemoteTier, OneThatIsSilentIsGivenUpAndLeftAlone) {
  FakeStore store;
  RemoteTierOptions options;
  options.ask_ms = 5;
  options.stall_ms = 1'000;
  options.retry_ms = 20'000;
  World w(store.port(), options);
  ASSERT_TRUE(w.connect());
  store.meddle([](const FakeStore::Words&, const std::string&) { return std::string(); });
  const int64_t start_ms = test_now_ms();
  EXPECT_EQ(w.asked(1), 0U);
  EXPECT_EQ(w.tier->ask({{1, 1}}), nullptr) << "it is not asked again so soon";
  EXPECT_GE(w.tier->stats().n_late, 1);
  EXPECT_FALSE(w.has(1));
  EXPECT_LT(test_now_ms() - start_ms, kPatienceMs / 2);
  EXPECT_TRUE(eventually([&] { return !w.tier->up(); }));
  EXPECT_FALSE(w.has(1)) << "at once";
  EXPECT_FALSE(w.offer(5));
}

TEST(RemoteTier, WhatWaitsToBeStoredIsBoundedAndSoIsWhatWasBrought) {
  std::atomic<bool> hold{true};  // outlives what looks at it
  FakeStore store;
  RemoteTierOptions options = patient();
  options.queue_bytes = 4 * kBlockBytes;
  options.staging_bytes = 2 * kBlockBytes;
  World w(store.port(), options);
  ASSERT_TRUE(w.connect());
  std::vector<Spelling> wanted;
  for (uint64_t n = 1; n <= 40; ++n) {
    ASSERT_TRUE(w.store(n));
    wanted.push_back(World::spelling(n));
  }
  store.meddle([&](const FakeStore::Words& words, std::string answer) {
    while (hold && words[0] == "SET") std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return answer;
  });
  int n_taken = 0;
  for (uint64_t n = 100; n < 150; ++n) n_taken += w.offer(n) ? 1 : 0;
  EXPECT_EQ(n_taken, 4);
  EXPECT_EQ(w.tier->stats().n_refused, 46);
  hold = false;
  w.tier->wait_until_stored();
  EXPECT_TRUE(w.offer(200));
  const auto read = w.read(wanted);
  // Those that were under way when the room was full come as well.
  EXPECT_TRUE(eventually([&] { return w.tier->stats().n_read >= 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(w.tier->stats().n_read, 2 + 9);
  TierBlock got;
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(World::wait(*read, i, got), TierRead::State::here) << i;
}

TEST(RemoteTier, NobodyThereAndWrongPasswordsAreAsIfThereWereNone) {
  int port = 0;
  {
    const RawListener gone;
    port = gone.port();
  }
  World nobody(port);
  EXPECT_FALSE(nobody.offer(1));
  EXPECT_EQ(nobody.tier->ask({{1, 1}}), nullptr);
  EXPECT_FALSE(nobody.has(1));
  const FakeRedis refuses([](const std::vector<std::string>& words) -> std::optional<std::string> {
    return words[0] == "AUTH" ? "-WRONGPASS invalid username-password pair\r\n" : "-NOAUTH\r\n";
  });
  RemoteTierOptions options;
  options.redis.password = "wrong";
  World refused(refuses.port(), options);
  EXPECT_TRUE(eventually([&] { return refuses.n_connections() >= 3; }));
  EXPECT_FALSE(refused.tier->up());
  EXPECT_FALSE(refused.offer(1));
  EXPECT_FALSE(refused.has(1));
}

TEST(RemoteTier, AddressesAndSizesThatCannotBeAreRefused) {
  EXPECT_EQ(parse_remote_tier("redis://:a@h/2", "b")->redis.password, "b");
  const auto bad = parse_remote_tier("http://:secret@h", "");
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().message.starts_with("a remote store is redis://")) << bad.error().message;
  EXPECT_EQ(bad.error().message.find("secret"), std::string::npos);
  RemoteTierOptions options;
  options.shape = {7, kTokens, {int64_t{1} << 30}};
  ASSERT_FALSE(check_remote(options));
}

TEST(RealStore, WhatOneStoredAnotherBringsAndItExpires) {
  const RealRedis redis;
  if (redis.port() == 0) GTEST_SKIP() << "no redis-server is installed";
  expect_shared(redis.port());
  const std::string key = remote_key(hash_of({7, kTokens, {kBlockBytes}}), World::spelling(1).name);
  const std::string ttl = redis.say("TTL " + key);
  EXPECT_GT(std::atoi(ttl.c_str() + 1), 86'000) << ttl;
  EXPECT_LE(std::atoi(ttl.c_str() + 1), 86'400) << ttl;
}

TEST(RealStore, OneThatIsEmptiedKilledStoppedOrFullIsAsIfThereWereNone) {
  RealRedis redis({"--maxmemory-policy", "noeviction"});
  if (redis.port() == 0) GTEST_SKIP() << "no redis-server is installed";
  RemoteTierOptions options;
  options.stall_ms = 300;
  World w(redis.port(), options);
  ASSERT_TRUE(w.connect());
  EXPECT_TRUE(eventually([&] { return w.store(1) && w.has(1); }));
  EXPECT_EQ(redis.say("FLUSHALL"), "+OK\r\n");
  EXPECT_FALSE(w.has(1));
  EXPECT_TRUE(eventually([&] { return w.store(1) && w.has(1); })) << "what was there is stored again";

  EXPECT_EQ(redis.say("CONFIG SET maxmemory 1"), "+OK\r\n");
  EXPECT_TRUE(eventually([&] {
    w.offer(2);
    return !w.tier->stats().writing;
  }));
  EXPECT_GE(w.tier->stats().n_write_errors, 1);
  EXPECT_EQ(redis.say("CONFIG SET maxmemory 0"), "+OK\r\n");
  EXPECT_TRUE(eventually([&] {
    w.offer(2);
    return w.tier->stats().writing;
  }));

  redis.signal(SIGSTOP);
  EXPECT_FALSE(w.has(2));
  EXPECT_TRUE(eventually([&] { return !w.tier->up(); }));
  redis.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return w.tier->up(); }));
  EXPECT_TRUE(eventually([&] { return w.has(2); }));

  redis.stop();
  EXPECT_FALSE(w.has(2));
  redis.start();
  EXPECT_TRUE(eventually([&] { return w.tier->up(); }));
  EXPECT_FALSE(w.has(2)) << "it came back empty";
  EXPECT_TRUE(eventually([&] { return w.store(2) && w.has(2); }));
}

}  // namespace
}  // namespace quire
