// Answers that would be too large, those that are large, and what many of them hold together.
#include "serve/prompt_tokens.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPath = "/v1/completions";

std::string ids(size_t n) {
  std::string out = "[";
  for (size_t i = 0; i < n; ++i)
    out += (i > 0 ? "," : "") + std::to_string(kFirstByte + 'a' + static_cast<int>(i % 26));
  return out + "]";
}

TEST(LargeAnswers, AreRefusedByTheProductOfFieldsBeforeAnythingRuns) {
  TestServer s;
  s.options.limits.answer_bytes = 1 << 20;
  s.start();
  const std::string prompts = "[" + ids(800) + "," + ids(800) + "," + ids(800) + "]";
  const HttpResponse r = s.post(kPath, R"({"n":128,"max_tokens":1,"prompt_logprobs":20,"prompt":)" + prompts + "}");
  EXPECT_EQ(r.status, 400);
  const Json error = json_at(parse_json(r.body), "error");
  EXPECT_EQ(text_at(json_at(error, "param")), "prompt_logprobs");
  EXPECT_EQ(text_at(json_at(error, "code")), "limit_exceeded");
  EXPECT_EQ(text_at(json_at(error, "message")),
            "'prompt_logprobs' asks for an answer of up to 412879872 bytes (128 choices × prompt tokens 2400 × (1 + "
            "prompt_logprobs 20) × 64 bytes + 384 choices × max_tokens 1 × 8 bytes of text): the limit is 1048576 "
            "(answer_bytes)");
  EXPECT_EQ(s.engine.stats().n_submitted, 0);
  struct Case {
    const char *path, *fields, *param;
  };
  for (const Case& c : std::vector<Case>{
           {kPath, R"("n":128,"max_tokens":3000,"prompt":"x")", "max_tokens"},
           {kPath, R"("n":4,"max_tokens":100,"logprobs":20,"prompt":["a","b","c"])", "max_tokens"},
           {"/v1/chat/completions",
            R"("n":100,"max_tokens":100,"logprobs":true,"top_logprobs":20,"messages":[{"role":"user","content":"x"}])",
            "max_tokens"},
           {"/v1/responses", R"("input":"x","max_output_tokens":2000,"top_logprobs":20)", "max_output_tokens"},
           {"/v1/responses", R"("input":"x","max_output_tokens":500,"top_logprobs":20,"stream":true)",
            "max_output_tokens"},
           {"/v1/completions", R"("prompt":"x","n":100,"max_completion_tokens":3000)", "max_completion_tokens"},
           {"/generate", R"("text":"x","n":20,"max_tokens":2000,"logprobs":0)", "max_tokens"}}) {
    const HttpResponse refused = s.post(c.path, std::string("{") + c.fields + "}");
    EXPECT_EQ(refused.status, 400) << c.fields;
    EXPECT_EQ(text_at(json_at(parse_json(refused.body), "error", "param")), c.param) << refused.body;
    EXPECT_NE(refused.body.find("the limit is 1048576 (answer_bytes)"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(s.engine.stats().n_submitted, 0);
}

TEST(LargeAnswers, OfPromptsAndVectorsCountToo) {
  TestServer s;
  s.options.limits.answer_bytes = 1 << 20;
  s.options.card.n_embd = 4096;
  s.start();
  const auto param = [&](const char* path, const std::string& body) {
    const HttpResponse r = s.post(path, body);
    EXPECT_EQ(r.status, 400);
    return text_at(json_at(parse_json(r.body), "error", "param"));
  };
  const std::string text(4000, 'x');
  EXPECT_EQ(param(kPath, R"({"n":128,"max_tokens":1,"echo":true,"prompt":[")" + text + "\",\"" + text + "\",\"" + text +
                             "\"]}"),
            "echo");
  EXPECT_EQ(param(kPath, R"({"max_tokens":0,"echo":true,"logprobs":5,"prompt":")" + text + "\"}"), "logprobs");
  std::string inputs = "[\"a\"";
  for (int i = 0; i < 20; ++i) inputs += ",\"b\"";
  EXPECT_EQ(param("/v1/embeddings", R"({"input":)" + inputs + "]}"), "input");
}

// Where the request leaves its length open it gets what there is room for, as with the context.
TEST(LargeAnswers, OfOpenLengthGetWhatThereIsRoomFor) {
  TestServer s;
  s.options.limits.answer_bytes = 10'000;
  s.engine.script = [](const Request&) { return std::vector<Token>(5000, kFirstByte + 'a'); };
  s.engine.tokens_per_step = 100;
  s.start();
  const Json j = parse_json(s.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})").body);
  EXPECT_EQ(int_at(json_at(j, "usage", "completion_tokens")), 10'000 / 8);
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "finish_reason")), "length");
  const auto streamed =
      s.stream("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"stream":true})");
  EXPECT_GT(joined_text(streamed).size(), 3000u) << "what is sent is not held";
}

