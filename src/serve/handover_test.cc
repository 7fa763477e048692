// Answers that two servers give, one behind the other: whatever the mark behind which the first is left, the client is
// told what one server alone would have told.
#include "serve/handover.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "serve/outcome.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

struct Teller : TestServer {
  Teller(uint64_t seed, std::string reply, int64_t unread_bytes = ServeLimits().unread_bytes) {
    options.limits.unread_bytes = unread_bytes;
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = kTemplate;
    tokenizer = tiny_tokenizer(spec);
    options.random = counted_random(seed);
    engine.step_us = 500;  // so that an answer comes in portions
    engine.script = [reply = std::move(reply)](const Request& r) {
      std::vector<Token> out = reply.empty() ? FakeEngine::default_script(r) : byte_tokens(reply);
      out.push_back(2);
      return out;
    };
    start();
  }
};

// A stream with its marks, as a router reads it.
struct Portions {
  struct Portion {
    std::string events;  // up to its mark
    std::string mark;    // "5,17 20", "end 20 1 7"
  };
  std::vector<Portion> list;
  std::string rest;  // behind the last mark
  std::string ticket;
  int status = 0;
};

Portions read_portions(const HttpResponse& response) {
  Portions out;
  out.status = response.status;
  if (const std::string* ticket = response.header(kHandoverHeader)) out.ticket = *ticket;
  constexpr std::string_view kMark = ": handover ";
  const std::string_view body = response.body;
  size_t from = 0;
  for (size_t at = body.find(kMark); at != std::string_view::npos; at = body.find(kMark, from)) {
    const size_t mark = at + kMark.size(), end = body.find('\n', mark);
    out.list.push_back({std::string(body.substr(from, at - from)), std::string(body.substr(mark, end - mark))});
    from = end + (body.substr(end).starts_with("\n\n") ? 2 : 1);
  }
  out.rest = body.substr(from);
  return out;
}

// What a router remembers of marks.
struct SoFar {
  struct Choice {
    std::string ids, told;
    bool over = false;
  };
  std::map<int, Choice> choices;
  std::string n_events;

  void add(const std::string& mark) {
    std::istringstream rest(mark.substr(mark.find(' ')));
    const std::string ids = mark.substr(0, mark.find(' '));
    std::string told;
    int index = 0;
    rest >> told >> index >> n_events;
    Choice& choice = choices[index];
    choice.over = ids == "end";
    choice.told = told;
    if (choice.over || ids.empty()) return;
    choice.ids += (choice.ids.empty() ? "" : ",") + ids;
  }
  // The request, to who goes on.
  std::string behind(const std::string& body, const std::string& ticket) const {
    std::string out = R"({"handover":{"ticket":")" + ticket + R"(","choices":[)";
    const int n = choices.empty() ? 0 : choices.rbegin()->first + 1;
    for (int i = 0; i < n; ++i) {
      if (i > 0) out += ',';
      const auto it = choices.find(i);
      if (it == choices.end())
        out += "{}";
      else
        out += "{\"tokens\":[" + it->second.ids + "],\"told_bytes\":" + it->second.told +
               (it->second.over ? ",\"over\":true}" : "}");
    }
    out += ']';
    if (!n_events.empty()) out += ",\"n_events\":" + n_events;
    return out + "}," + body.substr(1);
  }
};

std::string behind(const std::string& body,
                   const std::string& ticket,
                   const std::string& ids,
                   const std::string& told) {
  SoFar so_far;
  so_far.choices[0] = {ids, told, false};
  return so_far.behind(body, ticket);
}

