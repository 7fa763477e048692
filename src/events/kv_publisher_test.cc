// Events over real sockets of this machine: what a subscriber hears, what it is told again, and what it can know to be
// missing.
#include "events/kv_publisher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

namespace quire {
namespace {

constexpr int kPatienceMs = 60'000;  // for what must come

uint64_t number_of(const std::string& bytes) {
  uint64_t out = 0;
  for (const char c : bytes) out = out << 8 | static_cast<unsigned char>(c);
  return out;
}

ZmqFrame frame(std::string bytes) { return std::make_shared<const std::string>(std::move(bytes)); }

// A block of one token, as a root's child.
KvNews stored(Token token) {
  KvNews out;
  out.blocks.push_back({{static_cast<uint64_t>(token), 1}, {}, 0, 0, true});
  out.tokens.push_back(token);
  return out;
}

struct Peer {
  Peer(ZmqKind kind, const std::string& address) {
    auto context = ZmqContext::open();
    EXPECT_TRUE(context) << context.error().message;
    socket = std::move(*ZmqSocket::open(*context, kind, {20'000, 20'000, -1}));
    if (kind == ZmqKind::sub) {
      EXPECT_TRUE(socket->subscribe("kv@"));
    }
    EXPECT_TRUE(socket->connect(address));
  }
  // Empty: nothing came in time.
  std::vector<std::string> next(int patience_ms = kPatienceMs) const {
    ZmqSocket* const one = socket.get();
    ZmqSocket::wait(std::span(&one, 1), -1, patience_ms);
    return socket->receive().value_or(std::vector<std::string>());
  }
  std::unique_ptr<ZmqSocket> socket;
};

class KvPublisherOf : public testing::Test {
 protected:
  void start(KvPublisherOptions options = {}) {
    options.address = "tcp://127.0.0.1:*";
    options.replay_address = "tcp://127.0.0.1:*";
    options.topic = "kv@pod@model";
    options.block_tokens = 1;
    auto made = KvPublisher::start(options, metrics_);
    ASSERT_TRUE(made) << made.error().message;
    publisher_ = std::move(*made);
  }
  // Numbers and payloads from `from` on, as the replay has them.
  std::vector<std::pair<uint64_t, std::string>> again(uint64_t from) {
    const Peer peer(ZmqKind::dealer, publisher_->replay_address());
    EXPECT_TRUE(peer.socket->send(std::array{frame(""), frame(sequence_bytes(from))}));
    std::vector<std::pair<uint64_t, std::string>> out;
    while (true) {
      const std::vector<std::string> got = peer.next();
      EXPECT_EQ(got.size(), 3U);
      if (got.size() != 3) return out;
      EXPECT_EQ(got[0], "");
      if (number_of(got[1]) == UINT64_MAX) {
        EXPECT_EQ(got[2], "");
        return out;
      }
      out.emplace_back(number_of(got[1]), got[2]);
    }
  }
  // Until the thread has taken all that was published so far, which was not lost.
  void settle() {
    while (again(publisher_->next_number() - 1).empty()) {
    }
  }
  uint64_t n_lost() { return metrics_.counter("quire_kv_events_lost_batches_total", "").value(); }

  Metrics metrics_;
  std::unique_ptr<KvPublisher> publisher_;
};

TEST(ZmqSocket, AMessageOfManyPartsIsReadInTurnsAndHarmsNoOther) {
  auto context = ZmqContext::open();
  ASSERT_TRUE(context) << context.error().message;
  const auto bound = std::move(*ZmqSocket::open(*context, ZmqKind::dealer, {20'000, 20'000, -1}));
  ASSERT_TRUE(bound->bind("tcp://127.0.0.1:*"));
  const Peer peer(ZmqKind::dealer, bound->address());
  const std::vector<std::pair<size_t, size_t>> sizes{{3, 3},
                                                     {ZmqSocket::kMostParts, ZmqSocket::kMostFrames},
                                                     {ZmqSocket::kMostParts + 1, ZmqSocket::kMostFrames},
                                                     {5 * ZmqSocket::kMostParts + 2, ZmqSocket::kMostFrames},
                                                     {2, 2}};
  for (const auto& [n_sent, n_heard] : sizes) {
    const std::vector<ZmqFrame> parts(n_sent, frame(std::to_string(n_sent)));
    bool sent = false;
    for (int tries = 0; !sent && tries < kPatienceMs; ++tries) {
      sent = bound->send(parts);
      if (!sent) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until it is connected
    }
    ASSERT_TRUE(sent);
  }
  for (const auto& [n_sent, n_heard] : sizes) {
    std::vector<std::string> got;
    for (int tries = 0; got.empty() && tries < 10; ++tries) {
      got = peer.next();
      EXPECT_LE(peer.socket->take_n_read(), 2 * ZmqSocket::kMostParts);
    }
    ASSERT_EQ(got.size(), n_heard) << n_sent;
    EXPECT_EQ(got[0], std::to_string(n_sent));
    EXPECT_EQ(got.back(), got[0]);
  }
}

TEST_F(KvPublisherOf, SubscribersHearTopicNumberAndPayload) {
  start();
  settle();  // else what is heard first may be that all blocks are cleared
  const Peer peer(ZmqKind::sub, publisher_->address());
  // A subscriber hears what comes after its subscription has arrived, and there is no telling when that is.
  std::vector<std::string> got;
  Token token = 0;
  for (int tries = 0; got.empty() && tries < 6'000; ++tries) {
    publisher_->publish(stored(++token));
    got = peer.next(10);
  }
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0], "kv@pod@model");
  uint64_t number = number_of(got[1]);
  const std::string first = got[2];
  EXPECT_NE(first.find("BlockStored"), first.npos);
  // From then on each batch, in order, and the replay says the same.
  publisher_->publish(stored(++token));
  const uint64_t last = publisher_->next_number() - 1;
  while (number < last) {
    got = peer.next();
    ASSERT_EQ(got.size(), 3U);
    ASSERT_EQ(number_of(got[1]), ++number);
  }
  const auto said = again(last);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].second, got[2]);
}