// Larger than what goes out with its length: the same choices as alone, in one JSON text.
TEST(LargeAnswers, ComeInPiecesAndSayTheSame) {
  TestServer s;
  s.start();
  const std::string fields = R"("max_tokens":20,"logprobs":3,"prompt_logprobs":2,"echo":true,"prompt":)" + ids(1500);
  const HttpResponse large = s.post(kPath, R"({"n":8,"seed":5,)" + fields + "}");
  ASSERT_EQ(large.status, 200);
  EXPECT_GT(large.body.size(), 1u << 20);
  EXPECT_EQ(large.header("content-length"), nullptr);
  const Json j = parse_json(large.body);
  ASSERT_EQ(list_of(json_at(j, "choices")).size(), 8u);
  for (int i = 0; i < 8; ++i) {
    const HttpResponse alone = s.post(kPath, R"({"seed":)" + std::to_string(5 + i) + "," + fields + "}");
    Json choice = json_at(parse_json(alone.body), "choices", 0);
    choice.set("index", i);
    EXPECT_EQ(json_at(j, "choices", i).dump(), choice.dump());
  }
  const HttpResponse small = s.post(kPath, R"({"prompt":"x"})");
  EXPECT_NE(small.header("content-length"), nullptr);
}

TEST(LargeAnswers, AllTogetherHaveABound) {
  TestServer s;
  s.options.limits.answers_bytes = 512 << 10;
  s.options.limits.channel_bytes = 1 << 20;
  s.options.limits.unread_bytes = 1 << 30;
  s.engine.script = [](const Request&) { return std::vector<Token>(4000, kFirstByte + 'a'); };
  s.engine.tokens_per_step = 200;
  s.engine.step_us = 200;
  s.start();
  const HttpResponse r = s.post(kPath, R"({"prompt":"x","n":40,"max_tokens":3000,"logprobs":5})");
  EXPECT_EQ(r.status, 503) << r.body.substr(0, 200);
  EXPECT_NE(r.body.find("524288 bytes, which is the limit (answers_bytes)"), std::string::npos) << r.body;
  EXPECT_NE(r.header("retry-after"), nullptr);
  for (int i = 0; i < 500 && s.metric("quire_answers_held_bytes") != "0"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(s.metric("quire_answers_held_bytes"), "0") << "what it held has gone back";
  EXPECT_EQ(s.post(kPath, R"({"prompt":"x","max_tokens":500})").status, 200);
}

TEST(LargeAnswers, ThatNeedNoEngineCountToo) {
  TestServer s;
  s.options.limits.answers_bytes = 512 << 10;
  s.start();
  const auto tokenize = [&](size_t n) { return s.post("/tokenize", R"({"content":")" + std::string(n, 'x') + "\"}"); };
  const HttpResponse r = tokenize(200'000);
  EXPECT_EQ(r.status, 503) << r.body.substr(0, 100);
  EXPECT_NE(r.body.find("(answers_bytes)"), std::string::npos);
  EXPECT_EQ(tokenize(10'000).status, 200);
}

// Where the tokens of an echo stand was once counted from its beginning for each of them: 64 times the work for 8 times
// the prompt.
TEST(PromptTokens, OfAnEchoWithLogprobsAreNotQuadratic) {
  const auto tokenizer = tiny_tokenizer();
  for (const size_t n : {1000U, 8000U}) {
    std::vector<TokenEvent> scored(n - 1);
    for (TokenEvent& event : scored) event.id = kFirstByte + 'a';
    PromptTokens prompt(*tokenizer, kFirstByte + 'a', std::move(scored), std::make_shared<const std::string>(n, 'a'));
    EXPECT_EQ(prompt.tokens().back().text_at, static_cast<int64_t>(n) - 1);
    EXPECT_EQ(prompt.n_bytes_looked_at(), 2 * static_cast<int64_t>(n)) << "the echo once, and each token once";
    prompt.tokens();
    EXPECT_EQ(prompt.n_bytes_looked_at(), 2 * static_cast<int64_t>(n)) << "for all choices together";
  }
}

}  // namespace
}  // namespace quire
