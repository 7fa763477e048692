// GET /debug/requests: for the operator alone, a sentence for each request that is here.
#include "serve/request_list.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPath = "/debug/requests";

HttpHeaders bearer(const std::string& key) { return {{"Authorization", "Bearer " + key}}; }

std::string why(const Json& list, int i) { return text_at(json_at(list, "data", i, "why")); }

TEST(DebugRequests, AreTheOperatorsAlone) {
  TestServer s;
  s.options.keys = {plain_key("user", "u", true, false), plain_key("root", "r", false, true)};
  s.start();
  EXPECT_EQ(s.get(kPath).status, 401);
  EXPECT_EQ(s.get(kPath, bearer("u")).status, 403);
  EXPECT_EQ(s.get(kPath, bearer("r")).body, R"({"object":"list","seen_ms_ago":null,"data":[],"left_out":0})");
}

TEST(DebugRequests, AnAddressOfTheOperatorsOwnHasThem) {
  TestServer s;
  s.options.admin_port = 0;
  s.start();
  EXPECT_EQ(s.get(kPath).status, 404);
}

TEST(DebugRequests, NotThroughAProxy) {
  TestServer s;
  s.start();
  EXPECT_EQ(s.get(kPath, {{"X-Forwarded-For", "10.0.0.1"}}).status, 403);
}

// Two choices of one request: the first runs, the second waits for it; the engine's ids become the request's.
TEST(DebugRequests, SayWhatEachWaitsForWithoutAWordOfTheirs) {
  TestServer s;
  s.options.keys = {plain_key("alice", "a", true, true)};
  s.engine.views.seen_ns = 1;
  RequestView first;
  first.id = 1;
  first.running = true;
  first.n_prompt = 900;
  first.n_cached = 128;
  first.n_computed = 512;
  RequestView second = first;
  second.id = 2;
  second.hold = Hold::leader;
  second.other = 1;
  second.wanted = 899;
  second.have = 512;
  second.priority = -2;
  s.engine.views.views = {first, second};
  s.start();
  s.engine.pause(true);
  std::thread client(
      [&] { s.post("/v1/completions", R"({"prompt":"secret words","n":2,"max_tokens":2})", bearer("a")); });
  std::string body;
  while (s.engine.n_running() < 2) std::this_thread::yield();
  do body = s.get(kPath, bearer("a")).body;
  while (body.find("computes the same") == std::string::npos);
  s.engine.pause(false);
  client.join();
  const Json list = parse_json(body);
  const std::string id = text_at(json_at(list, "data", 0, "id"));
  EXPECT_EQ(list_of(json_at(list, "data")).size(), 2U);
  EXPECT_EQ(why(list, 0), "does not wait: its prompt is computed, 512 of 900 tokens so far");
  EXPECT_EQ(why(list, 1), "waits for request " + id + ", which computes the same first 899 tokens and has 512 of them");
  EXPECT_EQ(int_at(json_at(list, "data", 1, "choice")), 1);
  EXPECT_EQ(int_at(json_at(list, "data", 1, "cached_tokens")), 128);
  EXPECT_EQ(int_at(json_at(list, "data", 1, "priority")), -2);
  EXPECT_EQ(text_at(json_at(list, "data", 1, "key")), "alice");
  EXPECT_EQ(text_at(json_at(list, "data", 1, "endpoint")), "/v1/completions");
  EXPECT_GE(int_at(json_at(list, "data", 1, "age_ms")), 0);
  EXPECT_EQ(body.find("secret"), std::string::npos);
  EXPECT_TRUE(list_of(json_at(parse_json(s.get(kPath, bearer("a")).body), "data")).empty());
}

RequestLine line_of(SeqId id, int64_t age_ns, RequestStage progress = RequestStage::submitted) {
  RequestLine out{"req-" + std::to_string(id), "/v1/completions", "", age_ns, progress, {}};
  if (progress == RequestStage::submitted) out.sequences.push_back({id, false});
  return out;
}

