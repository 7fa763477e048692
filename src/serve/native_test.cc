// /generate, /infill, /props and /v1/embeddings over a real socket.
#include <cmath>
#include <cstring>

#include "serve/testing.h"

namespace quire {
namespace {

TEST(Generate, TakesIdsAndGivesIds) {
  TestServer s;
  std::vector<Token> prompt;
  s.engine.script = [&](const Request& r) {
    prompt = r.prompt;
    return std::vector<Token>{kFirstWord + 1, kFirstWord + 2, 2};
  };
  s.start();
  const HttpResponse r = s.post("/generate", R"({"input_ids":[1,259,7],"logprobs":1})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(prompt, (std::vector<Token>{1, 259, 7})) << "nothing is added to ids";
  const Json choice = json_at(parse_json(r.body), "choices", 0);
  EXPECT_EQ(json_at(choice, "output_ids").dump(), "[260,261]");
  EXPECT_EQ(text_at(json_at(choice, "text")), " the cat");
  EXPECT_EQ(json_at(choice, "logprobs", 0).dump(),
            R"({"id":260,"logprob":-0.25,"top_logprobs":[{"id":68,"logprob":0.0}]})");
  EXPECT_EQ(text_at(json_at(choice, "finish_reason")), "stop");
  const HttpResponse bare = s.post("/generate", R"({"text":"a","add_special_tokens":false})");
  EXPECT_EQ(prompt, (std::vector<Token>{100}));
  EXPECT_TRUE(json_at(parse_json(bare.body), "choices", 0, "logprobs").is_null());
  EXPECT_EQ(json_at(parse_json(bare.body), "choices", 0, "output_ids").dump(), "[260,261]") << "ids without logprobs";
}

TEST(Generate, StreamsTheSameIds) {
  TestServer s;
  s.start();
  const char* body = R"({"input_ids":[1,2,3],"n":2,"seed":5,"stop":["q"],"logprobs":0)";
  const Json whole = parse_json(s.post("/generate", body + std::string("}")).body);
  std::vector<Json::Array> ids(2);
  std::string text[2];
  int n_ends = 0;
  for (const SseEvent& e : s.stream("/generate", body + std::string(R"(,"stream":true})")).list) {
    if (e.data == "[DONE]") continue;
    const Json j = parse_json(e.data);
    if (j.find("index") == nullptr) {
      EXPECT_EQ(json_at(j, "usage").dump(), json_at(whole, "usage").dump());
      continue;
    }
    const auto i = static_cast<size_t>(int_at(json_at(j, "index")));
    for (const Json& id : list_of(json_at(j, "output_ids"))) ids[i].push_back(id);
    text[i] += text_at(json_at(j, "text"));
    n_ends += json_at(j, "finish_reason").is_null() ? 0 : 1;
  }
  EXPECT_EQ(n_ends, 2);
  for (const int i : {0, 1}) {
    EXPECT_EQ(Json(ids[static_cast<size_t>(i)]).dump(), json_at(whole, "choices", i, "output_ids").dump());
    EXPECT_EQ(text[i], text_at(json_at(whole, "choices", i, "text")));
  }
}

TEST(Generate, RefusesByName) {
  TestServer s;
  s.start();
  const std::pair<const char*, const char*> cases[] = {{R"({})", "input_ids"},
                                                       {R"({"input_ids":[]})", "input_ids"},
                                                       {R"({"input_ids":[-1]})", "input_ids[0]"},
                                                       {R"({"input_ids":[1,"x"]})", "input_ids[1]"},
                                                       {R"({"input_ids":[100000]})", "input_ids[0]"},
                                                       {R"({"input_ids":[1],"text":"x"})", "text"},
                                                       {R"({"text":"","add_special_tokens":false})", "text"}};
  EXPECT_NE(s.post("/generate", "{}").body.find("'input_ids' or 'text' is required"), std::string::npos);
  for (const auto& [body, param] : cases) {
    const HttpResponse r = s.post("/generate", body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), param) << r.body;
  }
}

struct FillServer : TestServer {
  FillServer() {
    TokenizerSpec spec = tiny_spec();
    first = static_cast<Token>(spec.tokens.size());
    for (const char* mark : {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"}) {
      spec.tokens.emplace_back(mark);
      spec.types.push_back(TokenType::control);
      spec.scores.push_back(-1.0F);
    }
    tokenizer = tiny_tokenizer(std::move(spec));
    engine.script = [this](const Request& r) {
      prompt = r.prompt;
      return std::vector<Token>{kFirstByte + 'm', first + 3, kFirstByte + 'n'};
    };
  }
  Token first = 0;
  std::vector<Token> prompt;
};

TEST(Infill, PutsTheMarksAroundPrefixAndSuffix) {
  FillServer s;
  s.start();
  const HttpResponse r = s.post("/infill", R"({"input_prefix":"a","input_suffix":"z"})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(s.prompt, (std::vector<Token>{1, s.first, kFirstByte + 'a', s.first + 1, kFirstByte + 'z', s.first + 2}));
  const Json j = parse_json(r.body);
  EXPECT_EQ(text_at(json_at(j, "content")), "m") << "the next file's mark ends it";
  EXPECT_EQ(text_at(json_at(j, "stop_type")), "eos");
  const auto e = s.stream("/infill", R"({"input_prefix":"a","input_suffix":"z","stream":true})");
  ASSERT_EQ(e.list.size(), 2u);
  const Json first = parse_json(e.list[0].data);
  EXPECT_EQ(text_at(json_at(first, "content")), "m");
  EXPECT_EQ(json_at(first, "stop"), Json(false));
  EXPECT_EQ(json_at(parse_json(e.list[1].data), "stop"), Json(true));
  s.post("/infill",
         R"({"input_prefix":"a","input_suffix":"","prompt":"b","input_extra":[{"filename":"f","text":"t"}]})");
  EXPECT_EQ(s.prompt[1], s.first + 3);
  EXPECT_EQ(s.prompt[6], s.first + 3) << "the file that is filled in comes last";
  const HttpResponse missing = s.post("/infill", R"({"input_prefix":"a"})");
  EXPECT_EQ(missing.status, 400);
  EXPECT_EQ(text_at(json_at(parse_json(missing.body), "error", "param")), "input_suffix");
}

TEST(Infill, SaysWhereTheVocabularyHasNoMarks) {
  TestServer s;
  s.start();
  const HttpResponse r = s.post("/infill", R"({"input_prefix":"a","input_suffix":"z"})");
  EXPECT_EQ(r.status, 400);
  EXPECT_NE(r.body.find("has no fill-in-the-middle tokens"), std::string::npos) << r.body;
}

TEST(Defaults, StandForWhatARequestDoesNotSayInEveryDialect) {
  TestServer s;
  s.options.sampling.set("temperature", 0.6, "generation_config.json");
  s.options.sampling.set("top_k", 40, "table");
  s.options.sampling.set("repetition_penalty", 1.1, "option");
  s.options.sampling.set("max_tokens", 5, "option");
  s.options.sampling.seed = 7;
  std::mutex mu;
  struct Seen {
    SamplingParams sampling;
    int64_t max_tokens;
  };
  std::vector<Seen> seen;
  s.engine.script = [&](const Request& request) {
    const std::lock_guard lock(mu);
    seen.push_back({request.sampling, request.max_tokens});
    return std::vector<Token>(3, kFirstByte + 'a');
  };
  s.start();
  const std::pair<const char*, const char*> silent[] = {
      {"/v1/completions", R"({"prompt":"a"})"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})"},
      {"/v1/responses", R"({"input":"a"})"},
      {"/api/chat", R"({"messages":[{"role":"user","content":"a"}],"stream":false})"},
      {"/generate", R"({"input_ids":[3]})"},
  };
  for (const auto& [path, body] : silent) {
    const HttpResponse r = s.post(path, body);
    ASSERT_EQ(r.status, 200) << path << r.body;
    const Seen& got = seen.back();
    EXPECT_FLOAT_EQ(got.sampling.temperature, 0.6F) << path;
    EXPECT_EQ(got.sampling.top_k, 40) << path;
    EXPECT_FLOAT_EQ(got.sampling.repetition_penalty, 1.1F) << path;
    EXPECT_EQ(got.sampling.seed, 7U) << path;
    EXPECT_EQ(got.max_tokens, 5) << path;
  }
  EXPECT_EQ(s.post("/v1/completions", R"({"prompt":"a","temperature":0,"top_k":0,"max_tokens":2,"seed":9})").status,
            200);
  EXPECT_EQ(seen.back().sampling.temperature, 0.0F);
  EXPECT_EQ(seen.back().sampling.top_k, 0);
  EXPECT_EQ(seen.back().sampling.seed, 9U);
  EXPECT_EQ(seen.back().max_tokens, 2);

  const Json props = parse_json(s.get("/props").body);
  EXPECT_EQ(json_at(props, "default_generation_settings", "params").dump(),
            R"({"temperature":0.6,"top_k":40,"repetition_penalty":1.1,"max_tokens":5,"seed":7})");
  EXPECT_EQ(text_at(json_at(props, "default_generation_from", "temperature")), "generation_config.json");
}

TEST(Props, TellModelTemplateSlotsAndLimits) {
  TestServer s;
  s.options.card.architecture = "llama";
  s.start();
  const Json j = parse_json(s.get("/props").body);
  EXPECT_EQ(int_at(json_at(j, "default_generation_settings", "n_ctx")), 4096);
  EXPECT_EQ(int_at(json_at(j, "total_slots")), s.engine.options_.max_seqs);
  EXPECT_EQ(text_at(json_at(j, "model", "architecture")), "llama");
  EXPECT_EQ(text_at(json_at(j, "bos_token")), "<s>");
  EXPECT_NE(text_at(json_at(j, "chat_template")).find("Assistant:"), std::string::npos);
  EXPECT_EQ(int_at(json_at(j, "limits", "n_choices")), s.options.limits.n_choices);
}

struct EmbeddingServer : TestServer {
  EmbeddingServer() { options.card.n_embd = 4; }
};

TEST(Embeddings, AreNormalisedAndInOrder) {
  EmbeddingServer s;
  s.start();
  const HttpResponse r = s.post("/v1/embeddings", R"({"input":["a","ab cat"],"normalize":false})");
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = parse_json(r.body);
  EXPECT_EQ(json_at(j, "data", 0, "embedding").dump(), "[2.0,2.0,100.0,0.0]");
  EXPECT_EQ(json_at(j, "data", 1, "embedding", 0).number(), 6);
  EXPECT_EQ(int_at(json_at(j, "data", 1, "index")), 1);
  EXPECT_EQ(json_at(j, "usage").dump(), R"({"prompt_tokens":8,"total_tokens":8})");
  const Json unit =
      json_at(parse_json(s.post("/v1/embeddings", R"({"input":[5,6],"pooling":"mean"})").body), "data", 0, "embedding");
  const double norm = std::sqrt(4.0 + 1.0 + 36.0);
  EXPECT_FLOAT_EQ(static_cast<float>(json_at(unit, 0).number()), static_cast<float>(2 / norm));
  EXPECT_FLOAT_EQ(static_cast<float>(json_at(unit, 1).number()), static_cast<float>(1 / norm));
}

TEST(Embeddings, ComeAsBase64OfFloats) {
  EmbeddingServer s;
  s.start();
  const Json j =
      parse_json(s.post("/v1/embeddings", R"({"input":[[7,8,9]],"encoding_format":"base64","normalize":false})").body);
  // 3.0f, 2.0f, 9.0f, 0.0f, little-endian.
  EXPECT_EQ(text_at(json_at(j, "data", 0, "embedding")), "AABAQAAAAEAAABBBAAAAAA==");
}

TEST(Embeddings, RefuseByName) {
  EmbeddingServer s;
  s.options.limits.n_prompts = 3;
  s.start();
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "input"},
      {R"({"input":""})", "input"},
      {R"({"input":[]})", "input"},
      {R"({"input":["a",""]})", "input[1]"},
      {R"({"input":["a","b","c","d"]})", "input"},
      {R"({"input":[[1],[]]})", "input[1]"},
      {R"({"input":[1,99999]})", "input[1]"},
      {R"({"input":[{"x":1}]})", "input[0].prompt_string"},
      {R"({"input":"a","dimensions":0})", "dimensions"},
      {R"({"input":"a","dimensions":1000000})", "dimensions"},
      {R"({"input":"a","encoding_format":"int8"})", "encoding_format"},
      {R"({"input":"a","pooling":"cls"})", "pooling"},
  };
  for (const auto& [body, param] : cases) {
    const HttpResponse r = s.post("/v1/embeddings", body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), param) << r.body;
  }
  EXPECT_EQ(s.post("/v1/embeddings", R"({"input":"a","dimensions":4})").status, 200);
  TestServer without;
  without.start();
  EXPECT_NE(without.post("/v1/embeddings", R"({"input":"a"})").body.find("gives no embeddings"), std::string::npos);
}

}  // namespace
}  // namespace quire
