// What is refused, how, and that nothing reached the engine: OpenAI's error object with the field, the limit and the
// value that came.
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kText = "/v1/completions";
constexpr const char* kChat = "/v1/chat/completions";

struct Refusal {
  const char* path;
  std::string body;
  std::string param;    // "": null
  std::string message;  // a part of it
  int status = 400;
};

void PrintTo(const Refusal& r, std::ostream* out) { *out << r.path << " " << r.body.substr(0, 200); }

std::string text(const std::string& more) { return R"({"prompt":"x",)" + more + "}"; }
std::string chat(const std::string& more) { return R"({"messages":[{"role":"user","content":"x"}],)" + more + "}"; }
std::string message(const std::string& one) { return "{\"messages\":[" + one + "]}"; }
std::string list_of_n(int n, const std::string& one) {
  std::string out = "[";
  for (int i = 0; i < n; ++i) out += (i > 0 ? "," : "") + one;
  return out + "]";
}

std::vector<Refusal> bad_bodies_and_prompts() {
  const std::string depth = std::string(70, '[') + std::string(70, ']');
  return {
      // bytes and JSON
      {kText, "", "", "JSON"},
      {kText, "{", "", "JSON"},
      {kText, "null", "", "must be a JSON object"},
      {kText, "[]", "", "must be a JSON object"},
      {kText, "\"x\"", "", "must be a JSON object"},
      {kText, R"({"prompt":"x"} x)", "", "JSON"},
      {kText, R"({"prompt":"x","prompt":"y"})", "", "JSON"},
      {kText, R"({"prompt":"\ud800"})", "", "JSON"},
      {kText, "{\"prompt\":\"\xff\"}", "", "JSON"},
      {kText, R"({"prompt":"x","temperature":1e999})", "", "JSON"},
      {kText, R"({"prompt":"x","temperature":NaN})", "", "JSON"},
      {kText, text("\"zzz\":" + depth), "", "limit of 64"},
      // prompts
      {kText, "{}", "prompt", "is required"},
      {kText, R"({"prompt":null})", "prompt", "is required"},
      {kText, R"({"prompt":""})", "prompt", "is empty"},
      {kText, R"({"prompt":[]})", "prompt", "is empty"},
      {kText, R"({"prompt":[""]})", "prompt[0]", "is empty"},
      {kText, R"({"prompt":[[]]})", "prompt[0]", "is empty"},
      {kText, R"({"prompt":5})", "prompt", "must be a string or an array"},
      {kText, R"({"prompt":["x",5]})", "prompt[1]", "one kind"},
      {kText, R"({"prompt":["x",[5]]})", "prompt[1]", "one kind"},
      {kText, R"({"prompt":[5,"x"]})", "prompt[1]", "must be an integer"},
      {kText, R"({"prompt":[-1]})", "prompt[0]", "is -1: token ids go from 0 to 266"},
      {kText, R"({"prompt":[5,267]})", "prompt[1]", "is 267: token ids go from 0 to 266"},
      {kText, R"({"prompt":[2147483648]})", "prompt[0]", "is 2147483648"},
      {kText, R"({"prompt":[1.5]})", "prompt[0]", "must be an integer"},
      {kText, R"({"prompt":["x"],"n":128,"best_of":129})", "best_of", "is 129: the maximum is 128"},
      {kText, "{\"prompt\":" + list_of_n(1025, "\"x\"") + "}", "prompt", "has 1025 entries: the limit is 1024"},
      {kText, R"({"n":128,"prompt":)" + list_of_n(9, "\"x\"") + "}", "prompt", "has 1152 sequences"},
      {kText, "{\"prompt\":" + list_of_n(200, "7") + "}", "prompt",
       "has 200 tokens: this model's maximum context length is 128 tokens"},
      {kText, "{\"prompt\":" + list_of_n(128, "7") + "}", "prompt",
       "has 128 tokens: this model's maximum context length is 128 tokens"},
      {kText, "{\"prompt\":[[7]," + list_of_n(128, "7") + "]}", "prompt[1]", "has 128 tokens"},
  };
}

