// Who waits for how many turns of others: counted, no clock and no socket.
#include "http/turns.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace quire {
namespace {

struct Client : Turns::Waiter {
  explicit Client(std::string n, int w = 1) : name(std::move(n)), work(w) {}
  std::string name;
  int work;  // turns that it needs
};

// Gives `n` turns at most; whose they were. Whoever has more to do waits again.
std::vector<std::string> take(Turns& turns, Turns::Line& line, int n) {
  std::vector<std::string> out;
  while (n-- > 0) {
    auto* const client = static_cast<Client*>(turns.next());
    if (client == nullptr) break;
    out.push_back(client->name);
    if (--client->work > 0) turns.push(line, *client, true);
  }
  return out;
}

TEST(Turns, AnotherAddressWaitsForOneTurnOfEachHoweverManyConnectionsTheyHave) {
  constexpr int kAddresses = 16, kConnections = 64;
  Turns turns;
  std::vector<Turns::Line> lines(kAddresses);
  std::vector<std::unique_ptr<Client>> crowd;
  for (int i = 0; i < kAddresses * kConnections; ++i) {
    crowd.push_back(std::make_unique<Client>("crowd"));
    turns.push(lines[static_cast<size_t>(i % kAddresses)], *crowd.back(), i % 3 == 0);
  }
  Turns::Line own;
  Client one("one");
  turns.push(own, one, false);
  int n_before = 0;
  while (turns.next() != &one) ++n_before;
  EXPECT_EQ(n_before, kAddresses);
}

TEST(Turns, ThoseOfOneAddressComeInOrder) {
  Turns turns;
  Turns::Line line;
  Client a("a"), b("b"), c("c");
  for (Client* client : {&a, &b, &c}) turns.push(line, *client, false);
  EXPECT_EQ(take(turns, line, 9), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(turns.empty());
}

TEST(Turns, WhoAsksForLittleIsNotBehindThoseWhoHaveMoreToDo) {
  Turns turns;
  Turns::Line line;
  std::vector<std::unique_ptr<Client>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<Client>("crowd", 1000));
  for (const auto& client : crowd) turns.push(line, *client, false);
  take(turns, line, 200);  // now all of them have had a turn
  Client one("one"), two("two");
  turns.push(line, one, false);
  turns.push(line, two, false);
  EXPECT_EQ(take(turns, line, 4), (std::vector<std::string>{"one", "crowd", "two", "crowd"}));
}

TEST(Turns, ThoseWithMoreToDoGoOnWhileOthersKeepComing) {
  Turns turns;
  Turns::Line line;
  Client much("much", 1000);
  turns.push(line, much, true);
  std::vector<std::unique_ptr<Client>> coming;
  int n_much = 0;
  for (int i = 0; i < 100; ++i) {
    coming.push_back(std::make_unique<Client>("coming"));
    turns.push(line, *coming.back(), false);
    n_much += take(turns, line, 1).front() == "much" ? 1 : 0;
  }
  EXPECT_EQ(n_much, 50);
}

TEST(Turns, WhoWaitsAlreadyWaitsOnce) {
  Turns turns;
  Turns::Line line;
  Client a("a"), b("b");
  turns.push(line, a, false);
  turns.push(line, b, false);
  turns.push(line, a, true);
  EXPECT_EQ(take(turns, line, 9), (std::vector<std::string>{"a", "b"}));
}

// What is left behind would be an address that another thread may end.
TEST(Turns, WhoLeavesIsPassedOverAndALineThatNobodyWaitsInIsForgotten) {
  Turns turns;
  Turns::Line line, other;
  Client a("a"), b("b"), c("c");
  turns.push(line, a, false);
  turns.push(line, b, true);
  turns.push(other, c, false);
  turns.leave(line, a);
  turns.leave(line, a);
  EXPECT_FALSE(a.waits());
  EXPECT_TRUE(line.is_linked());
  turns.leave(line, b);
  EXPECT_FALSE(line.is_linked());
  EXPECT_EQ(turns.next(), &c);
  EXPECT_FALSE(other.is_linked());
  EXPECT_EQ(turns.next(), nullptr);
}

}  // namespace
}  // namespace quire
