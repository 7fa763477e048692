// /v1/responses over a real socket: the wire form, streams, answers that are kept and gone on from.
#include <future>

#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPath = "/v1/responses";

struct ResponsesServer : TestServer {
  explicit ResponsesServer(const std::string& before = "") {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = before + "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}";
    tokenizer = tiny_tokenizer(std::move(spec));
    engine.script = [this](const Request& r) {
      prompt.clear();
      for (const Token id : r.prompt) tokenizer->append_bytes(id, false, prompt);
      return byte_tokens(reply);
    };
    engine.n_cached = 2;
  }
  HttpResponse erase(const std::string& path) const {
    auto response = client().request({"DELETE", path, {}, ""});
    EXPECT_TRUE(response);
    return response ? std::move(*response) : HttpResponse{};
  }
  std::string prompt, reply = "Hi!";
};

TEST(Responses, AnswersInTheFormOfTheReference) {
  ResponsesServer s;
  s.start();
  const HttpResponse r =
      s.post(kPath, R"({"model":"tiny","input":"Hello","instructions":"Be brief.","temperature":0.5,)"
                    R"("metadata":{"a":"b"}})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(s.prompt, "[system]Be brief.[user]Hello");
  const Json j = parse_json(r.body);
  EXPECT_EQ(text_at(json_at(j, "object")), "response");
  EXPECT_EQ(text_at(json_at(j, "status")), "completed");
  EXPECT_EQ(text_at(json_at(j, "id")).substr(0, 5), "resp_");
  const Json item = json_at(j, "output", 0);
  EXPECT_EQ(text_at(json_at(item, "type")), "message");
  EXPECT_EQ(json_at(item, "content").dump(), R"([{"type":"output_text","text":"Hi!","annotations":[],"logprobs":[]}])");
  EXPECT_EQ(
      json_at(j, "usage").dump(),
      R"({"input_tokens":29,"input_tokens_details":{"cached_tokens":2,"cached_tokens_by_tier":{"memory":2,"disk":0,"remote":0}},"output_tokens":4,)"
      R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":33})");
  EXPECT_EQ(json_at(j, "temperature").number(), 0.5);
  EXPECT_EQ(json_at(j, "metadata").dump(), R"({"a":"b"})");
  EXPECT_TRUE(json_at(j, "error").is_null());
}

TEST(Responses, StreamsNumberedEvents) {
  ResponsesServer s;
  s.start();
  const auto e = s.stream(kPath, R"({"input":"x","stream":true,"max_output_tokens":2,"top_logprobs":1})");
  ASSERT_EQ(e.status, 200);
  std::vector<std::string> types;
  std::string text;
  for (size_t i = 0; i < e.list.size(); ++i) {
    const Json j = parse_json(e.list[i].data);
    EXPECT_EQ(int_at(json_at(j, "sequence_number")), static_cast<int64_t>(i));
    EXPECT_EQ(text_at(json_at(j, "type")), e.list[i].event);
    if (types.empty() || types.back() != e.list[i].event) types.push_back(e.list[i].event);
    if (e.list[i].event == "response.output_text.delta") text += text_at(json_at(j, "delta"));
  }
  EXPECT_EQ(text, "Hi");
  EXPECT_EQ(types, (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                             "response.content_part.added", "response.output_text.delta",
                                             "response.output_text.done", "response.content_part.done",
                                             "response.output_item.done", "response.incomplete"}));
  const Json last = json_at(parse_json(e.list.back().data), "response");
  EXPECT_EQ(text_at(json_at(last, "incomplete_details", "reason")), "max_output_tokens");
  EXPECT_EQ(list_of(json_at(last, "output", 0, "content", 0, "logprobs")).size(), 2u);
  EXPECT_EQ(s.get(kPath + ("/" + text_at(json_at(last, "id")))).body, last.dump()) << "a stream is kept as well";
}

TEST(Responses, AreKeptGoneOnFromAndForgotten) {
  ResponsesServer s;
  s.start();
  const HttpResponse first = s.post(kPath, R"({"input":"One","instructions":"Sys."})");
  const std::string id = text_at(json_at(parse_json(first.body), "id"));
  EXPECT_EQ(s.get(kPath + ("/" + id)).body, first.body);
  s.reply = "Two!";
  const HttpResponse second =
      s.post(kPath, R"({"input":[{"role":"user","content":[{"type":"input_text","text":"More"}]}],)"
                    R"("previous_response_id":")" +
                        id + "\"}");
  ASSERT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(s.prompt, "[user]One[assistant]Hi![user]More") << "instructions are of one response";
  const std::string id2 = text_at(json_at(parse_json(second.body), "id"));
  EXPECT_EQ(s.erase(kPath + ("/" + id)).status, 200);
  EXPECT_EQ(s.erase(kPath + ("/" + id)).status, 404);
  EXPECT_EQ(s.get(kPath + ("/" + id)).status, 404);
  EXPECT_EQ(s.post(kPath, R"({"input":"y","previous_response_id":")" + id2 + "\"}").status, 200);
  EXPECT_EQ(s.prompt, "[user]One[assistant]Hi![user]More[assistant]Two![user]y") << "whole without its predecessor";
  const Json items = parse_json(s.get(kPath + ("/" + id2 + "/input_items")).body);
  EXPECT_EQ(text_at(json_at(items, "data", 0, "content", 0, "text")), "More");
  const HttpResponse gone = s.post(kPath, R"({"input":"y","previous_response_id":")" + id + "\"}");
  EXPECT_EQ(gone.status, 400);
  EXPECT_EQ(text_at(json_at(parse_json(gone.body), "error", "code")), "previous_response_not_found");
}