std::vector<Refusal> bad_values() {
  std::string bias = "{";
  for (int i = 0; i < 1025; ++i) bias += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  bias += "}";
  return {
      {kText, text(R"("max_tokens":-3)"), "max_tokens", "is -3: the minimum is -2"},
      {kChat, chat(R"("max_tokens":0)"), "max_tokens", "is 0: the minimum is 1"},
      {kText, text(R"("max_tokens":0)"), "max_tokens", "is 0: the minimum is 1"},
      {kText, text(R"("max_tokens":1.5)"), "max_tokens", "must be an integer"},
      {kText, text(R"("max_tokens":"10")"), "max_tokens", "must be an integer"},
      {kText, text(R"("n":0)"), "n", "is 0: the minimum is 1"},
      {kText, text(R"("n":-1)"), "n", "is -1"},
      {kText, text(R"("n":1000000000)"), "n", "is 1000000000: the maximum is 128"},
      {kText, text(R"("n":4,"best_of":2)"), "best_of", "is 2: it must be at least n, which is 4"},
      {kText, text(R"("n":1,"best_of":2,"stream":true)"), "best_of", "cannot be streamed"},
      {kText, text(R"("logprobs":21)"), "logprobs", "is 21: the maximum is 20"},
      {kText, text(R"("logprobs":-1)"), "logprobs", "is -1"},
      {kText, text(R"("logprobs":true)"), "logprobs", "must be an integer"},
      {kChat, chat(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs", "is 21: the maximum is 20"},
      {kChat, chat(R"("top_logprobs":2)"), "top_logprobs", "needs"},
      {kText, text(R"("temperature":-1)"), "temperature", "is -1: the minimum is 0"},
      {kText, text(R"("temperature":1e308)"), "temperature", "the maximum is 100"},
      {kText, text(R"("temperature":"1")"), "temperature", "must be a number"},
      {kText, text(R"("top_p":1.1)"), "top_p", "is 1.1: the maximum is 1"},
      {kText, text(R"("top_p":-0.1)"), "top_p", "is -0.1"},
      {kText, text(R"("top_k":-2)"), "top_k", "is -2: the minimum is -1"},
      {kText, text(R"("top_k":2147483648)"), "top_k", "is 2147483648"},
      {kText, text(R"("min_p":2)"), "min_p", "is 2"},
      {kText, text(R"("seed":1.5)"), "seed", "must be an integer"},
      {kText, text(R"("seed":18446744073709551616)"), "seed", "maximum"},
      {kText, text(R"("seed":1,"random_seed":2)"), "random_seed", "differs from 'seed'"},
      {kText, text(R"("stop":"")"), "stop", "empty string"},
      {kText, text(R"("stop":["a",""])"), "stop", "empty string"},
      {kText, text(R"("stop":[1])"), "stop[0]", "must be a string"},
      {kText, text("\"stop\":" + list_of_n(17, "\"x\"")), "stop", "has 17 entries: the limit is 16"},
      {kText, text("\"stop\":\"" + std::string(1025, 'x') + "\""), "stop",
       "has 1025 bytes in one string: the limit is 1024"},
      {kText, text("\"stop_token_ids\":" + list_of_n(129, "5")), "stop_token_ids", "has 129 entries: the limit is 128"},
      {kText, text(R"("stop_token_ids":[-1])"), "stop_token_ids[0]", "is -1"},
      {kText, text(R"("logit_bias":{"-1":1})"), "logit_bias.-1", "is no token id: ids go from 0 to 266"},
      {kText, text(R"("logit_bias":{"99999999999999999999":1})"), "logit_bias.99999999999999999999", "is no token id"},
      {kText, text(R"("logit_bias":{"267":1})"), "logit_bias.267", "is no token id"},
      {kText, text(R"("logit_bias":{"5":101})"), "logit_bias.5", "-100 to 100"},
      {kText, text(R"("logit_bias":{"5":1e308})"), "logit_bias.5", "-100 to 100"},
      {kText, text(R"("logit_bias":{"5":"x"})"), "logit_bias.5", "must be a number"},
      {kText, text(R"("logit_bias":[[5,1],7])"), "logit_bias[1]", "must be a pair"},
      {kText, text(R"("logit_bias":[[267,1]])"), "logit_bias[0][0]", "0 to 266"},
      {kText, text(R"("logit_bias":[["a",true]])"), "logit_bias[0]", "must be a number"},
      {kText, text(R"("logit_bias":[[")" + std::string(2000, 'b') + R"(",1]])"), "logit_bias",
       "2000 tokens: the limit"},
      {kText, text(R"("max_tokens":0,"echo":true,"min_tokens":1)"), "min_tokens", "max_tokens is only 0"},
      {kChat, chat(R"("continue_final_message":true)"), "continue_final_message",
       "needs a last message of the assistant's"},
      {kChat,
       R"({"continue_final_message":true,"add_generation_prompt":true,"messages":[{"role":"user","content":"x"},
        {"role":"assistant","content":"a"}]})",
       "continue_final_message", "cannot both be true"},
      {kChat, R"({"response_format":{"type":"json_object"},"messages":[{"role":"user","content":"x"},
        {"role":"assistant","content":"{"}]})",
       "messages[1]", "an answer that is begun"},
      {kText, text("\"logit_bias\":" + bias), "logit_bias", "has 1025 entries: the limit is 1024"},
      {kText, text("\"model\":\"" + std::string(257, 'm') + "\""), "model", "has 257 bytes: the limit is 256"},
      {kText, text(R"("stream":"yes")"), "stream", "must be a boolean"},
      {kText, text(R"("stream_options":{"include_usage":true})"), "stream_options", "only for requests with"},
      {kText, text(R"("stream":true,"stream_options":5)"), "stream_options", "must be an object"},
      {kText, text(R"("stream":true,"stream_options":{"include_usage":5})"), "stream_options.include_usage",
       "must be a boolean"},
      {kText, text(R"("priority":1001)"), "priority", "is 1001"},
  };
}

