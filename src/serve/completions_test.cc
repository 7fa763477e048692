// /v1/completions over a real socket.
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPath = "/v1/completions";

void answer_with(TestServer& s, std::string text) {
  s.engine.script = [text = std::move(text)](const Request&) { return byte_tokens(text); };
}

TEST(Completions, AnswersWithTextUsageAndName) {
  TestServer s;
  answer_with(s, " there was a cat");
  s.engine.n_cached = 2;
  s.engine.n_disk = 1;
  s.start();
  const HttpResponse r = s.post(kPath, R"({"model":"tiny","prompt":"Once upon","max_tokens":100})");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.header("x-quire-warning"), nullptr);
  const Json j = parse_json(r.body);
  EXPECT_EQ(text_at(json_at(j, "object")), "text_completion");
  EXPECT_EQ(text_at(json_at(j, "model")), "tiny");
  EXPECT_EQ(text_at(json_at(j, "id")).substr(0, 5), "cmpl-");
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "text")), " there was a cat");
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "finish_reason")), "stop");
  EXPECT_TRUE(json_at(j, "choices", 0, "logprobs").is_null());
  EXPECT_EQ(json_at(j, "usage").dump(),
            R"({"prompt_tokens":10,"completion_tokens":17,"total_tokens":27,"prompt_tokens_details":)"
            R"({"cached_tokens":2,"cached_tokens_by_tier":{"memory":1,"disk":1,"remote":0}}})");
}

TEST(Completions, DefaultsToSixteenTokens) {
  TestServer s;
  s.start();
  const Json j = parse_json(s.post(kPath, R"({"prompt":"x"})").body);
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "text")).size(), 16u);
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "finish_reason")), "length");
}

TEST(Completions, StreamsChunksThatJoinToTheWholeText) {
  TestServer s;
  const std::string text = "caf\u00e9 \u4e2d\u6587 \U0001F600 end";
  answer_with(s, text);
  s.engine.step_us = 10'000;  // so long that few tokens wait for each other, which then go out together
  s.start();
  const auto e = s.stream(kPath, R"({"prompt":"x","max_tokens":100,"stream":true})");
  ASSERT_GT(e.list.size(), 10u);
  EXPECT_EQ(joined_text(e), text);
  EXPECT_EQ(e.list.back().data, "[DONE]");
  const Json last = parse_json(e.list[e.list.size() - 2].data);
  EXPECT_EQ(text_at(json_at(last, "choices", 0, "finish_reason")), "stop");
  EXPECT_EQ(last.find("usage"), nullptr);
  const Json first = parse_json(e.list[0].data);
  EXPECT_TRUE(json_at(first, "choices", 0, "finish_reason").is_null());
  EXPECT_EQ(text_at(json_at(first, "id")), text_at(json_at(last, "id")));
}

TEST(Completions, StreamsUsageOnlyWhenAsked) {
  TestServer s;
  answer_with(s, "abc");
  s.start();
  const auto e =
      s.stream(kPath, R"({"prompt":"xy","max_tokens":9,"stream":true,"stream_options":{"include_usage":true}})");
  ASSERT_GE(e.list.size(), 3u);
  const Json usage = parse_json(e.list[e.list.size() - 2].data);
  EXPECT_EQ(json_at(usage, "choices").dump(), "[]");
  EXPECT_EQ(json_at(usage, "usage").dump(),
            R"({"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":)"
            R"({"cached_tokens":0,"cached_tokens_by_tier":{"memory":0,"disk":0,"remote":0}}})");
  const Json first = parse_json(e.list[0].data);
  ASSERT_NE(first.find("usage"), nullptr);
  EXPECT_TRUE(first.find("usage")->is_null());
}

TEST(Completions, TheUsageTellsGuessesWhereThereWereAny) {
  TestServer s;
  answer_with(s, "abc");
  s.engine.cost.computed[static_cast<size_t>(Cause::draft)] = 7;
  s.engine.cost.n_accepted = 5;
  s.start();
  const Json usage = json_at(parse_json(s.post(kPath, R"({"prompt":"xy"})").body), "usage");
  EXPECT_EQ(json_at(usage, "completion_tokens_details").dump(),
            R"({"accepted_prediction_tokens":5,"rejected_prediction_tokens":2})");
}

