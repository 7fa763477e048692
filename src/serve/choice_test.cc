#include "serve/choice.h"

#include <gtest/gtest.h>

#include "serve/testing.h"

namespace quire {
namespace {

class NobodysReply final : public Reply {
 public:
  void add_header(std::string_view, std::string_view) override {}
  bool send(int, HttpHeaders, std::string) override { return false; }
  bool start_stream(int, HttpHeaders) override { return false; }
  bool write(std::string_view) override { return false; }
  void end() override {}
  void abort() override {}
  void set_producer(Producer) override {}
  void notify() override {}
  void on_close(Closed) override {}
  void post(std::function<void()>) override {}
  void flush() override {}
  bool closed() const override { return false; }
  int64_t unsent_bytes() const override { return 0; }
};

struct ReadyTest : testing::Test {
  ReadyTest() {
    setup.reply = &reply;
    setup.held = &held;
    setup.ready = &ready;
    setup.tokenizer = tokenizer.get();
    setup.channel_bytes = 1 << 20;
  }
  // How many stand in the chain, which has `most` at most.
  size_t n_taken(size_t most) {
    size_t n = 0;
    for (Choice* c = ready.take(); c != nullptr && n <= most; ++n) c = ready.leave(*c);
    return n;
  }

  NobodysReply reply;
  HeldBytes held{std::make_shared<AnswerBudget>(1 << 20), 1 << 20};
  ReadyChoices ready;
  std::unique_ptr<Tokenizer> tokenizer = tiny_tokenizer();
  ChoiceSetup setup;
};

TEST_F(ReadyTest, AChoiceStandsOnceHoweverOftenItIsTold) {
  Choice a(setup), b(setup);
  for (int i = 0; i < 3; ++i) ready.push(a);
  ready.push(b);
  ready.push(a);
  EXPECT_EQ(n_taken(2), 2u);
  EXPECT_EQ(n_taken(2), 0u);
  ready.push(a);
  EXPECT_EQ(n_taken(2), 1u);
}

// One that was left in hand is told again before it is read, and once more behind that: the list was a ring then, which
// a thread of the server followed for ever.
TEST_F(ReadyTest, OneThatIsReadWhileItStandsInTheListIsNotPutInAgain) {
  Choice a(setup), b(setup);
  ready.push(a);
  EXPECT_EQ(n_taken(1), 1u);
  ready.push(b);
  ready.push(a);
  a.take_tokens();
  ready.push(a);
  EXPECT_EQ(n_taken(2), 2u);
}

}  // namespace
}  // namespace quire