std::vector<Refusal> bad_sampling() {
  return {
      {kText, text(R"("presence_penalty":2.5)"), "presence_penalty", "is 2.5: the maximum is 2"},
      {kText, text(R"("frequency_penalty":-1e9)"), "frequency_penalty", "the minimum is -2"},
      {kText, text(R"("repetition_penalty":0)"), "repetition_penalty", "is 0: the minimum is 0.01"},
      {kText, text(R"("repeat_penalty":1e9)"), "repeat_penalty", "the maximum is 100"},
      {kText, text(R"("repeat_penalty":1.1,"repetition_penalty":1.2)"), "repetition_penalty", "differs from"},
      {kText, text(R"("repeat_last_n":-2)"), "repeat_last_n", "is -2: the minimum is -1"},
      {kText, text(R"("typical_p":1.5)"), "typical_p", "the maximum is 1"},
      {kText, text(R"("typ_p":-0.5)"), "typ_p", "the minimum is 0"},
      {kText, text(R"("top_n_sigma":-2)"), "top_n_sigma", "the minimum is -1"},
      {kText, text(R"("xtc_probability":1.1)"), "xtc_probability", "the maximum is 1"},
      {kText, text(R"("xtc_threshold":-1)"), "xtc_threshold", "the minimum is 0"},
      {kText, text(R"("dynatemp_range":101)"), "dynatemp_range", "the maximum is 100"},
      {kText, text(R"("dynatemp_exponent":1e308)"), "dynatemp_exponent", "the maximum is 100"},
      {kText, text(R"("mirostat":3)"), "mirostat", "the maximum is 2"},
      {kText, text(R"("mirostat_tau":-1)"), "mirostat_tau", "the minimum is 0"},
      {kText, text(R"("mirostat_eta":2)"), "mirostat_eta", "the maximum is 1"},
      {kText, text(R"("dry_multiplier":-1)"), "dry_multiplier", "the minimum is 0"},
      {kText, text(R"("dry_base":0.5)"), "dry_base", "the minimum is 1"},
      {kText, text(R"("dry_allowed_length":0)"), "dry_allowed_length", "the minimum is 1"},
      {kText, text(R"("dry_penalty_last_n":-2)"), "dry_penalty_last_n", "the minimum is -1"},
      {kText, text("\"dry_sequence_breakers\":" + list_of_n(65, "\"x\"")), "dry_sequence_breakers", "the limit is 64"},
      {kText, text(R"("dry_sequence_breakers":[""])"), "dry_sequence_breakers[0]", "is empty"},
      {kText, text(R"("no_repeat_ngram_size":-1)"), "no_repeat_ngram_size", "the minimum is 0"},
      {kText, text(R"("top_p_decay":0)"), "top_p_decay", "the minimum is 0.01"},
      {kText, text(R"("top_p_reset_ids":[1,2])"), "top_p_reset_ids", "has 2 entries: the limit is 1"},
      {kText, text(R"("top_p_reset_ids":267)"), "top_p_reset_ids[0]", "is 267"},
      {kText, text(R"("min_keep":-1)"), "min_keep", "the minimum is 0"},
      {kText, text(R"("samplers":["top_q"])"), "samplers[0]", "is 'top_q': it must be one of penalties, dry,"},
      {kText, text(R"("samplers":[5])"), "samplers[0]", "must be a string"},
      {kText, text(R"("samplers":["top_k","typ_p","typical_p"])"), "samplers[2]", "stands there already"},
      {kText, text(R"("samplers":["top_k","penalties"])"), "samplers[1]", "act before the others"},
      {kText, text(R"("samplers":"kfypmt")"), "samplers", "must be an array"},
      {kText, text(R"("allowed_token_ids":[267])"), "allowed_token_ids[0]", "is 267"},
      {kText, text(R"("bad_words":["x",""])"), "bad_words[1]", "is empty"},
      {kText, text(R"("bad_words":[5])"), "bad_words[0]", "must be a string"},
      {kText, text("\"bad_words\":" + list_of_n(1025, "\"x\"")), "bad_words", "the limit is 1024"},
      {kText, text(R"("bad_token_ids":[-1])"), "bad_token_ids[0]", "is -1"},
      {kText, text(R"("min_tokens":-1)"), "min_tokens", "the minimum is 0"},
      {kText, text(R"("min_tokens":5,"max_tokens":4)"), "min_tokens", "is 5: max_tokens is only 4"},
      {kText, text(R"("prompt_logprobs":21)"), "prompt_logprobs", "the maximum is 20"},
      {kText, text(R"("prompt_logprobs":-1)"), "prompt_logprobs", "the minimum is 0"},
  };
}

