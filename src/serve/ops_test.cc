// Operators' endpoints, the model list, the registry, and the table of limits.
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "serve/api.h"
#include "serve/testing.h"

namespace quire {
namespace {

TEST(Ops, HealthVersionModels) {
  TestServer s;
  s.options.models = {"tiny", "also/tiny"};
  s.start();
  EXPECT_EQ(s.get("/health").status, 200);
  EXPECT_EQ(s.get("/ready").body, R"({"status":"ok"})");
  EXPECT_EQ(text_at(json_at(parse_json(s.get("/version").body), "version")), QR_VERSION);
  EXPECT_EQ(s.get("/load").body, R"({"server_load":0,"running":0,"waiting":0})");
  const Json list = parse_json(s.get("/v1/models").body);
  EXPECT_EQ(text_at(json_at(list, "object")), "list");
  EXPECT_EQ(text_at(json_at(list, "data", 1, "id")), "also/tiny");
  EXPECT_EQ(int_at(json_at(list, "data", 0, "max_model_len")), 4096);
  EXPECT_EQ(text_at(json_at(parse_json(s.get("/v1/models/also%2Ftiny").body), "id")), "also/tiny");
}

TEST(Ops, ThreadsThatReadRequestsStepBehindTheEngine) {
  TestServer s;
  s.start();
  EXPECT_EQ(s.post("/tokenize", R"({"content":"a"})").status, 200);
  int n_prep = 0, n_others = 0;
  const int own = getpriority(PRIO_PROCESS, 0);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(entry.path() / "comm") >> name;
    const int nice = getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoi(entry.path().filename())));
    const bool prep = name.starts_with("quire-prep");
    EXPECT_EQ(nice, prep ? std::min(own + 5, 19) : own) << name;
    ++(prep ? n_prep : n_others);
  }
  EXPECT_GE(n_prep, 1);
  EXPECT_GE(n_others, 2) << "io and engine";
}

TEST(Ops, TokenizeAndBack) {
  TestServer s;
  s.start();
  const auto tokens = [&](const std::string& body) {
    return json_at(parse_json(s.post("/tokenize", body).body), "tokens").dump();
  };
  EXPECT_EQ(tokens(R"({"content":"a b"})"), "[100,259,101]");
  EXPECT_EQ(tokens(R"({"prompt":"a","add_special":true})"), "[1,100]");
  EXPECT_EQ(tokens(R"({"text":"</s>"})"), "[2]");
  EXPECT_EQ(tokens(R"({"text":"</s>","parse_special":false})"), "[63,50,118,65]");
  EXPECT_EQ(int_at(json_at(parse_json(s.post("/tokenize", R"({"content":"abab"})").body), "count")), 2);
  EXPECT_EQ(s.post("/detokenize", R"({"tokens":[100,259,101,2]})").body, R"({"content":"a b</s>","prompt":"a b</s>"})");
  EXPECT_EQ(s.post("/detokenize", R"({"tokens":[100,2],"special":false})").body, R"({"content":"a","prompt":"a"})");
  EXPECT_EQ(s.post("/detokenize", R"({"tokens":[]})").body, R"({"content":"","prompt":""})");
}

