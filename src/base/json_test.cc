#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <limits>

#include "base/held_memory.h"

namespace quire {
namespace {

using testing::HasSubstr;

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

std::string refusal(std::string_view text) {
  const auto parsed = Json::parse(text);
  if (parsed) return "accepted as " + parsed->dump();
  EXPECT_EQ(parsed.error().code, Code::invalid) << text.substr(0, 80);
  return parsed.error().message;
}

TEST(JsonParse, KeepsTypesAndKeyOrder) {
  const auto parsed = Json::parse(R"( {"z":1,"a":[true,false,null,-7,2.5,"x\u00e9\n"],"m":{}} )");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Json::Object expected{
      {"z", 1}, {"a", Json::Array{true, false, nullptr, -7, 2.5, "x\xC3\xA9\n"}}, {"m", Json::Object{}}};
  EXPECT_EQ(*parsed, Json(expected));
  EXPECT_EQ(parsed->dump(), "{\"z\":1,\"a\":[true,false,null,-7,2.5,\"x\xC3\xA9\\n\"],\"m\":{}}");
}

TEST(JsonParse, TakesScalarsAtTheTop) {
  EXPECT_EQ(*Json::parse("null"), Json());
  EXPECT_EQ(*Json::parse(" \"a\" "), Json("a"));
  EXPECT_EQ(*Json::parse("-0"), Json(0));
  EXPECT_EQ(*Json::parse("[]"), Json(Json::Array{}));
}

TEST(JsonParse, IntegersBeyondInt64BecomeDoubles) {
  EXPECT_EQ(*Json::parse("9223372036854775807"), Json(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(*Json::parse("-9223372036854775808"), Json(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(*Json::parse("9223372036854775808"), Json(9223372036854775808.0));
  EXPECT_EQ(*Json::parse("18446744073709551616"), Json(18446744073709551616.0));
  EXPECT_EQ(*Json::parse(R"({"12345678901234567890123":-10000000000000000000000000000000})"),
            Json(Json::Object{{"12345678901234567890123", -1e31}}));
}

TEST(JsonParse, RefusesNumbersOutOfRangeOrForm) {
  for (const char* text : {"1e999", "-1e999", "01", "1.", ".5", "+1", "1e", "00000000000000000000001", "0x10", "--1"}) {
    EXPECT_THAT(refusal(text), HasSubstr("JSON: ")) << text;
  }
  EXPECT_THAT(refusal("[1e999]"), HasSubstr("number"));
  EXPECT_THAT(refusal(std::string(400, '9')), HasSubstr("number"));
  EXPECT_THAT(refusal("[NaN]"), HasSubstr("JSON: "));
  EXPECT_THAT(refusal("[Infinity]"), HasSubstr("JSON: "));
  EXPECT_THAT(refusal("[-Infinity]"), HasSubstr("JSON: "));
}

TEST(JsonParse, RefusesBrokenText) {
  for (const char* text :
       {"",    " ",   "{",         "[1,]",        "{\"a\":}", "{a:1}", "[1 2]",     "1 1", "{} x",      "\"a",    "'a'",
        "tru", "nul", "[\"\\x\"]", "[\"\\u12\"]", "[\"\n\"]", "]",     "{\"a\" 1}", "[1}", "{\"a\":1]", "// c\n1"}) {
    EXPECT_THAT(refusal(text), HasSubstr("JSON: ")) << text;
  }
  EXPECT_THAT(refusal(std::string_view()), HasSubstr("empty"));
  EXPECT_THAT(refusal("\xEF\xBB\xBF{}"), HasSubstr("byte order mark"));
  EXPECT_THAT(refusal(std::string("1\0", 2)), HasSubstr("JSON: "));
}

TEST(JsonParse, RefusesEveryPrefixOfADocument) {
  const std::string text = R"({"a":[1,2.5e1,"b\u00e9\\"],"c":{"d":null,"e":true}})";
  ASSERT_TRUE(Json::parse(text));
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(Json::parse(text.substr(0, n))) << n;
}

TEST(JsonParse, RefusesInvalidUtf8AndHalfPairs) {
  EXPECT_THAT(refusal("\"\xff\""), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal("\"\xed\xa0\x80\""), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal("\"\xc0\xaf\""), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal(R"(["\ud800"])"), HasSubstr("JSON: "));
  EXPECT_THAT(refusal(R"(["\udc00"])"), HasSubstr("surrogate pair at byte 2"));
  EXPECT_THAT(refusal(R"(["\ud800\ue000"])"), HasSubstr("JSON: "));
  EXPECT_THAT(refusal(R"(["\ud800\ud800"])"), HasSubstr("JSON: "));
  EXPECT_THAT(refusal(R"(["\ud83d\\ude42"])"), HasSubstr("JSON: "));
  EXPECT_EQ(*Json::parse(R"(["\ud83d\ude42","\\ud800"])"), Json(Json::Array{"\xF0\x9F\x99\x82", "\\ud800"}));
}

TEST(JsonParse, LimitsDepth) {
  EXPECT_TRUE(Json::parse(nested(kMaxJsonDepth)));
  EXPECT_THAT(refusal(nested(kMaxJsonDepth + 1)), HasSubstr("limit of 64"));
  EXPECT_THAT(refusal(nested(100000)), HasSubstr("limit of 64"));
  EXPECT_THAT(refusal(std::string(1000000, '[')), HasSubstr("JSON: "));
}

TEST(JsonParse, LimitsDepthOfObjectsToo) {
  const auto objects = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "{\"k\":";
    return text + "1" + std::string(static_cast<size_t>(depth), '}');
  };
  EXPECT_TRUE(Json::parse(objects(kMaxJsonDepth)));
  EXPECT_THAT(refusal(objects(kMaxJsonDepth + 1)), HasSubstr("limit of 64"));
}

TEST(JsonParse, RefusesDuplicateKeysNamingThem) {
  EXPECT_THAT(refusal(R"({"a":1,"b":2,"a":3})"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(refusal(R"({"a":1,"\u0061":3})"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(refusal(R"([{"x":{"":1,"":2}}])"), HasSubstr("duplicate key \"\""));
  EXPECT_THAT(refusal("{\"\\u001b[2J\":1,\"\\u001b[2J\":1}"), HasSubstr(R"("\u001b[2J")"));
  EXPECT_TRUE(Json::parse(R"({"a":{"a":1},"b":{"a":1}})"));
  const std::string key(1 << 20, 'k');
  EXPECT_LT(refusal("{\"" + key + "\":1,\"" + key + "\":2}").size(), 200U);
}

TEST(JsonParse, AMillionKeysAreNotQuadratic) {
  std::string text = "{";
  for (int i = 0; i < 1000000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  // Comparing all pairs would take 10^12 steps: the test would not end.
  const auto parsed = Json::parse(text + "\"x\":0}");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->as_object()->size(), 1000001U);
  EXPECT_THAT(refusal(text + "\"777777\":0}"), HasSubstr("duplicate key \"777777\""));
}

TEST(JsonParse, ATreeIsNoLargerThanItsTextAllows) {
  const auto held = [] { return static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd); };
  ASSERT_TRUE(Json::parse("[" + std::string(4 << 20, ' ') + "]"));  // what the parser keeps
  for (const std::string one : {"1,", "{},", "[],", "[1],", "\"\",", "{\"a\":1},", "[[1]],", "null,"}) {
    for (const size_t n : {size_t{1} << 17, (size_t{1} << 17) + 1}) {  // where a list has grown last
      std::string text = "[";
      for (size_t i = 0; i < n; ++i) text += one;
      text.back() = ']';
      const int64_t before = held();
      const auto tree = Json::parse(text);
      ASSERT_TRUE(tree);
      EXPECT_LE(held() - before, kTreeBytes * static_cast<int64_t>(text.size())) << one << n;
    }
  }
}

TEST(JsonParse, WorksAcrossTheKeptParserSize) {
  for (const size_t n : {10U, 65533U, 65534U, 65535U, 65536U, 200000U, 3U}) {
    const std::string body(n, 'a');
    EXPECT_EQ(*Json::parse("\"" + body + "\""), Json(body)) << n;
  }
}

// Bytes before the first that is wrong; a text that ends too early is told so.
TEST(JsonParse, FaultsHaveAPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"a": 1, "b" 2})", "malformed at byte 13"},
      {R"({"a": 1,})", "malformed at byte 8"},
      {R"([1, 2 3])", "malformed at byte 6"},
      {R"([tru])", "malformed at byte 1"},
      {R"({} x)", "malformed at byte 3"},
      {R"(["a\qb"])", "invalid escape at byte 4"},
      {"[\"a\nb\"]", "control character at byte 3"},
      {R"([1, -])", "number is malformed or out of range at byte 5"},
      {"[\"\xff\"]", "UTF-8 at byte 2"},
      {R"({"a": [1, 2)", "malformed: it ends too early"},
      {R"({"a": "b)", "not closed: it ends too early"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_THAT(refusal(text), HasSubstr(wanted)) << text;
  const std::string deep(1000000, '[');
  EXPECT_THAT(refusal(deep), HasSubstr("JSON: "));
}

TEST(Json, FindAndSetKeepOrder) {
  Json value;
  value.set("b", 1);
  value.set("a", "x");
  value.set("b", Json::Array{});
  EXPECT_EQ(value.dump(), R"({"b":[],"a":"x"})");
  ASSERT_NE(value.find("a"), nullptr);
  EXPECT_EQ(*value.find("a")->as_string(), "x");
  EXPECT_EQ(value.find("c"), nullptr);
  EXPECT_EQ(Json(1).find("a"), nullptr);
}

TEST(JsonDump, DeepValuesNeedNoStack) {
  Json value;
  for (int i = 0; i < 5000; ++i) {
    Json::Array outer;
    outer.push_back(std::move(value));
    value = Json(std::move(outer));
  }
  EXPECT_EQ(value.dump(), std::string(5000, '[') + "null" + std::string(5000, ']'));
}

TEST(JsonDump, StringsAreAlwaysValid) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
  };
  EXPECT_EQ(quoted(std::string_view("a\"\\\b\f\n\r\t\x01\x1f\x7f\0z", 13)),
            "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\\u0000z\"");
  EXPECT_EQ(quoted("\xF0\x9F\x99\x82"), "\"\xF0\x9F\x99\x82\"");
  EXPECT_EQ(quoted("a\xff\xc3"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(quoted("\xed\xa0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text{static_cast<char>(a), static_cast<char>(b), 'x'};
      EXPECT_TRUE(Json::parse(quoted(text))) << a << ' ' << b;
    }
  }
}

TEST(JsonDump, NumbersReadBackAsTheSameValue) {
  for (const double v :
       {0.0, -0.0, 5.0, 0.1, 1e22, 1e300, 5e-324, 123456789012345680.0, -2.5e-7, 1e21, 9007199254740993.0}) {
    const Json value(v);
    const auto back = Json::parse(value.dump());
    ASSERT_TRUE(back) << value.dump();
    EXPECT_EQ(*back, value) << value.dump();
    EXPECT_TRUE(back->as_double()) << value.dump();
  }
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  EXPECT_EQ(Json(5.0).dump(), "5.0");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
}

}  // namespace
}  // namespace quire
