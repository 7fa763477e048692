// Streams taken up again after a cut, over real sockets: what both connections heard, joined, is the whole.
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kBody = R"({"prompt":"x","max_tokens":20,"seed":3,"stream":true})";

struct Heard {
  std::vector<SseEvent> events;
  std::string stream;  // its id
};

std::string text_of(const std::vector<SseEvent>& events) {
  TestServer::Events all;
  all.list = events;
  return joined_text(all);
}

// Reads a resumable stream until it heard n letters of text, then cuts the connection: before its end, however many
// letters an event brings, for the end comes in an event of its own.
Heard hear(const TestServer& s, size_t n) {
  Heard out;
  auto c = s.client();
  const auto r =
      c.events({"POST", "/v1/completions", {{"Content-Type", "application/json"}, {"x-quire-resumable", "1"}}, kBody},
               [&](SseEvent&& e, int64_t) {
                 out.events.push_back(std::move(e));
                 return text_of(out.events).size() < n;
               });
  EXPECT_TRUE(r);
  if (r && r->header("x-quire-stream") != nullptr) out.stream = *r->header("x-quire-stream");
  return out;
}

Heard go_on(const TestServer& s, const std::string& stream, const std::string& after, HttpHeaders headers = {}) {
  Heard out;
  headers.push_back({"Last-Event-ID", after});
  auto c = s.client();
  const auto r = c.events({"GET", "/v1/streams/" + stream, std::move(headers), ""}, [&](SseEvent&& e, int64_t) {
    out.events.push_back(std::move(e));
    return true;
  });
  EXPECT_TRUE(r);
  if (r) out.stream = std::to_string(r->status) + r->body;
  return out;
}

TEST(Resumable, GoesOnWhereTheClientWasCutOff) {
  TestServer s;
  s.engine.step_us = 200;
  s.start();
  const std::string whole = joined_text(s.stream("/v1/completions", kBody));
  ASSERT_EQ(whole.size(), 20u);
  for (const size_t n : {size_t{1}, size_t{5}, size_t{12}}) {
    Heard first = hear(s, n);
    ASSERT_GE(text_of(first.events).size(), n);
    ASSERT_FALSE(first.stream.empty());
    const size_t n_heard = first.events.size();
    EXPECT_EQ(first.events.back().id, std::to_string(n_heard));
    const Heard second = go_on(s, first.stream, first.events.back().id);
    ASSERT_FALSE(second.events.empty()) << second.stream;
    EXPECT_EQ(second.events.front().id, std::to_string(n_heard + 1));
    EXPECT_EQ(second.events.back().data, "[DONE]");
    first.events.insert(first.events.end(), second.events.begin(), second.events.end());
    EXPECT_EQ(text_of(first.events), whole);
  }
  EXPECT_EQ(s.metric("quire_requests_cancelled_total"), "0");
}

TEST(Resumable, AFinishedStreamIsKeptForAWhile) {
  TestServer s;
  s.start();
  const Heard all = hear(s, 1000);
  EXPECT_EQ(all.events.back().data, "[DONE]");
  const Heard again = go_on(s, all.stream, "0");
  EXPECT_EQ(text_of(again.events), text_of(all.events));
  EXPECT_EQ(again.events.size(), all.events.size());
}

TEST(Resumable, IsForWhoBeganIt) {
  TestServer s;
  s.start();
  const Heard all = hear(s, 1000);
  EXPECT_EQ(go_on(s, all.stream, "0", {{"Authorization", "Bearer other"}}).stream.substr(0, 3), "404");
  EXPECT_EQ(go_on(s, "strm_0", "0").stream.substr(0, 3), "404");
  EXPECT_EQ(go_on(s, all.stream, "x").stream.substr(0, 3), "400");
  EXPECT_EQ(go_on(s, all.stream, "100000").stream.substr(0, 3), "410");
}

TEST(Resumable, ForgetsOldEventsAndSaysSo) {
  TestServer s;
  s.options.limits.resumable_bytes = 100;  // room for [DONE] alone
  s.start();
  const Heard all = hear(s, 1000);
  EXPECT_EQ(all.events.back().data, "[DONE]");
  const std::string refused = go_on(s, all.stream, "0").stream;
  EXPECT_EQ(refused.substr(0, 3), "410") << refused;
  EXPECT_NE(refused.find("event_not_kept"), std::string::npos);
  const Heard last = go_on(s, all.stream, all.events[all.events.size() - 2].id);
  ASSERT_EQ(last.events.size(), 1u);
  EXPECT_EQ(last.events[0].data, "[DONE]");
}

TEST(Resumable, WithoutTheHeaderACutCancels) {
  TestServer s;
  s.engine.step_us = 200;
  s.start();
  auto c = s.client();
  const auto r = c.events({"POST",
                           "/v1/completions",
                           {{"Content-Type", "application/json"}},
                           R"({"prompt":"x","max_tokens":20,"stream":true})"},
                          [](SseEvent&& e, int64_t) {
                            EXPECT_EQ(e.id, "");
                            return false;
                          });
  ASSERT_TRUE(r);
  EXPECT_EQ(r->header("x-quire-stream"), nullptr);
}

TEST(Resumable, ADrainGivesUpWhatNobodyHears) {
  TestServer s;
  s.engine.step_us = 1000;
  s.start();
  const Heard first = hear(s, 1);
  EXPECT_FALSE(first.stream.empty());
  s.serving->stop(20'000);  // returns: the stream without a client is not waited for
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
}

}  // namespace
}  // namespace quire