TEST(Completions, ARequestSaysHowMuchIsGuessedAhead) {
  TestServer s;
  int most = 0;
  s.engine.script = [&](const Request& r) {
    most = r.max_draft;
    return byte_tokens("a");
  };
  s.start();
  const auto asked = [&](const std::string& value) {
    const HttpResponse r = s.post(kPath, R"({"prompt":"x","speculation":)" + value + "}");
    return r.status == 200 ? most : -r.status;
  };
  EXPECT_EQ(asked("null"), -1);
  EXPECT_EQ(asked("true"), -1);
  EXPECT_EQ(asked("false"), 0);
  EXPECT_EQ(asked("3"), 3);
  EXPECT_EQ(asked("64"), 64);
  EXPECT_EQ(asked("65"), -400);
  EXPECT_EQ(asked("-1"), -400);
  EXPECT_EQ(asked("\"fast\""), -400);
}

// However many tokens a step yields, the stream says what the whole answer says.
TEST(Completions, StreamEqualsWholeForAnyTokensPerStep) {
  for (const int k : {1, 2, 3, 7, 100}) {
    TestServer s;
    s.engine.tokens_per_step = k;
    answer_with(s, "one \u00e9\u00e9 tw\U0001F600o STO three STOP four");
    s.start();
    const std::string body = R"({"prompt":"x","max_tokens":100,"stop":["STOP","zzz"],"logprobs":2)";
    const Json whole = parse_json(s.post(kPath, body + "}").body);
    const auto e = s.stream(kPath, body + R"(,"stream":true})");
    EXPECT_EQ(joined_text(e), text_at(json_at(whole, "choices", 0, "text"))) << k;
    EXPECT_EQ(joined_text(e), "one \u00e9\u00e9 tw\U0001F600o STO three ") << k;
    std::string tokens, offsets;
    for (const SseEvent& event : e.list) {
      if (event.data == "[DONE]") continue;
      const Json chunk = parse_json(event.data), logprobs = json_at(chunk, "choices", 0, "logprobs");
      if (logprobs.is_null()) continue;
      for (const Json& t : list_of(json_at(logprobs, "tokens"))) tokens += t.dump();
      for (const Json& t : list_of(json_at(logprobs, "text_offset"))) offsets += t.dump();
    }
    std::string want_tokens, want_offsets;
    for (const Json& t : list_of(json_at(whole, "choices", 0, "logprobs", "tokens"))) want_tokens += t.dump();
    for (const Json& t : list_of(json_at(whole, "choices", 0, "logprobs", "text_offset"))) want_offsets += t.dump();
    EXPECT_EQ(tokens, want_tokens) << k;
    EXPECT_EQ(offsets, want_offsets) << k;
  }
}