std::vector<Refusal> unsupported_fields() {
  return {
      {kText, text(R"("suffix":"x")"), "suffix", "not supported yet"},
      {kText, text(R"("echo":true,"logprobs":1,"stream":true)"), "echo", "together with logprobs"},
      {kText, text(R"("prompt_logprobs":1,"stream":true)"), "prompt_logprobs", "together with"},
      {kText, text(R"("adaptive_target":0.5)"), "adaptive_target", "not supported yet: only -1 is"},
      {kText, text(R"("beam_width":4)"), "beam_width", "not supported yet: only 1 is"},
      {kText, text(R"("stop_regex":"a+")"), "stop_regex", "not supported yet"},
      {kText, text(R"("logprob_token_ids":[5])"), "logprob_token_ids", "not supported yet"},
      {kText, text(R"("n_keep":-5)"), "n_keep", "not supported yet"},
      {kText, text(R"("n_discard":-5)"), "n_discard", "not supported yet"},
      {kText, text(R"("guided_whitespace_pattern":" ")"), "guided_whitespace_pattern", "not supported yet"},
      {kChat, chat(R"("functions":[{}])"), "functions", "not supported yet"},
      {kChat, chat(R"("modalities":["text","audio"])"), "modalities", "not supported yet"},
      {kChat, chat(R"("audio":{"voice":"x"})"), "audio", "not supported yet"},
      {kChat, chat(R"("chat_template":"{{x}}")"), "chat_template", "not supported yet"},
  };
}

std::vector<Refusal> bad_messages() {
  return {
      {kChat, "{}", "messages", "is required"},
      {kChat, R"({"messages":[]})", "messages", "is empty"},
      {kChat, R"({"messages":"hi"})", "messages", "must be an array"},
      {kChat, "{\"messages\":" + list_of_n(4097, "0") + "}", "messages", "has 4097 entries: the limit is 4096"},
      {kChat, message("5"), "messages[0]", "must be an object"},
      {kChat, message(R"({"content":"x"})"), "messages[0].role", "is required"},
      {kChat, message(R"({"role":"king","content":"x"})"), "messages[0].role", "is 'king'"},
      {kChat, message(R"({"role":"user"})"), "messages[0].content", "is required"},
      {kChat, message(R"({"role":"user","content":null})"), "messages[0].content", "is required"},
      {kChat, message(R"({"role":"user","content":5})"), "messages[0].content", "must be a string or an array"},
      {kChat, message(R"({"role":"user","content":[5]})"), "messages[0].content[0]", "must be an object"},
      {kChat, message(R"({"role":"user","content":[{"text":"x"}]})"), "messages[0].content[0].type", "is required"},
      {kChat, message(R"({"role":"user","content":[{"type":"text"}]})"), "messages[0].content[0].text", "is required"},
      {kChat, message(R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]})"),
       "messages[0].content[0].type", "'image_url'"},
      {kChat, message(R"({"role":"function","content":"x"})"), "messages[0].role", "tool is"},
      {kChat, message(R"({"role":"user","content":")" + std::string(200, 'x') + "\"}"), "messages",
       "tokens: this model's maximum context length is 128 tokens"},
      {kChat, chat(R"("chat_template_kwargs":{"messages":1})"), "messages", "reserved"},
      {kChat, chat(R"("chat_template_kwargs":5)"), "chat_template_kwargs", "must be an object"},
      // the tokenizer's
      {"/tokenize", "{}", "content", "is required"},
      {"/tokenize", R"({"content":5})", "content", "must be a string"},
      {"/detokenize", "{}", "tokens", "is required"},
      {"/detokenize", R"({"tokens":[267]})", "tokens[0]", "is 267"},
      {"/detokenize", R"({"tokens":"x"})", "tokens", "must be an array"},
  };
}

