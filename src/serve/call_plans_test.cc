// What tools come to, made once for each content; through a server where their limits are seen.
#include "serve/call_plans.h"

#include <algorithm>

#include "serve/testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"get","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}},
       {"type":"function","function":{"name":"other"}}])";

Tools tools_of(std::string_view text, bool required = false) {
  const ServeLimits limits;
  Warnings warnings;
  const auto json = Json::parse(text);
  auto tools = read_tools(&*json, {}, {limits, warnings});
  EXPECT_TRUE(tools);
  tools->required = required;
  return std::move(*tools);
}

ToolFormat hermes() {
  ToolFormat out;
  out.form = find_call_form("hermes");
  return out;
}

TEST(CallPlans, EqualToolsAreMadeOnceAndWhateverDiffersIsItsOwn) {
  CallPlans plans;
  const ToolFormat format = hermes();
  const auto get = [&](const Tools& tools, MaybeGrammar document = std::nullopt) {
    const auto plan = plans.get(tools, format, std::move(document));
    EXPECT_TRUE(plan);
    return *plan;
  };
  const Tools tools = tools_of(kTools);
  const auto first = get(tools);
  for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(get(tools_of(kTools)), first);
  EXPECT_EQ(plans.stats().n_made, 1);
  EXPECT_EQ(plans.stats().n_found, 5);
  std::vector<std::shared_ptr<const CallPlan>> seen{first};
  const auto is_new = [&](const std::shared_ptr<const CallPlan>& plan) {
    const bool fresh = std::find(seen.begin(), seen.end(), plan) == seen.end();
    seen.push_back(plan);
    return fresh;
  };
  EXPECT_TRUE(is_new(get(tools_of(kTools, true))));
  EXPECT_TRUE(is_new(get(tools, wanted_object("response_format"))));
  EXPECT_TRUE(seen.back()->rules->or_document);
  EXPECT_TRUE(is_new(get(tools, wanted_object("format"))));
  Tools other = tools_of(kTools);
  other.only_one = true;
  EXPECT_TRUE(is_new(get(other)));
  other = tools_of(kTools);
  other.names = {"get"};
  EXPECT_TRUE(is_new(get(other)));
  other = tools_of(kTools);
  other.sources[0].strict = false;  // which stands in no text
  EXPECT_TRUE(is_new(get(other)));
  EXPECT_EQ(plans.stats().n_entries, std::ssize(seen));
}

TEST(CallPlans, TheOldestGoFirstAndNothingIsHeldBeyondItsBytes) {
  CallPlans plans(20'000);
  const ToolFormat format = hermes();
  const auto named = [](int i) {
    return tools_of(R"([{"type":"function","function":{"name":"t)" + std::to_string(i) + R"("}}])");
  };
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(plans.get(named(i), format, std::nullopt));
    ASSERT_TRUE(plans.get(named(0), format, std::nullopt));  // used again and again: it stays
    EXPECT_LE(plans.stats().bytes, 20'000);
  }
  EXPECT_EQ(plans.stats().n_made, 100);
  EXPECT_GT(plans.stats().n_entries, 1);
  const auto large =
      tools_of(R"([{"type":"function","function":{"name":"t","description":")" + std::string(20'000, 'x') + R"("}}])");
  const int64_t before = plans.stats().n_entries;
  ASSERT_TRUE(plans.get(large, format, std::nullopt));
  EXPECT_EQ(plans.stats().n_entries, before);
}

constexpr const char* kTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

struct BoundedServer : TestServer {
  BoundedServer() {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = kTemplate;
    tokenizer = tiny_tokenizer(spec);
    options.limits.tools_bytes = 4'000;
    engine.script = [](const Request&) { return byte_tokens("Hm"); };
    start();
  }
  static std::string with(const std::string& tools, const std::string& more = "") {
    return R"({"messages":[{"role":"user","content":"x"}],"tools":[)" + tools + "]" + more + "}";
  }
};

TEST(CallPlans, ToolsOfARequestAreBoundedTogether) {
  BoundedServer s;
  std::string tools;
  for (int i = 0; i < 10; ++i)
    tools += (i > 0 ? "," : "") + std::string(R"({"type":"function","function":{"name":"t)") + std::to_string(i) +
             R"(","description":")" + std::string(400, 'd') + R"("}})";
  const HttpResponse r = s.post("/v1/chat/completions", BoundedServer::with(tools));
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), "tools");
  EXPECT_NE(r.body.find("4000 (tools_bytes)"), std::string::npos) << r.body;
}

// Each of many tools that cannot be kept together costs a share: the one that cannot be kept at all is still named.
TEST(CallPlans, TheToolToBlameIsFoundAmongMany) {
  BoundedServer s;
  std::string tools;
  for (int i = 0; i < 20; ++i)
    tools += R"({"type":"function","function":{"name":"t)" + std::to_string(i) +
             R"(","parameters":{"properties":{"a":{"type":"string"}}}}},)";
  tools += R"({"type":"function","function":{"name":"bad","parameters":{"properties":{"s":{"pattern":"(a)\\1"}}}}})";
  const HttpResponse r = s.post("/v1/chat/completions", BoundedServer::with(tools, R"(,"tool_choice":"required")"));
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), "tools[20].function.parameters") << r.body;
}

}  // namespace
}  // namespace quire