TEST(Completions, StopStringEndsTheSequenceAndIsNotShown) {
  TestServer s;
  answer_with(s, "one two###three");
  s.start();
  const Json j = parse_json(s.post(kPath, R"({"prompt":"x","max_tokens":100,"stop":"###"})").body);
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "text")), "one two");
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "finish_reason")), "stop");
  EXPECT_EQ(int_at(json_at(j, "usage", "completion_tokens")), 10);  // up to the token that completed it
  const Json k = parse_json(
      s.post(kPath, R"({"prompt":"x","max_tokens":100,"stop":"###","include_stop_str_in_output":true})").body);
  EXPECT_EQ(text_at(json_at(k, "choices", 0, "text")), "one two###");
}

// A stop string that holds U+FFFD can only be seen in the text: the io thread cuts it and cancels the sequence.
TEST(Completions, StopThatOnlyTheTextShowsCancelsTheSequence) {
  TestServer s;
  s.engine.script = [](const Request&) {
    auto out = byte_tokens(
        "ab\xff"
        "cd");
    for (int i = 0; i < 3000; ++i) out.push_back(kFirstByte + 'z');
    return out;
  };
  s.engine.step_us = 100;
  s.start();
  const std::string body = R"({"prompt":"x","max_tokens":4000,"stop":"\ufffd")";
  const Json whole = parse_json(s.post(kPath, body + "}").body);
  EXPECT_EQ(text_at(json_at(whole, "choices", 0, "text")), "ab");
  EXPECT_EQ(text_at(json_at(whole, "choices", 0, "finish_reason")), "stop");
  EXPECT_EQ(int_at(json_at(whole, "usage", "completion_tokens")), 3);
  EXPECT_EQ(joined_text(s.stream(kPath, body + R"(,"stream":true})")), "ab");
  EXPECT_EQ(s.engine.stats().n_cancelled, 2);
}

TEST(Completions, StopIdsAndEndTokens) {
  TestServer s;
  s.engine.script = [](const Request&) {
    return std::vector<Token>{kFirstByte + 'a', 2, kFirstByte + 'b', kFirstByte + 'c'};
  };
  s.start();
  const auto text = [&](const std::string& more) {
    return text_at(
        json_at(parse_json(s.post(kPath, R"({"prompt":"x","max_tokens":9)" + more + "}").body), "choices", 0, "text"));
  };
  EXPECT_EQ(text(""), "a");
  EXPECT_EQ(text(R"(,"ignore_eos":true)"), "abc");
  EXPECT_EQ(text(R"(,"ignore_eos":true,"skip_special_tokens":false)"), "a</s>bc");
  EXPECT_EQ(text(R"(,"ignore_eos":true,"stop_token_ids":[101])"), "a");  // 'b' is 3 + 98
}

TEST(Completions, PromptsInEveryForm) {
  TestServer s;
  std::mutex mu;
  std::vector<std::vector<Token>> prompts;
  s.engine.script = [&](const Request& r) {
    std::lock_guard lock(mu);
    prompts.push_back(r.prompt);
    return FakeEngine::default_script(r);
  };
  s.start();
  const auto sent = [&](const std::string& prompt) {
    prompts.clear();
    const HttpResponse r = s.post(kPath, "{\"max_tokens\":2,\"prompt\":" + prompt + "}");
    EXPECT_EQ(r.status, 200) << r.body;
    return prompts;
  };
  const Token a = kFirstByte + 'a', b = kFirstByte + 'b';
  using Lists = std::vector<std::vector<Token>>;
  EXPECT_EQ(sent("\"a\""), (Lists{{1, a}}));
  EXPECT_EQ(sent("[\"a\",\"b\"]"), (Lists{{1, a}, {1, b}}));
  EXPECT_EQ(sent("[100,101]"), (Lists{{100, 101}}));
  EXPECT_EQ(sent("[[100],[101,5]]"), (Lists{{100}, {101, 5}}));
  EXPECT_EQ(sent("\"a\",\"add_special_tokens\":false"), (Lists{{a}}));
}

TEST(Completions, ChoicesAreNumberedByPromptThenCandidate) {
  TestServer s;
  s.start();
  const auto texts = [&](const std::string& more) {
    const Json j = parse_json(s.post(kPath, R"({"max_tokens":8,)" + more + "}").body);
    std::vector<std::string> out;
    const Json list = json_at(j, "choices");
    for (size_t i = 0; list.as_array() != nullptr && i < list.as_array()->size(); ++i) {
      EXPECT_EQ(int_at(json_at(list, static_cast<int>(i), "index")), static_cast<int64_t>(i));
      out.push_back(text_at(json_at(list, static_cast<int>(i), "text")));
    }
    return out;
  };
  const auto four = texts(R"("seed":5,"prompt":["a","b"],"n":2)");
  ASSERT_EQ(four.size(), 4u);
  EXPECT_EQ(texts(R"("seed":5,"prompt":"a","n":2)"),
            (std::vector<std::string>{four[0], four[1]}));  // as if it were alone
  EXPECT_EQ(texts(R"("seed":5,"prompt":"b","n":2)"), (std::vector<std::string>{four[2], four[3]}));
  EXPECT_EQ(texts(R"("prompt":"a","seed":6)"), std::vector<std::string>{four[1]});  // choice i has seed + i
  EXPECT_NE(four[0], four[1]);
  const auto e = s.stream(kPath, R"({"max_tokens":8,"seed":5,"prompt":["a","b"],"n":2,"stream":true})");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(joined_text(e, i), four[static_cast<size_t>(i)]) << i;
}

TEST(Completions, BestOfReturnsTheMostProbable) {
  TestServer s;
  s.engine.script = [](const Request& r) {  // a FakeEngine token has logprob -(id mod 7) / 4
    const Token id = r.sampling.seed == 12 ? 105 : 107;
    return std::vector<Token>(3, id);
  };
  s.start();
  const Json j = parse_json(s.post(kPath, R"({"prompt":"a","n":1,"best_of":4,"seed":10})").body);
  EXPECT_EQ(list_of(json_at(j, "choices")).size(), 1u);
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "text")), "fff");  // 105 = 15 · 7: logprob 0
  EXPECT_EQ(int_at(json_at(j, "usage", "completion_tokens")), 16) << "four end tokens among them";
  EXPECT_EQ(int_at(json_at(j, "usage", "prompt_tokens")), 2);
}