std::vector<Refusal> refusals() {
  std::vector<Refusal> out;
  for (auto* part : {&bad_bodies_and_prompts, &bad_values, &bad_sampling, &unsupported_fields, &bad_messages})
    for (Refusal& r : part()) out.push_back(std::move(r));
  return out;
}

class Refusals : public testing::TestWithParam<Refusal> {
 protected:
  static void SetUpTestSuite() {
    server_ = new TestServer;
    server_->engine.options_.n_ctx = 128;
    server_->start();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static TestServer* server_;
};
TestServer* Refusals::server_ = nullptr;

TEST_P(Refusals, NamesTheFieldAndNothingRuns) {
  const Refusal& want = GetParam();
  const int64_t n_before = server_->engine.stats().n_submitted;
  const HttpResponse r = server_->post(want.path, want.body);
  EXPECT_EQ(r.status, want.status) << r.body;
  const Json j = parse_json(r.body);
  const bool too_long = text_at(json_at(j, "error", "code")) == "context_length_exceeded";
  EXPECT_EQ(text_at(json_at(j, "error", "type")), too_long ? "exceed_context_size_error" : "invalid_request_error");
  const std::string got = text_at(json_at(j, "error", "message"));
  EXPECT_NE(got.find(want.message), std::string::npos) << got;
  if (want.param.empty()) {
    EXPECT_TRUE(json_at(j, "error", "param").is_null()) << r.body;
  } else {
    EXPECT_EQ(text_at(json_at(j, "error", "param")), want.param);
  }
  const std::string code = text_at(json_at(j, "error", "code"));
  EXPECT_GE(std::atof(server_->metric("quire_rejected_total{reason=\"" + code + "\"}").c_str()), 1.0) << code;
  EXPECT_EQ(server_->engine.stats().n_submitted, n_before);
}
INSTANTIATE_TEST_SUITE_P(All, Refusals, testing::ValuesIn(refusals()));

// What looks bad and is not.
TEST(Accepted, HarmlessValues) {
  TestServer s;
  s.start();
  for (const std::string& body : {
           text(R"("max_tokens":null,"stop":null,"logit_bias":null,"seed":null)"),
           text(R"("max_tokens":3.0,"n":1e0)"),
           text(R"("presence_penalty":0,"frequency_penalty":0.0,"repetition_penalty":1.0,"suffix":"")"),
           text(R"("response_format":{"type":"text"},"min_tokens":0,"user":"me","metadata":{"a":"b"})"),
           text(R"("stop":[],"stop_token_ids":[],"logit_bias":{})"),
           text(R"("max_tokens":4,"max_completion_tokens":4)"),
           text(R"("xtc_probability":0,"xtc_threshold":0.1,"mirostat":0,"mirostat_tau":5)"),
           text(R"("samplers":["penalties","dry","top_k","typ_p","top_p","min_p","xtc","temperature"])"),
           text(R"("max_tokens":0,"echo":true)"),
           text(R"("bad_words":[],"bad_token_ids":[],"allowed_token_ids":[],"top_p_reset_ids":[],"min_keep":0)"),
           text(R"("seed":-9223372036854775808)"),
           text(R"("temperature":0,"top_p":0)"),
       })
    EXPECT_EQ(s.post(kText, body).status, 200) << body;
  for (const std::string& body : {
           chat(R"("tools":[],"tool_choice":"auto","modalities":["text"],"store":false,"verbosity":"medium")"),
           chat(R"("logprobs":false,"top_logprobs":0,"parallel_tool_calls":true,"max_tokens":5)"),
       })
    EXPECT_EQ(s.post(kChat, body).status, 200) << body;
}

TEST(Refused, PathsMethodsAndMedia) {
  TestServer s;
  s.options.guard.origins = {"http://elsewhere"};
  s.start();
  EXPECT_EQ(s.get("/v1/nothing").status, 404);
  EXPECT_EQ(s.get("/v1/completions").status, 405);
  EXPECT_EQ(s.post("/health", "{}").status, 405);
  EXPECT_EQ(s.get("/v1/models/none").status, 404);
  const auto media = [&](const std::string& type, bool origin) {
    HttpHeaders headers = {{"Content-Type", type}};
    if (origin) headers.push_back({"Origin", "http://elsewhere"});
    auto r = s.client().request({"POST", kText, headers, R"({"prompt":"x"})"});
    return r ? r->status : 0;
  };
  EXPECT_EQ(media("application/json", true), 200);
  EXPECT_EQ(media("Application/JSON ; charset=utf-8", true), 200);
  EXPECT_EQ(media("application/x-www-form-urlencoded", false), 200);  // curl -d
  EXPECT_EQ(media("application/x-www-form-urlencoded", true), 415);   // a browser's form
  EXPECT_EQ(media("text/plain", false), 415);
  EXPECT_EQ(media("multipart/form-data; boundary=x", false), 415);
}

TEST(Refused, OtherModelsWhenStrict) {
  TestServer s;
  s.options.strict_model = true;
  s.options.models = {"tiny", "org/small"};
  s.start();
  EXPECT_EQ(s.post(kText, text(R"("model":"tiny")")).status, 200);
  EXPECT_EQ(s.post(kText, text(R"("model":"org/small")")).status, 200);
  const HttpResponse r = s.post(kText, text(R"("model":"gpt-4o")"));
  EXPECT_EQ(r.status, 404);
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "code")), "model_not_found");
  EXPECT_EQ(s.post(kText, text(R"("n":1)")).status, 404);
}