// All that a client is told of a choice, whatever the pieces.
std::string said_of(int index, const std::string& events) {
  std::string content, reasoning, calls, names, arguments, logprobs, of_tokens, offsets, heads, ends;
  const auto add = [](std::string& to, const Json& value) {
    if (value.as_string() != nullptr) to += *value.as_string();
  };
  for (size_t at = 0; at < events.size();) {
    const size_t end = events.find("\n\n", at);
    const std::string data = events.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") {
      ends += data;
      continue;
    }
    const Json chunk = parse_json(data);
    const std::string head =
        text_at(json_at(chunk, "id")) + " " + json_at(chunk, "created").dump() + " " + text_at(json_at(chunk, "model"));
    if (heads.find(head) == std::string::npos) heads += head + "\n";
    const Json choice = json_at(chunk, "choices", 0);
    if (const Json of = json_at(choice, "index"); of.as_int() != nullptr && *of.as_int() != index) continue;
    add(content, json_at(choice, "text"));
    add(content, json_at(choice, "delta", "content"));
    add(reasoning, json_at(choice, "delta", "reasoning_content"));
    if (json_at(choice, "delta", "role").as_string() != nullptr) ends += "role ";
    for (const Json& call : list_of(json_at(choice, "delta", "tool_calls"))) {
      add(calls, json_at(call, "id"));
      add(names, json_at(call, "function", "name"));
      add(arguments, json_at(call, "function", "arguments"));
    }
    for (const Json& one : list_of(json_at(choice, "logprobs", "content"))) logprobs += one.dump();
    for (const Json& one : list_of(json_at(choice, "logprobs", "tokens"))) logprobs += one.dump();
    for (const Json& one : list_of(json_at(choice, "logprobs", "token_logprobs"))) of_tokens += one.dump() + " ";
    for (const Json& one : list_of(json_at(choice, "logprobs", "text_offset"))) offsets += one.dump() + " ";
    add(ends, json_at(choice, "finish_reason"));
    if (chunk.find("__verbose") != nullptr) ends += "verbose ";
    if (json_at(chunk, "usage", "prompt_tokens").as_int() != nullptr) ends += json_at(chunk, "usage").dump();
  }
  std::string out;
  for (const std::string& part :
       {heads, content, reasoning, calls, names, arguments, logprobs, of_tokens, offsets, ends})
    out += part + "\n";
  return out;
}

std::string said(const std::string& events) {
  std::string out;
  for (int i = 0; i < 6; ++i) out += said_of(i, events);
  return out;
}

// The same of a response's events, which are numbered.
std::string said_by_response(const std::string& events) {
  std::string out;
  int64_t n = 0;
  for (size_t at = events.find("data: "); at != std::string::npos; at = events.find("data: ", at)) {
    Json data = parse_json(events.substr(at + 6, events.find("\n\n", at) - at - 6));
    at += 6;
    EXPECT_EQ(data.find("sequence_number")->dump(), std::to_string(n++));
    data.set("sequence_number", nullptr);
    const Json delta = json_at(data, "delta");
    out += delta.as_string() != nullptr ? *delta.as_string() : "\n" + data.dump() + "\n";
  }
  return out;
}

// The same of Anthropic's events. What was found in a cache is the last server's alone to know.
std::string said_by_messages(const std::string& events) {
  std::string out;
  for (size_t at = events.find("data: "); at != std::string::npos; at = events.find("data: ", at)) {
    const Json data = parse_json(events.substr(at + 6, events.find("\n\n", at) - at - 6));
    at += 6;
    const std::string type = text_at(json_at(data, "type"));
    if (type == "content_block_delta") {
      for (const char* text : {"text", "thinking", "partial_json"})
        if (const Json piece = json_at(data, "delta", text); piece.as_string() != nullptr) out += *piece.as_string();
    } else if (type == "message_delta") {
      out += json_at(data, "delta").dump() + json_at(data, "usage", "output_tokens").dump();
    } else {
      out += "\n" + data.dump() + "\n";
    }
  }
  return out;
}

// The same of Ollama's lines.
std::string said_by_lines(const std::string& lines) {
  std::string content, thinking, calls, ends;
  for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    const Json line = parse_json(lines.substr(at, lines.find('\n', at) - at));
    const Json* message = line.find("message");
    const Json text = message != nullptr ? json_at(*message, "content") : json_at(line, "response");
    if (text.as_string() != nullptr) content += *text.as_string();
    if (message != nullptr) {
      const Json thought = json_at(*message, "thinking");
      if (thought.as_string() != nullptr) thinking += *thought.as_string();
      calls += json_at(*message, "tool_calls").dump();
    }
    if (line.find("done")->as_bool() != nullptr && *line.find("done")->as_bool())
      for (const char* field : {"done_reason", "prompt_eval_count", "eval_count", "context"})
        ends += json_at(line, field).dump() + " ";
  }
  std::string told;  // of lines without calls nothing
  for (size_t at = 0; at < calls.size(); ++at)
    if (calls.compare(at, 4, "null") == 0)
      at += 3;
    else
      told += calls[at];
  return content + "\n" + thinking + "\n" + told + "\n" + ends;
}

struct Dialect {
  std::string (*said)(const std::string& events);
  const char* end;  // a part of its last event
};
constexpr Dialect kOpenai{&said, "[DONE]"}, kAnthropic{&said_by_messages, "message_stop"},
    kOllama{&said_by_lines, "\"done\":true"}, kResponses{&said_by_response, "response.completed"},
    kCut{&said_by_response, "response.incomplete"};

