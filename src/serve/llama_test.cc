// /completion, /embedding and the other endpoints that llama.cpp's clients call, over a real socket.
#include "serve/testing.h"

namespace quire {
namespace {

struct LlamaServer : TestServer {
  LlamaServer() {
    options.card = {"llama", "q8_0", 1'000, 1'000, 1'700'000'000, 4, 0xabcULL};
    engine.script = [this](const Request& r) {
      last = {r.prompt, r.sampling};
      return byte_tokens("Hi you");
    };
  }
  struct {
    std::vector<Token> prompt;
    SamplingParams sampling;
  } last;
};

TEST(Llama, CompletionAnswersInTheFormOfTheReference) {
  LlamaServer s;
  s.engine.n_cached = 1;
  s.start();
  for (const char* path : {"/completion", "/completions"}) {
    const HttpResponse r = s.post(path, R"({"prompt":"ab","n_predict":-1,"return_tokens":true,"seed":3,"id_slot":0})");
    ASSERT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(s.last.prompt.front(), 1) << "the special tokens stand before a text";
    const Json j = parse_json(r.body);
    EXPECT_EQ(text_at(json_at(j, "content")), "Hi you");
    EXPECT_EQ(list_of(json_at(j, "tokens")).size(), 6u);
    EXPECT_EQ(text_at(json_at(j, "model")), "tiny");
    EXPECT_EQ(text_at(json_at(j, "prompt")), "<s>ab");
    EXPECT_EQ(text_at(json_at(j, "stop_type")), "eos");
    EXPECT_EQ(int_at(json_at(j, "tokens_predicted")), 7) << "with the end token";
    EXPECT_EQ(int_at(json_at(j, "tokens_evaluated")), 2) << "<s> and ab";
    EXPECT_EQ(int_at(json_at(j, "timings", "cache_n")), 1);
    EXPECT_EQ(int_at(json_at(j, "timings", "predicted_n")), 7);
    EXPECT_EQ(int_at(json_at(j, "generation_settings", "seed")), 3);
    EXPECT_EQ(int_at(json_at(j, "generation_settings", "n_predict")), -1);
  }
}

TEST(Llama, PromptsInEveryForm) {
  LlamaServer s;
  s.start();
  const auto prompt = [&](const std::string& json) {
    const HttpResponse r = s.post("/completion", "{\"prompt\":" + json + "}");
    EXPECT_EQ(r.status, 200) << r.body;
    return s.last.prompt;
  };
  EXPECT_EQ(prompt("[5,6,7]"), (std::vector<Token>{5, 6, 7}));
  EXPECT_EQ(prompt(R"(["ab",7,"ab"])"), (std::vector<Token>{1, kFirstWord + 5, 7, kFirstWord + 5}));
  EXPECT_EQ(prompt(R"([7,"ab"])"), (std::vector<Token>{7, kFirstWord + 5}));
  EXPECT_EQ(prompt(R"({"prompt_string":"ab"})"), (std::vector<Token>{1, kFirstWord + 5}));
  const Json two = parse_json(s.post("/completion", R"({"prompt":["ab",[5,"ab"]]})").body);
  ASSERT_EQ(list_of(two).size(), 2u);
  EXPECT_EQ(text_at(json_at(two, 1, "prompt")), text_at(json_at(two, 1, "prompt")));
  EXPECT_EQ(int_at(json_at(two, 1, "index")), 1);
  EXPECT_EQ(int_at(json_at(two, 1, "tokens_evaluated")), 2);
}

TEST(Llama, StreamsWithTokensAndTimings) {
  LlamaServer s;
  s.start();
  const auto e = s.stream("/completion", R"({"prompt":"ab","stream":true,"timings_per_token":true,"n_probs":1})");
  std::string text;
  size_t n_tokens = 0, n_probs = 0;
  for (const SseEvent& event : e.list) {
    const Json j = parse_json(event.data);
    text += text_at(json_at(j, "content"));
    n_tokens += list_of(json_at(j, "tokens")).size();
    EXPECT_FALSE(json_at(j, "timings", "predicted_n").is_null()) << event.data;
    const bool last = &event == &e.list.back();
    EXPECT_EQ(json_at(j, "stop"), Json(last));
    if (!last) {
      ASSERT_EQ(list_of(json_at(j, "completion_probabilities")).size(), 1u) << "an event a token";
      EXPECT_EQ(json_at(j, "completion_probabilities", 0, "id"), json_at(j, "tokens", 0));
      EXPECT_EQ(text_at(json_at(j, "content")), text_at(json_at(j, "completion_probabilities", 0, "token")));
      ++n_probs;
    }
  }
  EXPECT_EQ(text, "Hi you");
  EXPECT_EQ(n_tokens, 6u);
  EXPECT_EQ(n_probs, 6u);
}

TEST(Llama, AnswersOnlyTheFieldsThatAreAskedFor) {
  LlamaServer s;
  s.start();
  const HttpResponse r =
      s.post("/completion", R"({"prompt":"ab","response_fields":["content","timings/predicted_n","no/such","stop"]})");
  EXPECT_EQ(r.body, R"({"timings/predicted_n":7,"stop":true,"content":"Hi you"})");
  const HttpResponse bare = s.post("/completion", R"({"prompt":"ab","response_fields":["content"]})");
  EXPECT_EQ(bare.body, R"({"content":"Hi you"})");
}

TEST(Llama, ProbabilitiesOfWhatIsDrawnFrom) {
  LlamaServer s;
  s.start();
  const Json j = parse_json(s.post("/completion", R"({"prompt":"ab","n_probs":2,"post_sampling_probs":true})").body);
  EXPECT_TRUE(s.last.sampling.drawn_logprobs);
  const Json& first = json_at(j, "completion_probabilities", 0);
  EXPECT_TRUE(json_at(first, "logprob").is_null());
  ASSERT_EQ(list_of(json_at(first, "top_probs")).size(), 2u);
  EXPECT_EQ(json_at(first, "top_probs", 0, "prob"), Json(1.0)) << "the engine's 0, as a probability";
  EXPECT_EQ(json_at(j, "generation_settings", "post_sampling_probs"), Json(true));
  EXPECT_EQ(s.post("/v1/completions", R"({"prompt":"ab","post_sampling_probs":true})").status, 400);
}

TEST(Llama, TellsHowFarThePromptIs) {
  LlamaServer s;
  s.engine.n_cached = 1;
  s.start();
  for (const auto& [path, prompt] :
       {std::pair("/completion", R"("prompt":[5,6,7])"), {"/v1/completions", R"("prompt":[5,6,7])"}}) {
    const auto e =
        s.stream(path, std::string("{") + prompt +
                           R"(,"stream":true,"return_progress":true,"timings_per_token":true,"max_tokens":3})");
    std::vector<Json> told;
    for (const SseEvent& event : e.list) {
      if (event.data == "[DONE]") continue;
      const Json j = parse_json(event.data);
      if (j.find("prompt_progress") != nullptr) told.push_back(j);
    }
    ASSERT_EQ(told.size(), 2u) << path;
    EXPECT_EQ(int_at(json_at(told[0], "prompt_progress", "total")), 3);
    EXPECT_EQ(int_at(json_at(told[0], "prompt_progress", "cache")), 1);
    EXPECT_EQ(int_at(json_at(told[0], "prompt_progress", "processed")), 1);
    EXPECT_EQ(json_at(told[0], "timings", "prompt_ms"), Json(0.0)) << "nothing is computed";
    EXPECT_EQ(int_at(json_at(told[1], "prompt_progress", "processed")), 3);
    EXPECT_EQ(int_at(json_at(told[1], "timings", "prompt_n")), 2);
  }
  EXPECT_EQ(
      s.post("/v1/messages", R"({"max_tokens":3,"messages":[{"role":"user","content":"a"}],"return_progress":true})")
          .status,
      400);
}

TEST(Llama, SettingsAndEndsAreToldAsTheReferenceHasThem) {
  LlamaServer s;
  s.start();
  const Json whole = parse_json(
      s.post("/completion", R"({"prompt":"ab","n_predict":2,"ignore_eos":true,"logit_bias":[[7,1.5]]})").body);
  EXPECT_EQ(json_at(whole, "truncated"), Json(false)) << "cut by n_predict";
  EXPECT_EQ(json_at(whole, "has_new_line"), Json(false));
  const Json& bias = json_at(whole, "generation_settings", "logit_bias");
  ASSERT_GE(list_of(bias).size(), 2u);
  EXPECT_EQ(json_at(bias, 0, "bias"), Json(1.5));
  EXPECT_TRUE(json_at(bias, 1, "bias").is_null()) << "an end token never comes";
  EXPECT_EQ(json_at(whole, "timings", "predicted_per_second").is_null(), false);
}

TEST(Llama, PromptsThatDoNotFitAreRefusedWithNumbers) {
  LlamaServer s;
  s.engine.options_.n_ctx = 128;
  s.start();
  const HttpResponse r = s.post(
      "/completion", "{\"prompt\":[" + [] {
        std::string ids = "5";
        for (int i = 0; i < 200; ++i) ids += ",5";
        return ids;
      }() + "]}");
  EXPECT_EQ(r.status, 400);
  const Json j = parse_json(r.body);
  EXPECT_EQ(text_at(json_at(j, "error", "type")), "exceed_context_size_error");
  EXPECT_EQ(text_at(json_at(j, "error", "code")), "context_length_exceeded");
  EXPECT_EQ(int_at(json_at(j, "error", "n_prompt_tokens")), 201);
  EXPECT_EQ(int_at(json_at(j, "error", "n_ctx")), 128);
  EXPECT_NE(r.body.find("exceeds the available context size"), std::string::npos) << r.body;
}

TEST(Llama, MetricsUnderItsNamesWhereAskedFor) {
  for (const bool asked : {false, true}) {
    LlamaServer s;
    s.options.llama_metrics = asked;
    s.start();
    EXPECT_EQ(s.post("/completion", R"({"prompt":"ab"})").status, 200);
    const std::string text = s.get("/metrics").body;
    EXPECT_EQ(text.find("\nllamacpp:tokens_predicted_total ") != std::string::npos, asked);
    EXPECT_EQ(text.find("# TYPE llamacpp:requests_processing gauge\n") != std::string::npos, asked);
  }
}

TEST(Llama, PiecesOfTokens) {
  LlamaServer s;
  s.start();
  const Json j = parse_json(s.post("/tokenize", R"({"content":"ab","with_pieces":true})").body);
  EXPECT_EQ(int_at(json_at(j, "tokens", 0, "id")), kFirstWord + 5);
  EXPECT_EQ(text_at(json_at(j, "tokens", 0, "piece")), "ab");
}

TEST(Llama, VectorsOfEachTokenAndInputsInEveryForm) {
  LlamaServer s;
  s.start();
  const Json rows = parse_json(s.post("/embeddings", R"({"input":[5,6,7],"pooling":"none"})").body);
  ASSERT_EQ(list_of(json_at(rows, 0, "embedding")).size(), 3u);
  EXPECT_EQ(json_at(rows, 0, "embedding", 2, 0), Json(3.0)) << "not normalised";
  EXPECT_EQ(s.post("/v1/embeddings", R"({"input":[5,6,7],"pooling":"none"})").status, 400);
  const Json many =
      parse_json(s.post("/v1/embeddings", R"({"normalize":false,"input":["ab",[5,"ab",6],{"prompt_string":"ab"},
      {"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})")
                     .body);
  std::vector<double> lengths;
  for (const Json& one : list_of(json_at(many, "data"))) lengths.push_back(json_at(one, "embedding", 0).number());
  EXPECT_EQ(lengths, (std::vector<double>{2, 3, 2, 2}));
  for (const char* bad : {R"({"content":"x"})", R"({"content":[{"type":"image_url"}]})", R"({})", R"([5,{}])", "[[]]"})
    EXPECT_EQ(s.post("/v1/embeddings", std::string(R"({"input":)") + bad + "}").status, 400) << bad;
}

TEST(Llama, AnotherTemplateThanTheModels) {
  LlamaServer s;
  s.options.chat_template = "[{{ messages[0]['content'] }}]";
  s.start();
  const Json j = parse_json(s.post("/apply-template", R"({"messages":[{"role":"user","content":"hey"}]})").body);
  EXPECT_NE(text_at(json_at(j, "prompt")).find("[hey]"), std::string::npos);
  EXPECT_EQ(text_at(json_at(parse_json(s.get("/props").body), "chat_template")), s.options.chat_template);
  const Json n =
      parse_json(s.post("/chat/completions/input_tokens", R"({"messages":[{"role":"user","content":"hey"}]})").body);
  EXPECT_EQ(int_at(json_at(n, "input_tokens")), static_cast<int64_t>(list_of(json_at(j, "tokens")).size()));
}

// Each of the choices tells the prompt again.
TEST(Llama, PromptsThatAreToldAgainAreBounded) {
  LlamaServer s;
  s.options.limits.answer_bytes = 100'000;
  s.start();
  const std::string prompt = "\"prompt\":\"" + std::string(3000, 'x') + "\",\"n_predict\":1,\"n\":64";
  const HttpResponse r = s.post("/completion", "{" + prompt + "}");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), "prompt") << r.body;
  EXPECT_NE(r.body.find("64 choices × prompt 30"), std::string::npos) << r.body;
  const HttpResponse without = s.post("/completion", "{" + prompt + R"(,"response_fields":["content"]})");
  EXPECT_EQ(without.status, 200) << without.body;
  for (const SseEvent& event : s.stream("/completion", "{" + prompt + R"(,"stream":true})").list)
    EXPECT_EQ(parse_json(event.data).find("prompt"), nullptr) << "of several choices";
}

// What an editor sends to have the cache filled, and what it sends to be answered.
TEST(Llama, TakesWhatEditorsSend) {
  LlamaServer s;
  s.start();
  const HttpResponse warm = s.post("/completion", R"({"prompt":"ab","n_predict":0,"samplers":[],"cache_prompt":true,
      "t_max_prompt_ms":500,"t_max_predict_ms":1,"response_fields":[""]})");
  EXPECT_EQ(warm.status, 200) << warm.body;
  const HttpResponse r = s.post("/completion", R"({"prompt":"ab","n_predict":128,"top_k":40,"top_p":0.99,
      "samplers":["top_k","top_p","infill"],"n_indent":2,"t_max_predict_ms":1000,"logit_bias":[["ab",false],[7,1.5]]})");
  ASSERT_EQ(r.status, 200) << r.body;
  ASSERT_NE(r.header("x-quire-warning"), nullptr);
  for (const char* name : {"t_max_predict_ms", "n_indent", "infill"})
    EXPECT_NE(r.header("x-quire-warning")->find(name), std::string::npos) << *r.header("x-quire-warning");
  ASSERT_EQ(s.last.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(s.last.sampling.logit_bias[0].id, kFirstWord + 5);
  EXPECT_EQ(s.last.sampling.logit_bias[0].add, -std::numeric_limits<float>::infinity());
}

TEST(Llama, BiasOfTextsAndIdsByKey) {
  LlamaServer s;
  s.start();
  const HttpResponse r = s.post("/completion", R"({"prompt":"ab","logit_bias":{"ab":-2,"7":1.5,"":3}})");
  ASSERT_EQ(r.status, 200) << r.body;
  ASSERT_EQ(s.last.sampling.logit_bias.size(), 2u);
  for (const Edit& edit : s.last.sampling.logit_bias) {
    EXPECT_EQ(edit.add, edit.id == 7 ? 1.5F : -2.0F);
    EXPECT_TRUE(edit.id == 7 || edit.id == kFirstWord + 5) << edit.id;
  }
}

TEST(Llama, OtherEndpointsOfItsClients) {
  LlamaServer s;
  s.start();
  for (const char* path : {"/v1/health", "/models", "/slots", "/tokenizer_info"})
    EXPECT_EQ(s.get(path).status, 200) << path;
  EXPECT_EQ(list_of(parse_json(s.get("/slots").body)).size(), static_cast<size_t>(s.engine.options_.max_seqs));
  const Json vectors = parse_json(s.post("/embedding", R"({"content":["ab","abc"]})").body);
  ASSERT_EQ(list_of(vectors).size(), 2u);
  EXPECT_EQ(list_of(json_at(vectors, 1, "embedding", 0)).size(), 4u);
}

TEST(Ollama, EmbedsAndTellsWhatIsLoaded) {
  LlamaServer s;
  s.start();
  const Json many = parse_json(s.post("/api/embed", R"({"model":"tiny","input":["ab","abc"],"keep_alive":"5m"})").body);
  ASSERT_EQ(list_of(json_at(many, "embeddings")).size(), 2u);
  EXPECT_EQ(int_at(json_at(many, "prompt_eval_count")), 4);
  const Json one = parse_json(s.post("/api/embeddings", R"({"model":"tiny","prompt":"ab"})").body);
  EXPECT_EQ(list_of(json_at(one, "embedding")).size(), 4u);
  const Json loaded = json_at(parse_json(s.get("/api/ps").body), "models", 0);
  EXPECT_EQ(text_at(json_at(loaded, "digest")), "0000000000000abc");
  EXPECT_FALSE(text_at(json_at(loaded, "expires_at")).empty());
  EXPECT_NE(s.post("/api/pull", R"({"model":"tiny:latest"})").body.find("success"), std::string::npos);
  EXPECT_EQ(s.post("/api/pull", R"({"model":"other"})").status, 404);
}

TEST(Ollama, ContextGoesOnFromAnEarlierAnswer) {
  LlamaServer s;
  s.start();
  const Json first = parse_json(s.post("/api/generate", R"({"model":"tiny","prompt":"ab","stream":false})").body);
  const std::vector<Token> began = s.last.prompt;
  const Json context = json_at(first, "context");
  ASSERT_EQ(list_of(context).size(), began.size() + 7) << "the prompt, the answer and its end";
  const HttpResponse r =
      s.post("/api/generate", R"({"model":"tiny","prompt":"abc","stream":false,"context":)" + context.dump() + "}");
  ASSERT_EQ(r.status, 200) << r.body;
  ASSERT_GT(s.last.prompt.size(), began.size() + 7);
  EXPECT_TRUE(std::equal(began.begin(), began.end(), s.last.prompt.begin()));
  EXPECT_EQ(std::count(s.last.prompt.begin(), s.last.prompt.end(), 1), 1) << "one beginning";
  EXPECT_EQ(s.post("/api/generate", R"({"model":"tiny","prompt":"x","context":[99999]})").status, 400);
}

TEST(Anthropic, ItsClientsListOfModels) {
  LlamaServer s;
  s.start();
  const Json list = parse_json(s.get("/v1/models", {{"anthropic-version", "2023-06-01"}}).body);
  EXPECT_EQ(text_at(json_at(list, "data", 0, "type")), "model");
  EXPECT_EQ(text_at(json_at(list, "data", 0, "display_name")), "tiny");
  EXPECT_EQ(json_at(list, "has_more"), Json(false));
  EXPECT_EQ(text_at(json_at(parse_json(s.get("/v1/models").body), "object")), "list") << "others have OpenAI's";
}

}  // namespace
}  // namespace quire