TEST(Refused, WithoutTheKey) {
  TestServer s;
  s.options.keys = {plain_key("key", "secret-1", true, false)};
  s.start();
  const auto status = [&](const std::string& path, const HttpHeaders& headers) { return s.get(path, headers).status; };
  EXPECT_EQ(status("/health", {}), 200);
  EXPECT_EQ(status("/version", {}), 200);
  EXPECT_EQ(status("/v1/models", {}), 401);
  EXPECT_EQ(status("/metrics", {}), 401);
  EXPECT_EQ(status("/v1/models", {{"Authorization", "Bearer secret-1"}}), 200);
  EXPECT_EQ(status("/v1/models", {{"Authorization", "bearer secret-1"}}), 200);
  for (const char* wrong : {"Bearer secret-2", "Bearer secret-", "Bearer secret-11", "Bearer ", "Basic secret-1",
                            "secret-1", "Bearer secret-1secret-1"})
    EXPECT_EQ(status("/v1/models", {{"Authorization", wrong}}), 401) << wrong;
  EXPECT_EQ(s.post(kText, "{").status, 401);  // before the body is looked at
  const Json j = parse_json(s.post(kText, text(R"("n":1)")).body);
  EXPECT_EQ(text_at(json_at(j, "error", "code")), "invalid_api_key");
}

// What would change the answer stands in another server's form: it is not answered as if it had not been there.
TEST(Refusal, AForeignDialectsObjectIsNotIgnored) {
  TestServer s;
  s.start();
  for (const char* field : {"sampling_params", "parameters", "options"}) {
    const std::string in(field);
    for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/generate",
                             "/completion", "/infill", "/api/chat", "/api/generate"}) {
      if (path[1] == 'a' && in == "options") continue;  // Ollama's own
      const HttpResponse r = s.post(path, "{\"" + in + R"(":{"temperature":0}})");
      EXPECT_EQ(r.status, 400) << path << r.body;
      EXPECT_NE(r.body.find("'" + in + "' is another server's"), std::string::npos) << path << r.body;
    }
    const Json error = json_at(parse_json(s.post(kText, text("\"" + in + R"(":{"temperature":0})")).body), "error");
    EXPECT_EQ(text_at(json_at(error, "param")), in);
    EXPECT_EQ(text_at(json_at(error, "code")), "unsupported_parameter");
    EXPECT_EQ(s.post(kText, text("\"" + in + "\":{}")).status, 200);
  }
}

}  // namespace
}  // namespace quire
