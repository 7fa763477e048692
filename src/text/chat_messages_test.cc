#include "text/chat_messages.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

std::string unified(std::string_view text) {
  Json messages = *Json::parse(text);
  unify_messages(*messages.as_array());
  return messages.dump();
}

TEST(ChatMessages, TextPartsAreOneString) {
  EXPECT_EQ(unified(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])"),
            R"([{"role":"user","content":"a\nb"}])");
  EXPECT_EQ(unified(R"([{"role":"user","content":[]}])"), R"([{"role":"user","content":""}])");
  EXPECT_EQ(unified(R"([{"role":"assistant","content":null},{"role":"assistant"}])"),
            R"([{"role":"assistant","content":""},{"role":"assistant","content":""}])");
  EXPECT_EQ(unified(R"([{"role":"developer","content":"x"}])"), R"([{"role":"system","content":"x"}])");
}

TEST(ChatMessages, WhatIsNoTextStays) {
  for (const char* text : {R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"b"}]}])",
                           R"([{"role":"user","content":[{"type":"text"}]}])", R"([{"role":"user","content":["a"]}])",
                           R"([{"role":"user","content":5}])", R"(["a",null,[1]])",
                           R"([{"role":1,"content":"x","tool_calls":[1,{"id":2}],"tool_call_id":3}])"}) {
    EXPECT_EQ(unified(text), text);
  }
}

TEST(ChatMessages, ResultsHaveTheNamesOfTheirCalls) {
  EXPECT_EQ(unified(R"([{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"f"}}]},)"
                    R"({"role":"tool","content":"x","tool_call_id":"1"},)"
                    R"({"role":"tool","content":"y","tool_call_id":"2"},)"
                    R"({"role":"tool","content":"z","tool_call_id":"1","name":"g"}])"),
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"f"}}]},)"
            R"({"role":"tool","content":"x","tool_call_id":"1","name":"f"},)"
            R"({"role":"tool","content":"y","tool_call_id":"2"},)"
            R"({"role":"tool","content":"z","tool_call_id":"1","name":"g"}])");
}

}  // namespace
}  // namespace quire