RequestView held(SeqId id, Hold hold, int64_t wanted = 0, int64_t have = 0, SeqId other = 0) {
  RequestView out;
  out.id = id;
  out.hold = hold;
  out.wanted = wanted;
  out.have = have;
  out.other = other;
  return out;
}

TEST(DebugRequests, EveryReasonIsASentenceWithItsNumbers) {
  const std::vector<std::pair<RequestView, std::string>> cases = {
      {held(1, Hold::places, 64), "waits for a place: 64 sequences run, which is the limit"},
      {held(1, Hold::blocks, 12, 3), "waits for 12 KV blocks, of which 3 are free or can be freed"},
      {held(1, Hold::states, 2, 1), "waits for 2 states, of which 1 are free or can be freed"},
      {held(1, Hold::budget, 512), "others have the 512 tokens in this step; it goes on in one of the next"},
      {held(1, Hold::step_time),
       "more tokens would pass the target of the time that a step may take in this step; it goes on in one of the "
       "next"},
      {held(1, Hold::pressure), "KV blocks ran out in this step, so nobody new is let in; it is looked at in the next"},
      {held(1, Hold::load, 40, 7), "its cached blocks are brought from disk or the remote store: 7 of 40 are here"},
      {held(1, Hold::load),
       "waits for cached blocks that another request brings, or for the remote store to say what it has"},
      {held(1, Hold::leader, 99, 5, 8),
       "waits for another request, which computes the same first 99 tokens and has 5 of them"},
  };
  for (const auto& [view, sentence] : cases) {
    RequestList list;
    list.lines = {line_of(1, 0)};
    list.engine.views = {view};
    EXPECT_EQ(why(describe_requests(std::move(list)), 0), sentence);
  }
}

TEST(DebugRequests, TheOldestFirstAndWhatTheFirstOfAQueueWaitsFor) {
  RequestList list;
  list.now_ns = 50'000'000;
  list.n_unread = 2;
  list.lines = {line_of(3, 10),
                line_of(2, 20),
                line_of(7, 9, RequestStage::queued),
                line_of(8, 8, RequestStage::read),
                line_of(9, 5, RequestStage::compiled),
                line_of(10, 4)};
  RequestView back = held(2, Hold::blocks, 4, 1);
  back.n_preempted = 2;
  back.sent_back = SentBack::for_turn;
  RequestView behind = held(3, Hold::behind, 1, 0, 2);
  behind.n_ahead = 1;
  list.engine = {10'000'000, {back, behind}};
  const Json out = describe_requests(std::move(list));
  EXPECT_EQ(int_at(json_at(out, "seen_ms_ago")), 40);
  EXPECT_EQ(
      why(out, 0),
      "waits for 4 KV blocks, of which 1 are free or can be freed; it ran and was sent back 2 times, the last time "
      "because it was another client's turn");
  EXPECT_EQ(
      why(out, 1),
      "waits behind 1 request of the queue; the first, request req-2: waits for 4 KV blocks, of which 1 are free or "
      "can be freed; 1 older request of its own client is here");
  EXPECT_EQ(why(out, 2), "waits for a thread that reads its body; so do 2 requests");
  EXPECT_EQ(why(out, 3), "its body is read and turned into tokens");
  EXPECT_EQ(why(out, 4), "the grammar of its answer is compiled");
  EXPECT_EQ(why(out, 5), "has just come to the engine, which looks at it before its next step");
}

TEST(DebugRequests, NoMoreThanALimitAndHowManyAreLeftOut) {
  RequestList list;
  list.lines = {line_of(1, 5)};
  list.lines[0].sequences.assign(kMostListed + 3, {1, true});
  const Json out = describe_requests(std::move(list));
  EXPECT_EQ(list_of(json_at(out, "data")).size(), kMostListed);
  EXPECT_EQ(int_at(json_at(out, "left_out")), 3);
  EXPECT_EQ(why(out, 0), "its answer is complete and goes to its client");
}

}  // namespace
}  // namespace quire