TEST(Completions, EchoPutsThePromptFirst) {
  TestServer s;
  answer_with(s, "!");
  s.start();
  for (const char* prompt : {"\"h\u00e9\"", "[\"h\u00e9\"]"}) {
    const std::string body = std::string(R"({"echo":true,"prompt":)") + prompt;
    EXPECT_EQ(text_at(json_at(parse_json(s.post(kPath, body + "}").body), "choices", 0, "text")), "h\u00e9!");
    EXPECT_EQ(joined_text(s.stream(kPath, body + R"(,"stream":true})")), "h\u00e9!");
  }
  EXPECT_EQ(
      text_at(json_at(parse_json(s.post(kPath, R"({"echo":true,"prompt":[107,108]})").body), "choices", 0, "text")),
      "hi!");
}

TEST(Completions, Logprobs) {
  TestServer s;
  answer_with(s, "f\xc3\xa9");
  s.start();
  const Json j = parse_json(s.post(kPath, R"({"prompt":"x","logprobs":1})").body);
  EXPECT_EQ(json_at(j, "choices", 0, "logprobs").dump(),
            R"({"tokens":["f","bytes:\\xc3","bytes:\\xa9"],"token_logprobs":[0.0,-0.5,-1.0],)"
            R"("top_logprobs":[{"f":0.0,"A":0.0},{"bytes:\\xc3":-0.5,"A":0.0},{"bytes:\\xa9":-1.0,"A":0.0}],)"
            R"("text_offset":[0,1,1]})");
}

TEST(Completions, SeedsAreDrawnFromTheProcessSource) {
  const auto three = [](uint64_t source) {
    TestServer s;
    s.options.random = counted_random(source);
    s.start();
    std::string out;
    for (int i = 0; i < 3; ++i)
      out += text_at(json_at(parse_json(s.post(kPath, R"({"prompt":"x"})").body), "choices", 0, "text")) + "|";
    return out;
  };
  const std::string one = three(7);
  EXPECT_EQ(one, three(7));
  EXPECT_NE(one, three(8));
  EXPECT_NE(one.substr(0, 16), one.substr(17, 16));
}

// 1,024 sequences with 262,144 ids each would be a gigabyte.
TEST(Completions, TheSequencesOfARequestShareWhatItSays) {
  TestServer s;
  std::vector<SamplingParams> seen;
  s.engine.script = [&](const Request& r) {
    seen.push_back(r.sampling);
    return byte_tokens("x");
  };
  s.start();
  EXPECT_EQ(s.post(kPath, R"({"prompt":["x","y"],"n":3,"allowed_token_ids":[1,2,3],"bad_token_ids":[5],)"
                          R"("logit_bias":{"7":1},"dry_multiplier":1})")
                .status,
            200);
  ASSERT_EQ(seen.size(), 6U);
  for (const SamplingParams& p : seen) {
    EXPECT_EQ(p.allowed_ids.size(), 3U);
    EXPECT_EQ(p.allowed_ids.data(), seen[0].allowed_ids.data());
    EXPECT_EQ(p.bad_words.data(), seen[0].bad_words.data());
    EXPECT_EQ(p.logit_bias.data(), seen[0].logit_bias.data());
    EXPECT_EQ(p.dry_breakers.data(), seen[0].dry_breakers.data());
  }
}

