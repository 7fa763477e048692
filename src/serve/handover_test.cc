// The same answer from two servers, dialect by dialect (handover_testing.h).
#include "serve/handover_testing.h"
#include "serve/outcome.h"

namespace quire {
namespace {

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
  EXPECT_GT(expect_one_answer("/v1/messages", body(""), "", kAnthropic), 0U);
  expect_one_answer("/v1/messages", body(R"(,"stop_sequences":["cdcde"])"), "abcdcdxyabcdcdcdeabc", kAnthropic);
  expect_one_answer(
      "/v1/messages", body(R"(,"tools":[{"name":"get","input_schema":{"type":"object"}}])"),
      "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Par\\u00eds\"}}\n</tool_call>",
      kAnthropic);
  expect_one_answer("/v1/messages", R"({"stream":true,"max_tokens":3,"messages":[{"role":"user","content":"x"}]})",
                    "abcdef", kAnthropic);
}

TEST(Handover, SeveralChoicesGoOnEachWhereItWas) {
  EXPECT_GT(expect_one_answer("/v1/chat/completions", chat(R"(,"n":3,"stream_options":{"include_usage":true})")), 0U);
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
  EXPECT_GT(expect_one_answer("/v1/responses", body(""), "", kResponses), 0U);
  expect_one_answer("/v1/responses", body(R"(,"stop":["cdcde"])"), "abcdcdxyabcdcdcdeabc", kResponses);
  expect_one_answer("/v1/responses", body(R"(,"max_output_tokens":4)"), "", kCut);
  const std::string call =
      "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"input\": \"Par\\u00eds\"}}\n</tool_call>";
  expect_one_answer("/v1/responses", body(R"(,"tools":[{"type":"function","name":"get"}])"), call, kResponses);
  expect_one_answer("/v1/responses", body(R"(,"tools":[{"type":"custom","name":"get"}])"), call, kResponses);
}

// What tokens and bytes do not say.
TEST(Handover, WhatNeedsAllOfAnAnswerIsComputedAgain) {
  const auto body = [](const std::string& fields) { return R"({"stream":true,"input":"x")" + fields + "}"; };
  EXPECT_GT(expect_one_answer("/v1/responses", body(R"(,"top_logprobs":2)"), "", kResponses), 0U);
  expect_one_answer("/v1/responses", body(R"(,"top_logprobs":1,"stop":["cdcde"])"), "abcdcdxy\xC3\xAF 1dcdcdeabc",
                    kResponses);
  expect_one_answer("/v1/responses", body(R"(,"max_output_tokens":4,"include":["message.output_text.logprobs"])"), "",
                    kCut);
  expect_one_answer("/v1/completions", completion(R"(,"mirostat":2,"logprobs":1)"), "and more");
  expect_one_answer("/v1/chat/completions", chat(R"(,"mirostat":1,"n":3,"seed":3,"stop":["a","q"])"));
}

TEST(Handover, AnAnswerThatIsComputedAgainHasToBeTheSame) {
  const Teller s(1, "abcdef");
  const HttpHeaders asks{{std::string(kHandoverHeader), "1"}};
  const std::string body = completion(R"(,"mirostat":2)");
  const std::string ticket = read_portions(s.post("/v1/completions", body, asks)).ticket;
  const auto asked = [&](const std::string& ids, const std::string& told) {
    return s.post("/v1/completions", behind(body, ticket, ids, told), asks);
  };
  EXPECT_EQ(asked("100,101", "2").status, 200);
  for (const auto& [ids, told] : {std::pair("101", "1"), std::pair("100,102", "2"), std::pair("100", "7")}) {
    const HttpResponse r = asked(ids, told);
    const std::string code = R"("code":"handover_mismatch")";
    EXPECT_TRUE(r.body.ends_with("\n\n") ? r.body.find("event: error") < r.body.find(code) : r.status == 409) << r.body;
    EXPECT_NE(r.body.find("'handover.choices' begin another answer than this server gives"), std::string::npos)
        << r.body;
    EXPECT_EQ(r.body.find("[DONE]"), std::string::npos) << r.body;
  }
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

TEST(Handover, AResponseBehindOneThatOnlyItsServerKnewGoesOn) {
  const Teller first(1, ""), second(2, "");
  const auto id_of = [](const std::string& body) { return body.substr(body.find("resp_"), 37); };
  const std::string before = id_of(first.post("/v1/responses", R"({"input":"x","instructions":"be brief"})").body);
  const std::string body = R"({"stream":true,"input":"and \"then\"?\n","previous_response_id":")" + before + "\"}";
  EXPECT_EQ(second.post("/v1/responses", body).status, 400);
  EXPECT_GT(expect_one_answer(first, second, "/v1/responses", body, kResponses), 0U);

  const HttpHeaders router{{std::string(kHandoverHeader), "1"}};
  const Portions whole = read_portions(first.post("/v1/responses", body, router));
  ASSERT_TRUE(whole.list[0].mark.starts_with("past 2 [{\"role\":\"user\",\"content\":\"x\"}")) << whole.list[0].mark;
  SoFar so_far;
  for (int i = 0; i < 2; ++i) so_far.add(whole.list[static_cast<size_t>(i)].mark);
  const std::string name = id_of(whole.list[0].events);
  EXPECT_EQ(second.post("/v1/responses", so_far.behind(body, whole.ticket), router).status, 200);
  const HttpResponse more = second.post("/v1/responses", R"({"input":"more","previous_response_id":")" + name + "\"}");
  EXPECT_EQ(more.status, 200) << "who went on keeps the whole conversation: " << more.body;

  const auto refused = [&](const std::string& past) {
    SoFar bent = so_far;
    bent.past = past;
    return second.post("/v1/responses", bent.behind(body, whole.ticket), router);
  };
  EXPECT_EQ(refused(R"([{"role":"user","content":"y"}])").status, 409) << "another prompt";
  const std::string none = R"(,"handover":{"ticket":")" + whole.ticket + R"(","past":null}})";
  EXPECT_EQ(second.post("/v1/responses", body.substr(0, body.size() - 1) + none, router).status, 400)
      << "not kept here";
  for (const char* wrong : {"[]", "[5]", R"([{"role":"user"}])", R"([{"role":"nobody","content":"x"}])"}) {
    const HttpResponse r = refused(wrong);
    EXPECT_EQ(r.status, 400) << r.body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), "handover.past") << r.body;
  }
}