// Behind every mark; how many there are.
size_t expect_one_answer(const std::string& path,
                         const std::string& body,
                         const std::string& reply = "",
                         const Dialect& dialect = kOpenai) {
  const Teller first(1, reply), second(2, reply);
  const HttpHeaders router{{std::string(kHandoverHeader), "1"}};
  const Portions whole = read_portions(first.post(path, body, router));
  EXPECT_EQ(whole.status, 200) << whole.rest;
  EXPECT_NE(whole.ticket, "");
  std::string all;
  for (const auto& portion : whole.list) all += portion.events;
  all += whole.rest;
  EXPECT_NE(all.find(dialect.end), std::string::npos) << all;
  std::string events;
  SoFar so_far;
  for (const auto& portion : whole.list) {
    events += portion.events;
    so_far.add(portion.mark);
    const std::string going_on = so_far.behind(body, whole.ticket);
    const Portions more = read_portions(second.post(path, going_on, router));
    EXPECT_EQ(more.status, 200) << more.rest;
    EXPECT_EQ(more.ticket, whole.ticket);
    std::string joined = events;
    SoFar again = so_far;
    for (const auto& next : more.list) {
      joined += next.events;
      again.add(next.mark);
    }
    EXPECT_EQ(dialect.said(joined + more.rest), dialect.said(all)) << going_on;
    EXPECT_EQ(again.behind(body, "t").find(",,"), std::string::npos);
  }
  return whole.list.size();
}

std::string chat(const std::string& fields) {
  return R"({"stream":true,"messages":[{"role":"user","content":"x"}])" + fields + "}";
}
std::string completion(const std::string& fields) {
  return R"({"stream":true,"prompt":"x","max_tokens":200)" + fields + "}";
}

TEST(Handover, DrawnAnswersGoOnUnderTheSameNameAndSeed) {
  expect_one_answer("/v1/chat/completions", chat(""));
  expect_one_answer("/v1/completions", completion(R"(,"stream_options":{"include_usage":true})"));
}

TEST(Handover, CharactersOfManyTokensAreWhole) {
  expect_one_answer("/v1/chat/completions", chat(""), "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80 end");
  expect_one_answer("/v1/completions", completion(R"(,"logprobs":2)"), "\xC3\xAF\xE2\x82\xAC \xF0\x9F\x98\x80!");
}

TEST(Handover, StopStringsThatHadBegunGoOn) {
  for (const char* include : {"false", "true"}) {
    const std::string stop = R"(,"stop":["cdcde","xyz"],"include_stop_str_in_output":)" + std::string(include);
    expect_one_answer("/v1/completions", completion(stop), "abcdcdxyabcdcdcdeabc");
    expect_one_answer("/v1/completions", completion(stop + R"(,"logprobs":1)"), "abcdcdxyabcdcdcdeabc");
    expect_one_answer("/v1/chat/completions", chat(stop + R"(,"logprobs":true,"min_tokens":3)"), "cdcdexxyz");
    expect_one_answer("/v1/completions", completion(stop), "abcdcd");  // held until the end
  }
}

TEST(Handover, LengthsAreThoseOfTheWholeAnswer) {
  expect_one_answer("/v1/chat/completions", chat(R"(,"max_tokens":7,"stream_options":{"include_usage":true})"));
  expect_one_answer("/v1/chat/completions",
                    chat(R"(,"max_tokens":1,"stream_options":{"include_usage":true,"continuous_usage_stats":true})"));
}

TEST(Handover, ThinkingCallsAndEchoesAreToldOnce) {
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"get","parameters":{"type":"object"}}}])";
  expect_one_answer(
      "/v1/chat/completions", chat(tools),
      "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Par\\u00eds\"}}\n</tool_call>");
  expect_one_answer("/v1/completions", completion(R"(,"echo":true)"), "and more");
}

TEST(Handover, MessagesOfAnthropicGoOnInTheBlockThatIsOpen) {
  const auto body = [](const std::string& fields) {
    return R"({"stream":true,"max_tokens":200,"messages":[{"role":"user","content":"x"}])" + fields + "}";
  };
  EXPECT_GT(expect_one_answer("/v1/messages", body(""), "", kAnthropic), 3U);
  expect_one_answer("/v1/messages", body(R"(,"stop_sequences":["cdcde"])"), "abcdcdxyabcdcdcdeabc", kAnthropic);
  expect_one_answer(
      "/v1/messages", body(R"(,"tools":[{"name":"get","input_schema":{"type":"object"}}])"),
      "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Par\\u00eds\"}}\n</tool_call>",
      kAnthropic);
  expect_one_answer("/v1/messages", R"({"stream":true,"max_tokens":3,"messages":[{"role":"user","content":"x"}]})",
                    "abcdef", kAnthropic);
}