TEST(Completions, SamplingReachesTheEngine) {
  TestServer s;
  Request seen;
  s.engine.script = [&](const Request& r) {
    seen.sampling = r.sampling;
    seen.max_tokens = r.max_tokens;
    seen.cache_salt = r.cache_salt;
    seen.priority = r.priority;
    return byte_tokens("x");
  };
  s.start();
  EXPECT_EQ(s.post(kPath, R"({"prompt":"x","temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"seed":-1,
      "max_tokens":9223372036854775807,"logit_bias":{"5":-100,"6":1.5},"cache_salt":"t","priority":-3})")
                .status,
            200);
  EXPECT_EQ(seen.sampling.temperature, 0.5F);
  EXPECT_EQ(seen.sampling.top_p, 0.25F);
  EXPECT_EQ(seen.sampling.top_k, 7);
  EXPECT_EQ(seen.sampling.min_p, 0.125F);
  EXPECT_EQ(seen.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(seen.max_tokens, 4096 - 2);  // clipped to the context
  ASSERT_EQ(seen.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(seen.sampling.logit_bias[0].add, -100.0F);
  EXPECT_EQ(seen.sampling.logit_bias[1].id, 6);
  EXPECT_EQ(seen.sampling.logit_bias[1].mul, 1.0F);
  EXPECT_NE(seen.cache_salt, 0u);
  EXPECT_EQ(seen.priority, -3);
  EXPECT_EQ(
      s.post(kPath, R"({"prompt":"x","top_k":-1,"top_p":0,"temperature":1e-308,"max_completion_tokens":1e30})").status,
      200);
  EXPECT_EQ(seen.sampling.top_k, 0);
  EXPECT_GT(seen.sampling.top_p, 0.0F);
  EXPECT_EQ(seen.sampling.temperature, 0.0F);
  EXPECT_EQ(seen.max_tokens, 4096 - 2);
  EXPECT_EQ(seen.cache_salt, 0u);
  EXPECT_EQ(seen.sampling.n_logprobs, -1);
}

TEST(Completions, EverySamplingFieldReachesTheEngine) {
  TestServer s;
  SamplingParams seen;
  bool match = true;
  s.engine.script = [&](const Request& r) {
    seen = r.sampling;
    match = r.match_prefix;
    return byte_tokens("x");
  };
  s.start();
  EXPECT_EQ(s.post(kPath, R"({"prompt":"x","typ_p":0.5,"top_n_sigma":1.5,"xtc_probability":0.25,"xtc_threshold":0.125,
      "dynatemp_range":0.5,"dynatemp_exponent":2,"mirostat":1,"mirostat_tau":4,"mirostat_eta":0.25,"min_keep":3,
      "repeat_penalty":1.5,"presence_penalty":-1,"frequency_penalty":0.5,"repeat_last_n":64,"dry_multiplier":0.75,
      "dry_base":2,"dry_allowed_length":3,"dry_penalty_last_n":100,"dry_sequence_breakers":["b"],
      "no_repeat_ngram_size":4,"top_p_decay":0.5,"top_p_min":0.25,"top_p_reset_ids":[9],"allowed_token_ids":[5,6],
      "bad_words":["ab"],"bad_token_ids":[7],"min_tokens":3,"cache_prompt":false,
      "samplers":["penalties","dry","top_k","typ_p","temperature"]})")
                .status,
            200);
  EXPECT_EQ(seen.typical_p, 0.5F);
  EXPECT_EQ(seen.top_n_sigma, 1.5F);
  EXPECT_EQ(seen.xtc_probability, 0.25F);
  EXPECT_EQ(seen.xtc_threshold, 0.125F);
  EXPECT_EQ(seen.dynatemp_range, 0.5F);
  EXPECT_EQ(seen.dynatemp_exponent, 2.0F);
  EXPECT_EQ(seen.mirostat, 1);
  EXPECT_EQ(seen.mirostat_tau, 4.0F);
  EXPECT_EQ(seen.mirostat_eta, 0.25F);
  EXPECT_EQ(seen.min_keep, 3);
  EXPECT_EQ(seen.repetition_penalty, 1.5F);
  EXPECT_EQ(seen.presence_penalty, -1.0F);
  EXPECT_EQ(seen.frequency_penalty, 0.5F);
  EXPECT_EQ(seen.repeat_last_n, 64);
  EXPECT_EQ(seen.dry_multiplier, 0.75F);
  EXPECT_EQ(seen.dry_base, 2.0F);
  EXPECT_EQ(seen.dry_allowed_length, 3);
  EXPECT_EQ(seen.dry_last_n, 100);
  EXPECT_EQ(seen.dry_breakers, (std::vector<Token>{kFirstByte + 'b', kFirstWord + 4, kFirstWord + 5}));
  EXPECT_EQ(seen.no_repeat_ngram_size, 4);
  EXPECT_EQ(seen.top_p_decay, 0.5F);
  EXPECT_EQ(seen.top_p_min, 0.25F);
  EXPECT_EQ(seen.top_p_reset_id, 9);
  EXPECT_EQ(seen.allowed_ids, (std::vector<Token>{5, 6}));
  ASSERT_EQ(seen.bad_words.size(), 3U);
  EXPECT_EQ(seen.bad_words[0], (std::vector<Token>{kFirstWord + 5}));
  EXPECT_EQ(seen.bad_words[1].back(), kFirstWord + 5) << "with a space before it";
  EXPECT_EQ(seen.bad_words[2], (std::vector<Token>{7}));
  EXPECT_EQ(seen.min_tokens, 3);
  EXPECT_FALSE(match);
  EXPECT_EQ(seen.order,
            (std::vector<Filter>{kFilter<filters::TopK>, kFilter<filters::TypicalP>, kFilter<filters::Temperature>}));

  EXPECT_EQ(s.post(kPath, R"({"prompt":"x","samplers":["top_k"],"temperature":0,"repetition_penalty":2,
      "dry_multiplier":1})")
                .status,
            200);
  EXPECT_EQ(seen.temperature, 1.0F) << "what the list leaves out does not act";
  EXPECT_EQ(seen.repetition_penalty, 1.0F);
  EXPECT_EQ(seen.dry_multiplier, 0.0F);
}

