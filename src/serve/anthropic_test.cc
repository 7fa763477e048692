// /v1/messages over a real socket: the wire form, stop reasons, errors in the dialect's own shape, counting.
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPath = "/v1/messages";

struct AnthropicServer : TestServer {
  AnthropicServer() {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = kTurnsTemplate;
    tokenizer = tiny_tokenizer(spec);
    engine.script = [this](const Request& r) {
      last = {r.prompt, r.sampling, r.max_tokens};
      return byte_tokens(reply);
    };
  }
  std::string prompt_text() const { return text_of(last.prompt); }
  struct {
    std::vector<Token> prompt;
    SamplingParams sampling;
    int max_tokens = 0;
  } last;
  std::string reply = "Hi!";
};

TEST(Anthropic, AnswersInTheFormOfTheReference) {
  AnthropicServer s;
  s.engine.n_cached = 3;
  s.start();
  const HttpResponse r = s.post(kPath, R"({"model":"tiny","max_tokens":50,"temperature":0.5,"top_k":7,
      "system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
      "messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Yes?"},
                  {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(s.prompt_text(), "<s>[system]Be brief.</s>[user]Hello</s>[assistant]Yes?</s>[user]a\nb</s>[assistant]");
  EXPECT_EQ(s.last.max_tokens, 50);
  EXPECT_EQ(s.last.sampling.temperature, 0.5F);
  EXPECT_EQ(s.last.sampling.top_k, 7);
  const Json j = parse_json(r.body);
  EXPECT_EQ(text_at(json_at(j, "type")), "message");
  EXPECT_EQ(text_at(json_at(j, "role")), "assistant");
  EXPECT_EQ(text_at(json_at(j, "model")), "tiny");
  EXPECT_EQ(text_at(json_at(j, "id")).substr(0, 4), "msg_");
  EXPECT_EQ(json_at(j, "content").dump(), R"([{"type":"text","text":"Hi!"}])");
  EXPECT_EQ(text_at(json_at(j, "stop_reason")), "end_turn");
  EXPECT_TRUE(json_at(j, "stop_sequence").is_null());
  const Json usage = json_at(j, "usage");
  EXPECT_EQ(int_at(json_at(usage, "input_tokens")), static_cast<int64_t>(s.last.prompt.size()) - 3);
  EXPECT_EQ(int_at(json_at(usage, "cache_read_input_tokens")), 3);
  EXPECT_EQ(int_at(json_at(usage, "output_tokens")), 4) << "with the end token";
}

TEST(Anthropic, StreamsNamedEventsInOrder) {
  AnthropicServer s;
  s.start();
  const auto e = s.stream(kPath, R"({"model":"tiny","max_tokens":9,"stream":true,
                                     "messages":[{"role":"user","content":"x"}]})");
  ASSERT_EQ(e.status, 200) << e.body;
  std::string text;
  std::vector<std::string> names;
  for (const SseEvent& event : e.list) {
    const Json j = parse_json(event.data);
    EXPECT_EQ(text_at(json_at(j, "type")), event.event) << "an event's name is its type";
    if (event.event == "content_block_delta")
      text += text_at(json_at(j, "delta", "text"));
    else
      names.push_back(event.event);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"message_start", "content_block_start", "content_block_stop",
                                             "message_delta", "message_stop"}));
  EXPECT_EQ(text, "Hi!");
  const Json last = parse_json(e.list[e.list.size() - 2].data);
  EXPECT_EQ(json_at(last, "delta").dump(), R"({"stop_reason":"end_turn","stop_sequence":null})");
  EXPECT_EQ(int_at(json_at(last, "usage", "output_tokens")), 4);
}

TEST(Anthropic, SaysWhyItStopped) {
  AnthropicServer s;
  s.reply = "one two three";
  s.start();
  const auto ask = [&](const std::string& more) {
    return parse_json(
        s.post(kPath, R"({"model":"tiny","messages":[{"role":"user","content":"x"}],)" + more + "}").body);
  };
  const Json by_string = ask(R"("max_tokens":50,"stop_sequences":["zz"," tw"])");
  EXPECT_EQ(text_at(json_at(by_string, "stop_reason")), "stop_sequence");
  EXPECT_EQ(text_at(json_at(by_string, "stop_sequence")), " tw");
  EXPECT_EQ(text_at(json_at(by_string, "content", 0, "text")), "one");
  const Json by_length = ask(R"("max_tokens":3)");
  EXPECT_EQ(text_at(json_at(by_length, "stop_reason")), "max_tokens");
  EXPECT_EQ(text_at(json_at(by_length, "content", 0, "text")), "one");
}

TEST(Anthropic, RefusesInItsOwnShape) {
  AnthropicServer s;
  s.options.keys = {plain_key("key", "secret", true, false)};
  s.start();
  const auto ask = [&](const std::string& body, const std::string& key = "secret") {
    return s.post(kPath, body, {{"x-api-key", key}});
  };
  const HttpResponse no_key = ask("{}", "wrong");
  EXPECT_EQ(no_key.status, 401);
  EXPECT_EQ(text_at(json_at(parse_json(no_key.body), "error", "type")), "authentication_error");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages":[{"role":"user","content":"x"}]})", "'max_tokens' is required"},
      {R"({"max_tokens":1})", "'messages' is required"},
      {R"({"max_tokens":1,"messages":[]})", "'messages' is empty"},
      {R"({"max_tokens":1,"messages":[{"role":"tool","content":"x"}]})", "'messages[0].role' is 'tool'"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]})",
       "'messages[0].content[0].type' is not supported yet"},
  };
  for (const auto& [body, message] : cases) {
    const HttpResponse r = ask(body);
    EXPECT_EQ(r.status, 400) << body;
    const Json j = parse_json(r.body);
    EXPECT_EQ(text_at(json_at(j, "type")), "error");
    EXPECT_EQ(text_at(json_at(j, "error", "type")), "invalid_request_error");
    EXPECT_EQ(text_at(json_at(j, "error", "message")).rfind(message, 0), 0u) << r.body;
  }
}

// What its newer clients always send.
TEST(Anthropic, WhatHasNoEffectIsTakenWithAWarning) {
  AnthropicServer s;
  s.start();
  const HttpResponse r =
      s.post(kPath, R"({"max_tokens":5,"messages":[{"role":"user","content":"x"}],"metadata":{"user_id":"u"},
      "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
      "thinking":{"type":"enabled","budget_tokens":1024}})");
  ASSERT_EQ(r.status, 200) << r.body;
  const std::string* warning = r.header("x-quire-warning");
  ASSERT_NE(warning, nullptr);
  EXPECT_NE(warning->find("context_management has no effect: the whole conversation is read"), warning->npos)
      << *warning;
  EXPECT_NE(warning->find("thinking"), warning->npos) << *warning;
}

TEST(Anthropic, CountsWhatAMessageWouldCost) {
  AnthropicServer s;
  s.start();
  const std::string prompt = R"("system":"S","messages":[{"role":"user","content":"Hello"}])";
  const HttpResponse counted = s.post("/v1/messages/count_tokens", R"({"model":"tiny",)" + prompt + "}");
  ASSERT_EQ(counted.status, 200) << counted.body;
  const HttpResponse asked = s.post(kPath, R"({"model":"tiny","max_tokens":1,)" + prompt + "}");
  ASSERT_EQ(asked.status, 200) << asked.body;
  EXPECT_EQ(int_at(json_at(parse_json(counted.body), "input_tokens")), static_cast<int64_t>(s.last.prompt.size()));
}

}  // namespace
}  // namespace quire