TEST(Handover, SeveralChoicesGoOnEachWhereItWas) {
  EXPECT_GT(expect_one_answer("/v1/chat/completions", chat(R"(,"n":3,"stream_options":{"include_usage":true})")), 6U);
  // Choices that end at different times, one before anything of it could be gone on with; and what none has told yet.
  expect_one_answer("/v1/completions", completion(R"(,"n":4,"seed":3,"stop":["a","q","zz"],"echo":true,)"
                                                  R"("stream_options":{"include_usage":true})"));
  expect_one_answer("/v1/completions", R"({"stream":true,"prompt":["x","yes"],"n":2,"max_tokens":1,"logprobs":2})");
  expect_one_answer("/v1/completions", R"({"stream":true,"prompt":["x","yes","no"],"n":2,"max_tokens":5})");
  expect_one_answer("/v1/chat/completions", chat(R"(,"n":4,"seed":3,"stop":["a","q","zz"],"verbose":true)"));
  expect_one_answer(
      "/v1/chat/completions", chat(R"(,"n":2,"logprobs":true,"tools":[{"type":"function","function":{"name":"get"}}])"),
      "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Par\\u00eds\"}}\n</tool_call>");
}

TEST(Handover, ResponsesGoOnUnderTheirNumbers) {
  const auto body = [](const std::string& fields) { return R"({"stream":true,"input":"x")" + fields + "}"; };
  EXPECT_GT(expect_one_answer("/v1/responses", body(""), "", kResponses), 3U);
  expect_one_answer("/v1/responses", body(R"(,"stop":["cdcde"])"), "abcdcdxyabcdcdcdeabc", kResponses);
  expect_one_answer("/v1/responses", body(R"(,"max_output_tokens":4)"), "", kCut);
  const std::string call =
      "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"input\": \"Par\\u00eds\"}}\n</tool_call>";
  expect_one_answer("/v1/responses", body(R"(,"tools":[{"type":"function","name":"get"}])"), call, kResponses);
  expect_one_answer("/v1/responses", body(R"(,"tools":[{"type":"custom","name":"get"}])"), call, kResponses);
}

TEST(Handover, WhoGoesOnWithAResponseKeepsIt) {
  const Teller first(1, ""), second(2, "");
  const HttpHeaders router{{std::string(kHandoverHeader), "1"}};
  const std::string body = R"({"stream":true,"input":"x"})";
  const Portions whole = read_portions(first.post("/v1/responses", body, router));
  ASSERT_GT(whole.list.size(), 2U);
  SoFar so_far;
  so_far.add(whole.list[0].mark);
  const Portions more = read_portions(second.post("/v1/responses", so_far.behind(body, whole.ticket), router));
  const size_t at = whole.list[0].events.find("resp_");
  const std::string name = whole.list[0].events.substr(at, 37);
  const Json kept = parse_json(second.get("/v1/responses/" + name).body);
  EXPECT_EQ(text_at(json_at(kept, "id")), name);
  const std::string rest = more.rest.substr(more.rest.find("data: ", more.rest.find("response.completed")) + 6);
  EXPECT_EQ(json_at(parse_json(rest.substr(0, rest.find("\n\n"))), "response").dump(), kept.dump());
}

TEST(Handover, LinesOfOllamaGoOn) {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}])", generate = R"({"prompt":"x")";
  EXPECT_GT(expect_one_answer("/api/chat", chat + "}", "", kOllama), 3U);
  expect_one_answer("/api/chat", chat + R"(,"options":{"num_predict":5,"stop":["xyz"]}})", "na\xC3\xAFve xyab",
                    kOllama);
  expect_one_answer(
      "/api/chat", chat + R"(,"tools":[{"type":"function","function":{"name":"get"}}]})",
      "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Par\\u00eds\"}}\n</tool_call>", kOllama);
  expect_one_answer("/api/generate", generate + R"(,"options":{"seed":7}})", "", kOllama);
  expect_one_answer("/api/generate", generate + "}", "and more", kOllama);
}

TEST(Handover, NobodyIsToldMarksWhoDoesNotAskOrCannotUseThem) {
  const Teller s(1, "abc");
  const auto marks = [&](const std::string& body, HttpHeaders headers) {
    const HttpResponse r = s.post("/v1/completions", body, std::move(headers));
    EXPECT_EQ(r.status, 200) << r.body;
    return r.header(kHandoverHeader) != nullptr || r.body.find(": handover") != std::string::npos;
  };
  const HttpHeaders asks{{std::string(kHandoverHeader), "1"}};
  EXPECT_TRUE(marks(completion(""), asks));
  EXPECT_FALSE(marks(completion(""), {}));
  EXPECT_TRUE(marks(completion(R"(,"n":2)"), asks));
  EXPECT_FALSE(marks(completion(R"(,"mirostat":2)"), asks));
  EXPECT_FALSE(marks(R"({"prompt":"x"})", asks));
  EXPECT_FALSE(marks(completion(""), {asks[0], {"x-quire-resumable", "1"}}));
}

