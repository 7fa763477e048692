#include "route/event_cut.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "route/retry_budget.h"
#include "route/waiting.h"

namespace quire {
namespace {

TEST(EventCut, EventsAreNeverCutHoweverTheyCome) {
  const std::string stream = "data: {\"a\":\"\\n\\n\"}\n\ndata: b\r\n\r\n: note\n\nevent: x\ndata: c\n\n";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    const size_t whole = whole_bytes(StreamForm::events, stream.substr(0, cut));
    ASSERT_LE(whole, cut);
    EXPECT_TRUE(whole == 0 || stream[whole - 1] == '\n');
    const std::string rest = stream.substr(whole, cut - whole);
    EXPECT_EQ(rest.find("\n\n"), std::string::npos);
  }
  EXPECT_EQ(whole_bytes(StreamForm::events, stream), stream.size());
}

TEST(EventCut, LinesAndBytes) {
  EXPECT_EQ(whole_bytes(StreamForm::lines, "{}\n{\"a"), 3U);
  EXPECT_EQ(whole_bytes(StreamForm::lines, "{\"a"), 0U);
  EXPECT_EQ(whole_bytes(StreamForm::bytes, "{\"a"), 3U);
}

TEST(EventCut, EventsAreCountedWhicheverLineEndsAreUsed) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const std::string stream = "data: a" + end + end + ": ping" + end + end + "event: x" + end + "data: b" + end + end;
    EXPECT_EQ(n_whole(StreamForm::events, stream), 2) << end;
    EXPECT_EQ(n_whole(StreamForm::events, stream + "data: c" + end), 2) << end;
  }
  EXPECT_EQ(n_whole(StreamForm::lines, "{}\n{}\n{"), 2);
  EXPECT_EQ(n_whole(StreamForm::bytes, "abc"), 0);
}

TEST(EventCut, FormsFollowTheContentType) {
  const auto form = [](std::string type) { return form_of(&type); };
  EXPECT_EQ(form("Text/Event-Stream; charset=utf-8"), StreamForm::events);
  EXPECT_EQ(form("application/x-ndjson"), StreamForm::lines);
  EXPECT_EQ(form("application/json"), StreamForm::bytes);
  EXPECT_EQ(form_of(nullptr), StreamForm::bytes);
}

TEST(EventCut, AnErrorIsAnEventOfItsOwn) {
  const HttpError error{502, "worker\n\ndata: x", "server_error", "", "bad_worker"};
  const std::string event = error_tail(StreamForm::events, error, &error_body);
  EXPECT_EQ(event.find("event: error\ndata: {\"error\":"), 0U);
  EXPECT_EQ(whole_bytes(StreamForm::events, event), event.size());
  EXPECT_EQ(event.find("\n\n"), event.size() - 2);
  EXPECT_EQ(error_tail(StreamForm::events, error, &anthropic_error).find("event: error\ndata: {\"type\":\"error\""),
            0U);
  EXPECT_EQ(error_tail(StreamForm::lines, error, &error_body), "{\"error\":\"worker\\n\\ndata: x\"}\n");
  EXPECT_EQ(error_tail(StreamForm::bytes, error, &error_body), "");
}

TEST(RetryBudget, IsABurstAndAFifth) {
  RetryBudget budget(2);
  EXPECT_TRUE(budget.take());
  EXPECT_TRUE(budget.take());
  EXPECT_FALSE(budget.take());
  int n = 0;
  for (int i = 0; i < 100; ++i) {
    budget.note_request();
    n += budget.take();
  }
  EXPECT_EQ(n, 20);
}

class CountingWaiter final : public Waiter {
 public:
  void on_worker() override { ++n_worker; }
  void on_no_worker() override { ++n_none; }
  int n_worker = 0, n_none = 0;
};

TEST(Waiting, IsBoundedInNumberAndTimeAndTellsEachOnce) {
  RouteLimits limits;
  limits.n_waiting = 2;
  ManualClock clock;
  Waiting waiting(limits, clock);
  const auto a = std::make_shared<CountingWaiter>(), b = std::make_shared<CountingWaiter>(),
             c = std::make_shared<CountingWaiter>();
  EXPECT_TRUE(waiting.enter(a, 10));
  EXPECT_TRUE(waiting.enter(b, 5));
  EXPECT_FALSE(waiting.enter(c, 10));
  clock.advance_ns(5);
  waiting.expire();
  EXPECT_EQ(a->n_none, 0);
  EXPECT_EQ(b->n_none, 1);
  EXPECT_TRUE(waiting.enter(c, 10));
  waiting.leave(*c);
  waiting.wake();
  waiting.wake();
  clock.advance_ns(100);
  waiting.expire();
  EXPECT_EQ(a->n_worker, 1);
  EXPECT_EQ(a->n_none, 0);
  EXPECT_EQ(c->n_worker + c->n_none, 0);
  EXPECT_EQ(waiting.n_waiting(), 0);
}

}  // namespace
}  // namespace quire
