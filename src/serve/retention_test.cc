// How long a request's past is to stay: the fields of OpenAI and of TensorRT-LLM, what the engine gets of them, and
// what is refused with field, limit and value.
#include "serve/retention.h"

#include <limits>

#include "serve/testing.h"

namespace quire {
namespace {

constexpr int64_t kMs = 1'000'000;

struct Asked {
  Asked() {
    s.engine.script = [this](const Request& r) {
      sent = r.retention;
      n_prompt = static_cast<int>(r.prompt.size());
      return byte_tokens("x");
    };
    s.start();
  }
  HttpResponse ask(const std::string& fields, const std::string& path = "/v1/completions") {
    sent = {{7, 8}};
    const std::string input =
        path == "/v1/responses" ? R"({"input":"abcdefgh",)" : R"({"prompt":"abcdefgh","max_tokens":2,)";
    return s.post(path, input + fields + "}");
  }
  std::string refused(const std::string& fields) {
    const HttpResponse r = ask(fields);
    EXPECT_EQ(r.status, 400) << r.body;
    const Json error = json_at(parse_json(r.body), "error");
    return text_at(json_at(error, "param")) + ": " + text_at(json_at(error, "message"));
  }
  std::string config(const std::string& inner) { return R"("kv_cache_retention_config":{)" + inner + "}"; }
  std::string range(const std::string& inner) { return config(R"("token_range_retention_configs":[{)" + inner + "}]"); }

  std::vector<RetentionRange> sent;
  int n_prompt = 0;
  TestServer s;
};

TEST(RetentionFields, ADayIsTheWholePromptAndInMemoryIsNothing) {
  Asked a;
  for (const char* path : {"/v1/completions", "/v1/responses"}) {
    EXPECT_EQ(a.ask(R"("prompt_cache_retention":"24h")", path).status, 200);
    EXPECT_EQ(a.sent, (std::vector<RetentionRange>{{0, a.n_prompt, 100, kMostRetentionNs}})) << path;
    for (const char* usual : {R"("prompt_cache_retention":"in_memory")", R"("prompt_cache_retention":null)"}) {
      EXPECT_EQ(a.ask(usual, path).status, 200);
      EXPECT_TRUE(a.sent.empty());
    }
  }
}

TEST(RetentionFields, RangesOfThePromptAndTheAnswer) {
  Asked a;
  const std::string ranges =
      R"("token_range_retention_configs":[{"token_start":2,"token_end":4,"priority":80,"duration_ms":1500},
         {"token_start":5,"priority":10},{"token_start":3,"token_end":9999,"priority":60},
         {"token_start":5000,"token_end":6000,"priority":90}])";
  EXPECT_EQ(a.ask(a.config(ranges + R"(,"decode_retention_priority":50,"decode_duration_ms":30)")).status, 200);
  const int n = a.n_prompt;
  const std::vector<RetentionRange> expected{{2, 4, 80, 1500 * kMs},
                                             {5, n, 10, kMostRetentionNs},
                                             {3, n, 60, kMostRetentionNs},
                                             {n, std::numeric_limits<int32_t>::max(), 50, 30 * kMs}};
  EXPECT_EQ(a.sent, expected) << "an end behind the prompt is its end, and a range behind it is none";
  EXPECT_EQ(a.ask(a.config("")).status, 200);
  EXPECT_TRUE(a.sent.empty());
}

TEST(RetentionFields, WhatIsWrongIsNamedWithItsLimit) {
  Asked a;
  const auto has = [&](const std::string& fields, const std::vector<std::string>& parts) {
    const std::string error = a.refused(fields);
    for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  has(R"("prompt_cache_retention":"1h")", {"prompt_cache_retention: ", "1h", "in_memory and 24h"});
  has(R"("prompt_cache_retention":24)", {"prompt_cache_retention"});
  has(R"("kv_cache_retention_config":[])", {"kv_cache_retention_config"});
  const std::string at = "kv_cache_retention_config.token_range_retention_configs";
  has(a.range(R"("priority":101)"), {at + "[0].priority", "101", "100"});
  has(a.range(R"("priority":-1)"), {at + "[0].priority", "-1", "0"});
  has(a.range(R"("duration_ms":86400001)"), {at + "[0].duration_ms", "86400001", "86400000"});
  has(a.range(R"("duration_ms":0)"), {at + "[0].duration_ms", "0", "1"});
  has(a.range(R"("token_start":4,"token_end":4)"), {at + "[0].token_end", "4"});
  has(a.range(R"("token_start":-1)"), {at + "[0].token_start", "-1"});
  has(a.config(R"("token_range_retention_configs":[3])"), {at + "[0]", "object"});
  has(a.config(R"("decode_retention_priority":200)"), {"kv_cache_retention_config.decode_retention_priority", "200"});
  has(a.config(R"("transfer_mode":"GDS")"), {"kv_cache_retention_config.transfer_mode"});
  has(R"("prompt_cache_retention":"24h",)" + a.config(""), {"prompt_cache_retention", "kv_cache_retention_config"});
  std::string many = R"({"priority":80})";
  for (int i = 0; i < 16; ++i) many += R"(,{"priority":80})";
  has(a.config(R"("token_range_retention_configs":[)" + many + "]"), {at, "17", "16", "n_retention_ranges"});
}

}  // namespace
}  // namespace quire