TEST(Handover, AServerThatWouldHaveSaidSomethingElseRefuses) {
  const Teller first(1, "abcdef"), other(2, "abcdef");
  const HttpHeaders asks{{std::string(kHandoverHeader), "1"}};
  const std::string ticket = read_portions(first.post("/v1/completions", completion(""), asks)).ticket;
  const auto refused = [&](const std::string& body, int status) {
    const HttpResponse r = other.post("/v1/completions", body, asks);
    EXPECT_EQ(r.status, status) << r.body;
    return r.body;
  };
  const std::string given = behind(completion(""), ticket, "100", "1");
  EXPECT_EQ(other.post("/v1/completions", given, asks).status, 200);
  EXPECT_NE(refused(behind(R"({"stream":true,"prompt":"y","max_tokens":200})", ticket, "100", "1"), 409)
                .find("handover_mismatch"),
            std::string::npos);
  refused(behind(R"({"stream":true,"prompt":"x","max_tokens":199})", ticket, "100", "1"), 409);
  refused(behind(completion(R"(,"n":2)"), ticket, "100", "1"), 409);
  refused(behind(R"({"stream":true,"prompt":["x","y"],"max_tokens":200})", ticket, "100", "1"), 409);
  SoFar two;
  two.choices[1] = {"100", "1", false};
  refused(two.behind(completion(""), ticket), 400);  // of one choice
  std::string bent = ticket;
  bent[0] = bent[0] == '0' ? '1' : '0';
  refused(behind(completion(""), bent, "100", "1"), 409);
  refused(behind(completion(""), "0", "100", "1"), 400);
  refused(behind(completion(""), ticket, "99999", "1"), 400);
  refused(behind(completion(""), ticket, "100", "-1"), 400);
  const std::string stops = R"({"stream":true,"prompt":"x","max_tokens":200,"stop":"ab"})";
  const std::string other_ticket = read_portions(first.post("/v1/completions", stops, asks)).ticket;
  refused(behind(stops, other_ticket, "100,101,102", "0"), 400);  // "abc"
}

// What is said to have been told is held before the engine looks at it, of each choice.
TEST(Handover, WhatWasToldIsBounded) {
  const Teller s(1, "abcdef", 100 * kToldTokenBytes);
  const HttpHeaders asks{{std::string(kHandoverHeader), "1"}};
  const std::string body = completion(R"(,"n":2)");
  const std::string ticket = read_portions(s.post("/v1/completions", body, asks)).ticket;
  const auto refused = [&](int n_first, int n_second) {
    SoFar so_far;
    int i = 0;
    for (const int n : {n_first, n_second}) {
      std::string ids = "100";
      for (int k = 1; k < n; ++k) ids += ",100";
      so_far.choices[i++] = {ids, "1", false};
    }
    const HttpResponse r = s.post("/v1/completions", so_far.behind(body, ticket), asks);
    return r.status == 400 ? text_at(json_at(parse_json(r.body), "error", "message")) : std::to_string(r.status);
  };
  EXPECT_EQ(refused(1, 200),
            "'handover.choices[1].tokens' are 200 of an answer of at most 200: nothing is left to say");
  EXPECT_EQ(refused(51, 50), "'handover.choices' have 101 tokens: the limit is 100 (unread_bytes, 144 bytes each)");
  EXPECT_EQ(refused(2, 2), "200");
}

TEST(Handover, AServerThatEndsLeavesTheRestToAnother) {
  TestServer s;
  s.engine.script = [](const Request&) { return std::vector<Token>(4000, kFirstByte + 'a'); };
  s.engine.step_us = 1000;
  s.start();
  RawClient client(s.serving->port());
  const std::string body = R"({"stream":true,"prompt":"x","max_tokens":4000})";
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Quire-Handover: 1\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string begun = client.read_until(": handover ");
  EXPECT_NE(begun.find(": handover "), std::string::npos) << begun;
  s.serving->stop(0);
  const std::string rest = client.read_to_end();
  EXPECT_EQ(rest.find("event: error"), std::string::npos) << rest;
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos) << rest;
}

}  // namespace
}  // namespace quire