// A template has an assistant's turn there, whether the client names the answer or sends its items.
TEST(Responses, CutInReasoningHoldAnEmptyMessage) {
  ResponsesServer s("{# <think></think> #}");
  s.start();
  s.reply = "<think>Hm, let me see";
  const HttpResponse first = s.post(kPath, R"({"input":"One","max_output_tokens":12})");
  const Json j = parse_json(first.body);
  EXPECT_EQ(text_at(json_at(j, "output", 0, "type")), "reasoning");
  EXPECT_EQ(text_at(json_at(j, "output", 0, "status")), "incomplete");
  EXPECT_EQ(text_at(json_at(j, "output", 1, "type")), "message");
  EXPECT_EQ(text_at(json_at(j, "output", 1, "content", 0, "text")), "");
  const std::string more = R"({"role":"user","content":"More"}]})";
  s.post(kPath, R"({"previous_response_id":")" + text_at(json_at(j, "id")) + R"(","input":[)" + more);
  EXPECT_EQ(s.prompt, "[user]One[assistant][user]More");
  s.post(kPath, R"({"input":[{"role":"user","content":"One"},)" + json_at(j, "output", 0).dump() + "," +
                    json_at(j, "output", 1).dump() + "," + more);
  EXPECT_EQ(s.prompt, "[user]One[assistant][user]More");
  const auto e = s.stream(kPath, R"({"input":"One","stream":true,"max_output_tokens":12})");
  EXPECT_EQ(list_of(json_at(parse_json(e.list.back().data), "response", "output")).size(), 2u);
}

TEST(Responses, BelongToWhoMadeThem) {
  ResponsesServer s;
  s.start();
  const HttpResponse r = s.post(kPath, R"({"input":"x"})", {{"Authorization", "Bearer mine"}});
  const std::string path = kPath + ("/" + text_at(json_at(parse_json(r.body), "id")));
  EXPECT_EQ(s.get(path).status, 404);
  EXPECT_EQ(s.get(path, {{"Authorization", "Bearer other"}}).status, 404);
  EXPECT_EQ(s.get(path, {{"Authorization", "Bearer mine"}}).status, 200);
}

// In the events that have the whole response, whatever the length of the answer.
TEST(Responses, WhatTheirEventsRepeatIsTheirOwnBody) {
  ResponsesServer s;
  s.start();
  const std::string value(100'000, 'm');
  for (const char* n_tokens : {"2", "40"}) {
    const auto heard = s.stream(kPath, std::string(R"({"input":"x","stream":true,"store":false,"max_output_tokens":)") +
                                           n_tokens + R"(,"metadata":{"a":")" + value + "\"}}");
    size_t n_whole = 0;
    for (const auto& event : heard.list) {
      const bool whole = event.data.find(value) != std::string::npos;
      n_whole += whole ? 1 : 0;
      EXPECT_LT(event.data.size(), (whole ? 2 : 1) * value.size()) << "once in an event";
    }
    EXPECT_EQ(n_whole, 3U) << "created, in progress, ended; " << n_tokens << " tokens";
  }
}

TEST(Responses, AreNotKeptUnlessWanted) {
  ResponsesServer s;
  s.start();
  const HttpResponse r = s.post(kPath, R"({"input":"x","store":false})");
  EXPECT_EQ(s.get(kPath + ("/" + text_at(json_at(parse_json(r.body), "id")))).status, 404);
}

TEST(Responses, RefuseByName) {
  ResponsesServer s;
  s.start();
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "input"},
      {R"({"input":""})", "input"},
      {R"({"input":[]})", "input"},
      {R"({"input":[{"type":"function_call_output"}]})", "input[0].call_id"},
      {R"({"input":[{"role":"tool","content":"x"}]})", "input[0].role"},
      {R"({"input":[{"role":"user"}]})", "input[0].content"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})", "input[0].content[0].type"},
      {R"({"input":[7]})", "input[0]"},
      {R"({"input":"x","tools":[{"type":"web_search"}]})", "tools[0].type"},
      {R"({"input":"x","background":true})", "background"},
      {R"({"input":"x","text":{"format":{"type":"yaml"}}})", "text.format.type"},
      {R"({"input":"x","reasoning":{"effort":"huge"}})", "reasoning.effort"},
      {R"({"input":"x","include":["reasoning.encrypted_content"]})", "include[0]"},
      {R"({"input":"x","n":2})", "n"},
      {R"({"input":"x","truncation":"auto"})", "truncation"},
  };
  for (const auto& [body, param] : cases) {
    const HttpResponse r = s.post(kPath, body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), param) << r.body;
  }
  EXPECT_EQ(s.get("/v1/responses/nothing").status, 404);
  EXPECT_EQ(s.get("/v1/responses/nothing?stream=true").status, 400);
}

TEST(Responses, TellOfAFailureInTheStream) {
  ResponsesServer s;
  s.reply = std::string(2000, 'a');
  s.engine.step_us = 1000;
  s.start();
  std::vector<SseEvent> events;
  std::future<void> stopping;
  auto c = s.client();
  const auto r = c.events({"POST", kPath, {{"Content-Type", "application/json"}}, R"({"input":"x","stream":true})"},
                          [&](SseEvent&& e, int64_t) {
                            if (events.empty()) stopping = std::async([&] { s.serving->stop(0); });
                            events.push_back(std::move(e));
                            return true;
                          });
  ASSERT_TRUE(r);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().event, "error");
  const Json j = parse_json(events.back().data);
  EXPECT_EQ(text_at(json_at(j, "type")), "error");
  EXPECT_EQ(int_at(json_at(j, "sequence_number")), static_cast<int64_t>(events.size()) - 1);
  EXPECT_EQ(text_at(json_at(j, "code")), "shutting_down");
  EXPECT_EQ(text_at(json_at(j, "error", "message")), "the server is shutting down");
}

}  // namespace
}  // namespace quire
