#include "text/told_tools.h"

#include <gtest/gtest.h>

#include "text/parse/tool_format.h"

namespace quire {
namespace {

Json list(const char* text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? *std::move(json) : Json(Json::Array{});
}

const CallForm& form() { return *find_call_form(kToldForm); }

std::string told(const char* messages, const Json& tools) {
  Json out = list(messages);
  tell_tools(*out.as_array(), tools, form());
  return out.dump();
}

const char* const kTools =
    R"([{"type":"function","function":{"name":"get","parameters":{"type":"object"}}},{"name":"bare"}])";

TEST(ToldTools, CallsAndResultsAreText) {
  EXPECT_EQ(told(R"([{"role":"user","content":"x"},
                     {"role":"assistant","content":"Hm.","reasoning_content":"r","tool_calls":[
                       {"id":"1","type":"function","function":{"name":"a\"b","arguments":"{\"k\": [1]}"}},
                       {"id":"2","type":"function","function":{"name":"c","arguments":""}}]},
                     {"role":"tool","tool_call_id":"1","content":"one"},{"role":"tool","tool_call_id":"2","content":"two"},
                     {"role":"user","content":"y"},{"role":"user","content":"z"}])",
                 Json()),
            Json(list(R"([{"role":"user","content":"x"},
                {"role":"assistant","content":"Hm.\n<tool_call>\n{\"name\": \"a\\\"b\", \"arguments\": {\"k\": [1]}}\n</tool_call>\n<tool_call>\n{\"name\": \"c\", \"arguments\": {}}\n</tool_call>","reasoning_content":"r"},
                {"role":"user","content":"<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>\ny"},
                {"role":"user","content":"z"}])"))
                .dump());
}

TEST(ToldTools, AreToldBeforeWhatTheUserSaysFirst) {
  const Json tools = list(kTools);
  Json fresh = list(R"([{"role":"system","content":"s"},{"role":"user","content":"x"},{"role":"user","content":"y"}])");
  tell_tools(*fresh.as_array(), tools, form());
  const Json::Array& messages = *fresh.as_array();
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(*messages[0].find("content")->as_string(), "s");
  const std::string& text = *messages[1].find("content")->as_string();
  EXPECT_NE(text.find("\n{\"name\":\"get\",\"parameters\":{\"type\":\"object\"}}\n{\"name\":\"bare\"}\n"),
            std::string::npos);
  EXPECT_TRUE(text.ends_with("\n\nx")) << text;
  EXPECT_EQ(*messages[2].find("content")->as_string(), "y");
  const std::string alone = told(R"([{"role":"assistant","content":"a"}])", tools);
  EXPECT_EQ(alone.find(R"([{"role":"user","content":"You can call)"), 0U) << alone;
  EXPECT_EQ(told(R"([{"role":"user","content":"x"}])", Json(Json::Array{})), R"([{"role":"user","content":"x"}])");
}

}  // namespace
}  // namespace quire