TEST_F(KvPublisherOf, AReplayBeginsWithAllClearedAndHasWhatWasAskedFor) {
  start();
  for (Token token = 1; token <= 5; ++token) publisher_->publish(stored(token));
  settle();
  const auto all = again(0);
  ASSERT_EQ(all.size(), 6U);
  EXPECT_NE(all[0].second.find("AllBlocksCleared"), std::string::npos);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].first, i);
  const auto rest = again(4);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0], all[4]);
  EXPECT_TRUE(again(6).empty());
}

TEST_F(KvPublisherOf, NothingIsPublishedWhereNothingHasHappened) {
  start();
  publisher_->publish(KvNews());
  EXPECT_EQ(publisher_->next_number(), 1U);
}

// What the thread cannot follow, or could not be written down, is a gap that everybody sees.
TEST_F(KvPublisherOf, WhatOverflowsUsesItsNumberUp) {
  start({.queue_bytes = 1});
  EXPECT_EQ(n_lost(), 0U);
  publisher_->publish(stored(1));
  EXPECT_EQ(n_lost(), 1U);
  publisher_->lose();
  EXPECT_EQ(n_lost(), 2U);
  EXPECT_EQ(publisher_->next_number(), 3U);
  const auto all = again(0);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].first, 0U);
}

TEST_F(KvPublisherOf, WhatCanBeSaidAgainIsBounded) {
  start({.replay_batches = 3});
  for (Token token = 1; token <= 9; ++token) publisher_->publish(stored(token));
  settle();
  const auto all = again(0);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].first, 7U);
  EXPECT_EQ(all[2].first, 9U);
}

TEST_F(KvPublisherOf, BytesThatCanBeSaidAgainAreBounded) {
  start({.replay_bytes = 300});
  for (Token token = 1; token <= 9; ++token) publisher_->publish(stored(token));
  settle();
  int64_t n_bytes = 0;
  const auto all = again(0);
  for (const auto& [number, payload] : all) n_bytes += std::ssize(payload);
  EXPECT_LE(n_bytes, 300);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().first, 9U);
}

TEST_F(KvPublisherOf, AllThatThereIsComesUnderTheNumberItStandsFor) {
  start({.all = [] { return KvAll{stored(42), 17}; }});
  settle();
  const auto all = again(UINT64_MAX);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].first, 17U);
  EXPECT_NE(all[0].second.find("BlockStored"), std::string::npos);
}

TEST_F(KvPublisherOf, AllThatThereIsIsNotSaidWhereItIsNotKnown) {
  start();
  EXPECT_TRUE(again(UINT64_MAX).empty());
  publisher_ = nullptr;
  start({.all = [] { return std::nullopt; }});
  EXPECT_TRUE(again(UINT64_MAX).empty());
}

// A request of another shape is no reason to say anything, or to stop.
TEST_F(KvPublisherOf, OtherRequestsAreIgnored) {
  start();
  const Peer peer(ZmqKind::dealer, publisher_->replay_address());
  for (const std::string& number : {std::string(), std::string(7, 'x'), std::string(9, 'x')}) {
    EXPECT_TRUE(peer.socket->send(std::array{frame(""), frame(number)}));
  }
  EXPECT_TRUE(peer.socket->send(std::array{frame(sequence_bytes(0))}));
  EXPECT_TRUE(peer.socket->send(std::array{frame(""), frame(sequence_bytes(0))}));
  const std::vector<std::string> got = peer.next();
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(number_of(got[1]), 0U);
}

TEST_F(KvPublisherOf, AnAddressThatIsTakenIsNamed) {
  start();
  const auto second = KvPublisher::start({.address = publisher_->address(), .topic = "kv@pod@model"}, metrics_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::io);
  EXPECT_NE(second.error().message.find(publisher_->address()), std::string::npos) << second.error().message;
}

}  // namespace
}  // namespace quire