// The same prompt that a chat completion sends, text and tokens, and the template's words where it refuses.
TEST(Ops, ApplyTemplate) {
  TestServer s;
  TokenizerSpec spec = tiny_spec();
  spec.chat_template =
      "{% if messages[0].role != 'user' %}{{ raise_exception('the user \"begins\"') }}{% endif %}"
      "{% for m in messages %}{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}:{% endif %}{{ tail }}";
  s.tokenizer = tiny_tokenizer(std::move(spec));
  std::vector<Token> sent;
  s.engine.script = [&](const Request& r) {
    sent = r.prompt;
    return byte_tokens("x");
  };
  s.start();
  const std::string bodies[] = {R"({"messages":[{"role":"user","content":"a</s>"}]})",
                                R"({"messages":[{"role":"user","content":"a</s>"}],"parse_special":true})",
                                R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],
                                    "add_generation_prompt":false,"chat_template_kwargs":{"tail":"<s>"}})"};
  const char* texts[] = {"a</s></s>:", "a</s></s>:", "a</s>b</s><s>"};
  const int n_control[] = {2, 3, 3};
  for (size_t i = 0; i < 3; ++i) {
    const HttpResponse r = s.post("/apply-template", bodies[i]);
    ASSERT_EQ(r.status, 200) << r.body;
    const Json j = parse_json(r.body);
    EXPECT_EQ(text_at(json_at(j, "prompt")), texts[i]);
    EXPECT_EQ(s.post("/v1/chat/completions", bodies[i]).status, 200);
    Json::Array want;
    for (const Token id : sent) want.emplace_back(id);
    EXPECT_EQ(json_at(j, "tokens").dump(), Json(std::move(want)).dump());
    EXPECT_EQ(int_at(json_at(j, "count")), static_cast<int64_t>(sent.size()));
    EXPECT_EQ(std::count_if(sent.begin(), sent.end(), [](Token id) { return id == 1 || id == 2; }), n_control[i]) << i;
  }
  const HttpResponse refused = s.post("/apply-template", R"({"messages":[{"role":"assistant","content":"b"}]})");
  EXPECT_EQ(refused.status, 400);
  const Json j = parse_json(refused.body);
  EXPECT_NE(text_at(json_at(j, "error", "message")).find("raise_exception: the user \"begins\""), std::string::npos);
  EXPECT_EQ(text_at(json_at(j, "error", "param")), "messages");
  EXPECT_EQ(s.post("/apply-template", "{}").status, 400);
}

TEST(Ops, MetricsCountWhatHappened) {
  TestServer s;
  s.start();
  for (int i = 0; i < 3; ++i) s.post("/v1/completions", R"({"prompt":"x","max_tokens":4})");
  s.stream("/v1/completions", R"({"prompt":"x","max_tokens":100,"stream":true})");
  s.post("/v1/completions", R"({"prompt":""})");
  EXPECT_EQ(s.metric("quire_requests_total{endpoint=\"/v1/completions\",status=\"200\"}"), "4");
  EXPECT_EQ(s.metric("quire_requests_total{endpoint=\"/v1/completions\",status=\"400\"}"), "1");
  EXPECT_EQ(s.metric("quire_rejected_total{reason=\"invalid_value\"}"), "1");
  EXPECT_EQ(s.metric("quire_request_success_total{finished_reason=\"length\"}"), "3");
  EXPECT_EQ(s.metric("quire_request_success_total{finished_reason=\"stop\"}"), "1");
  EXPECT_EQ(s.metric("quire_time_to_first_token_seconds_count"), "4");
  EXPECT_EQ(s.metric("quire_request_generation_tokens_sum"), "37");
  EXPECT_EQ(s.metric("quire_generation_tokens_total"), "37");
  EXPECT_EQ(s.metric("quire_num_requests_running"), "0");
  EXPECT_NE(s.metric("quire_http_requests_total"), "");
  EXPECT_NE(s.metric("quire_kv_blocks{state=\"free\"}"), "");
  EXPECT_NE(s.metric("quire_computed_tokens_total{cause=\"recomputed\"}"), "");
}

// One dialect, one file, registered under its name.
TEST(Apis, RegistryEqualsTheFiles) {
  const std::filesystem::path folder = "src/serve/apis";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "not in the repository root";
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".cc") files.push_back(entry.path().stem());
  std::sort(files.begin(), files.end());
  EXPECT_EQ(Registry<Api>::get().names(), files);
}

// docs/limits.md lists every limit with its default.
TEST(Limits, TheDocumentAgrees) {
  std::ifstream in("docs/limits.md");
  if (!in) GTEST_SKIP() << "not in the repository root";
  std::ostringstream text;
  text << in.rdbuf();
  const ServeLimits defaults;
  for (const LimitRow& row : limit_rows()) {
    const std::string want = "| `" + std::string(row.name) + "` | " + std::to_string(defaults.*row.value) + " |";
    EXPECT_NE(text.str().find(want), std::string::npos) << want;
  }
  EXPECT_EQ(limit_rows().size() * sizeof(int64_t), sizeof(ServeLimits)) << "a limit is missing in limit_rows()";
}

}  // namespace
}  // namespace quire