TEST(Completions, PromptLogprobsStandInEachChoice) {
  TestServer s;
  answer_with(s, "yz");
  s.start();
  const Json j = parse_json(s.post(kPath, R"({"prompt":"abcc","n":2,"prompt_logprobs":1})").body);
  for (const int c : {0, 1}) {
    const Json list = json_at(j, "choices", c, "prompt_logprobs");
    ASSERT_EQ(list.as_array()->size(), 3U);
    EXPECT_TRUE(json_at(list, 0).is_null());
    EXPECT_EQ(json_at(list, 2).dump(),
              R"({"102":{"logprob":-1.0,"decoded_token":"c"},"68":{"logprob":-1.0,"decoded_token":"A"}})");
  }
}

TEST(Completions, EchoWithLogprobsBeginsWithThePrompt) {
  TestServer s;
  answer_with(s, "yz");
  s.start();
  const std::string body = R"({"prompt":"abcc","echo":true,"logprobs":2,"max_tokens":)";
  const Json j = parse_json(s.post(kPath, body + "2}").body);
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "text")), "abccyz");
  const Json l = json_at(j, "choices", 0, "logprobs");
  EXPECT_EQ(json_at(l, "tokens").dump(), R"(["<s>","abc","c","y","z"])");
  EXPECT_EQ(json_at(l, "text_offset").dump(), "[0,0,3,4,5]");
  EXPECT_TRUE(json_at(l, "token_logprobs", 0).is_null());
  EXPECT_TRUE(json_at(l, "top_logprobs", 0).is_null());
  EXPECT_EQ(json_at(l, "token_logprobs", 2).number(), -1.0);
  EXPECT_EQ(json_at(l, "top_logprobs", 2).as_object()->size(), 3U);

  const Json none = parse_json(s.post(kPath, body + "0}").body);
  EXPECT_EQ(text_at(json_at(none, "choices", 0, "text")), "abcc");
  EXPECT_EQ(json_at(none, "choices", 0, "logprobs", "tokens").as_array()->size(), 3U);
  EXPECT_EQ(json_at(none, "usage", "completion_tokens").number(), 0.0);
  EXPECT_EQ(text_at(json_at(none, "choices", 0, "finish_reason")), "length");
}

TEST(Completions, MinTokensAlsoHoldsForStopStrings) {
  TestServer s;
  answer_with(s, "ababab");
  s.start();
  const Json j = parse_json(s.post(kPath, R"({"prompt":"x","stop":"b","min_tokens":3})").body);
  EXPECT_EQ(text_at(json_at(j, "choices", 0, "text")), "aba");
}

TEST(Completions, WarnsAboutUnknownFieldsAndNames) {
  TestServer s;
  s.start();
  const HttpResponse r = s.post(kPath, "{\"model\":\"gpt-4o\",\"prompt\":\"x\",\"frobnicate\":1,\"a b\\r\\nX: y\":2}");
  EXPECT_EQ(r.status, 200);
  std::string warnings;
  for (const HttpHeader& h : r.headers)
    if (h.name == "x-quire-warning") warnings += h.value + ";";
  EXPECT_EQ(warnings,
            "unknown fields were ignored: frobnicate a?b??X:?y; model gpt-4o is not loaded; answered by tiny;");
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "model")), "tiny");
}

}  // namespace
}  // namespace quire