// So a router can have another server answer, though this one dies before its first token.
TEST(Handover, WhatOnlyItsServerKnewIsToldBeforeThePromptIsComputed) {
  Teller first(1, ""), second(2, "");
  const std::string kept = first.post("/v1/responses", R"({"input":"x"})").body;
  const std::string body =
      R"({"stream":true,"input":"y","previous_response_id":")" + kept.substr(kept.find("resp_"), 37) + "\"}";
  first.engine.pause(true);
  RawClient client(first.serving->port());
  client.send("POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" +
              std::string(kHandoverHeader) +
              ": 1\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string told = client.read_until("}]\n\n");
  const size_t past = told.find(": handover past 2 ");
  ASSERT_NE(past, std::string::npos) << told;
  const size_t ticket = told.find(kHandoverHeader) + kHandoverHeader.size() + 2;
  SoFar so_far;
  so_far.add(told.substr(past + 11, told.find('\n', past) - past - 11));
  const std::string asked = so_far.behind(body, told.substr(ticket, told.find('\r', ticket) - ticket));
  const std::string elsewhere = second.post("/v1/responses", asked, {{std::string(kHandoverHeader), "1"}}).body;
  first.engine.pause(false);
  const std::string here = client.read_to_end();
  const auto text_of = [](const std::string& stream) {
    const size_t done = stream.find("response.output_text.done"), at = stream.find("\"text\":\"", done) + 8;
    return done == std::string::npos ? "none" : stream.substr(at, stream.find('"', at) - at);
  };
  EXPECT_EQ(text_of(elsewhere).size(), 24U) << elsewhere;
  EXPECT_EQ(text_of(elsewhere), text_of(here));
}

TEST(Handover, APastThatIsTooLongIsNotTold) {
  TestServer s;
  s.engine.options_.n_ctx = 1 << 20;
  s.start();
  const std::string kept = s.post("/v1/responses", R"({"input":")" + std::string(200 << 10, 'x') + "\"}").body;
  ASSERT_NE(kept.find("resp_"), std::string::npos) << kept.substr(0, 1000);
  const std::string body =
      R"({"stream":true,"input":"x","previous_response_id":")" + kept.substr(kept.find("resp_"), 37) + "\"}";
  const HttpResponse r = s.post("/v1/responses", body, {{std::string(kHandoverHeader), "1"}});
  EXPECT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.header(kHandoverHeader), nullptr);
  EXPECT_EQ(r.body.find(": handover"), std::string::npos);
}

TEST(Handover, LinesOfOllamaGoOn) {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}])", generate = R"({"prompt":"x")";
  EXPECT_GT(expect_one_answer("/api/chat", chat + "}", "", kOllama), 0U);
  expect_one_answer("/api/chat", chat + R"(,"options":{"num_predict":5,"stop":["xyz"]}})", "na\xC3\xAFve xyab",
                    kOllama);
  expect_one_answer(
      "/api/chat", chat + R"(,"tools":[{"type":"function","function":{"name":"get"}}]})",
      "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Par\\u00eds\"}}\n</tool_call>", kOllama);
  expect_one_answer("/api/generate", generate + R"(,"options":{"seed":7}})", "", kOllama);
  expect_one_answer("/api/generate", generate + "}", "and more", kOllama);
}

TEST(Handover, TokensAndTheirProbabilitiesGoOnInLlamasDialect) {
  const auto body = [](const std::string& fields) {
    return R"({"stream":true,"prompt":"x","n_predict":200)" + fields + "}";
  };
  EXPECT_GT(expect_one_answer("/completion", body(""), "", kLlama), 0U);
  expect_one_answer("/completion", body(R"(,"n_probs":2)"), "na\xC3\xAFve \xE2\x82\xAC\n \xF0\x9F\x98\x80 end", kLlama);
  expect_one_answer("/completion", body(R"(,"n_probs":1,"post_sampling_probs":true,"timings_per_token":true)"),
                    "line\nline", kLlama);
  expect_one_answer("/completions", body(R"(,"stop":["cdcde","xyz"],"n":2)"), "abcdcdxyabcdcdcdeabc", kLlama);
  expect_one_answer("/completion", R"({"stream":true,"prompt":["x","yes"],"n_predict":5,"n_probs":1})", "", kLlama);
  EXPECT_GT(expect_one_answer("/infill", R"({"stream":true,"input_prefix":"a","input_suffix":"z","n_predict":9})",
                              "\xC3\xAF in the middle", kLlama),
            3U);
}

TEST(Handover, TokensGoOnAtGenerate) {
  const auto body = [](const std::string& fields) {
    return R"({"stream":true,"input_ids":[5,6,7],"max_tokens":200)" + fields + "}";
  };
  EXPECT_GT(expect_one_answer("/generate", body(""), "", kTokens), 0U);
  expect_one_answer("/generate", body(R"(,"logprobs":2,"stop":["cdcde"])"),
                    "abcdcdxy\xC3\xAF"
                    "cdcdcdeabc",
                    kTokens);
  expect_one_answer("/generate", body(R"(,"n":3,"seed":3,"stop":["a","q"])"), "", kTokens);
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
  EXPECT_TRUE(marks(completion(R"(,"mirostat":2)"), asks));
  EXPECT_FALSE(marks(completion(R"(,"return_progress":true)"), asks));
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

TEST(Handover, AFieldThatIsNotTheSameIsNamed) {
  const Teller first(1, "abcdef"), other(2, "abcdef");
  const HttpHeaders asks{{std::string(kHandoverHeader), "1"}};
  const std::string drawn = R"(,"temperature":0.5,"seed":3,"stop":["zz"])";
  const std::string ticket = read_portions(first.post("/v1/completions", completion(drawn), asks)).ticket;
  const auto named = [&](const std::string& fields) {
    const HttpResponse r = other.post("/v1/completions", behind(completion(fields), ticket, "100", "1"), asks);
    return r.status == 409 ? text_at(json_at(parse_json(r.body), "error", "param")) : std::to_string(r.status);
  };
  EXPECT_EQ(named(drawn), "200");
  EXPECT_EQ(named(R"(,"temperature":0.6,"seed":3,"stop":["zz"])"), "temperature");
  EXPECT_EQ(named(R"(,"temperature":0.5,"seed":4,"stop":["zz"])"), "seed");
  EXPECT_EQ(named(R"(,"temperature":0.5,"seed":3,"stop":["zy"])"), "stop");
  EXPECT_EQ(named(drawn + R"(,"min_p":0.1)"), "min_p");
  EXPECT_EQ(named(drawn + R"(,"logprobs":1)"), "logprobs");
  EXPECT_EQ(named(R"(,"temperature":0.5,"seed":3)"), "handover.ticket") << "a field less";
  EXPECT_EQ(named(drawn + R"(,"user":"somebody","what":1)"), "200") << "of no effect";
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
