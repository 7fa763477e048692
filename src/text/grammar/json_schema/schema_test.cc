#include "text/grammar/grammar_testing.h"
#include "text/grammar/json_schema.h"

namespace quire {
namespace {

Result<std::shared_ptr<const Grammar>> compile(std::string_view schema) { return compile_json_schema(schema, {}, {}); }

bool takes(std::string_view schema, std::string_view text) {
  const auto made = compile(schema);
  EXPECT_TRUE(made.has_value()) << schema;
  return quire::takes(made, text);
}
std::string error_of(std::string_view schema) { return quire::error_of(compile(schema)); }

TEST(JsonSchema, WhiteSpaceIsBounded) {
  const char* s = R"({"type":"object","properties":{"a":{"type":"array"}}})";
  EXPECT_TRUE(takes(s, R"({"a":[1,2]})"));
  EXPECT_TRUE(takes(s, "{\n  \"a\": [\n    1,\n    2\n  ]\n}"));
  EXPECT_TRUE(takes(s, "{\r\n\t\"a\" : [ ]\r\n}"));
  EXPECT_FALSE(takes(s, "{  }"));
  EXPECT_FALSE(takes(s, "{\n\n}"));
  EXPECT_FALSE(takes(s, " {}"));
  EXPECT_FALSE(takes(s, "{} "));
  EXPECT_FALSE(takes(s, "{\n" + std::string(65, ' ') + "}"));
}

TEST(JsonSchema, PropertiesComeInTheSchemasOrderAndOthersBehindThem) {
  const char* s = R"({"type":"object","properties":{"b":{},"a":{}},"required":["a","x","y"]})";
  EXPECT_TRUE(takes(s, R"({"b":1,"a":2,"x":1,"y":1})"));
  EXPECT_TRUE(takes(s, R"({"a":2,"y":1,"z":0,"x":1,"w":[]})"));  // required ones that are not listed: in any order
  EXPECT_FALSE(takes(s, R"({"a":2,"b":1,"x":1,"y":1})"));
  EXPECT_FALSE(takes(s, R"({"a":2,"x":1})"));
  EXPECT_FALSE(takes(s, R"({"a":2,"x":1,"y":1,"x":1})"));
  EXPECT_FALSE(takes(s, R"({"a":2,"x":1,"y":1,"a":3})"));
}

TEST(JsonSchema, OtherNamesAreNotListedOnesInDisguise) {
  const char* s = R"({"properties":{"a":{"type":"integer"},"é":{"type":"integer"}}})";
  EXPECT_FALSE(takes(s, R"({"a":"x"})"));
  EXPECT_FALSE(takes(s, R"({"\u0061":"x"})"));
  EXPECT_FALSE(takes(s, R"({"\u00e9":"x"})"));
  EXPECT_TRUE(takes(s, R"({"\u00E9":1})"));
  EXPECT_TRUE(takes(s, R"({"b":"x"})"));
}

TEST(JsonSchema, BoundsOfNumbersAreExact) {
  const char* s = R"({"type":"number","minimum":-12.5,"exclusiveMaximum":103.25})";
  for (const char* good : {"-12.5", "-12.50", "0", "-0.1", "103.2499", "99", "103", "-3"})
    EXPECT_TRUE(takes(s, good)) << good;
  for (const char* bad : {"-12.51", "-13", "103.25", "103.250", "104", "1000", "1e1", "012", "-", "5."})
    EXPECT_FALSE(takes(s, bad)) << bad;
  const char* whole = R"({"type":"integer","minimum":10,"maximum":120,"multipleOf":15})";
  for (int i = -130; i <= 200; ++i) EXPECT_EQ(takes(whole, std::to_string(i)), i >= 10 && i <= 120 && i % 15 == 0) << i;
  EXPECT_TRUE(takes(R"({"multipleOf":0.01})", "-3.140"));
  EXPECT_FALSE(takes(R"({"multipleOf":0.01})", "3.141"));
  EXPECT_TRUE(takes(R"({"minimum":9223372036854775807,"type":"integer"})", "9223372036854775808"));
  EXPECT_FALSE(takes(R"({"minimum":9223372036854775807,"type":"integer"})", "9223372036854775806"));
}

TEST(JsonSchema, ConditionsOnOneStringHoldTogether) {
  const char* s = R"({"type":"string","pattern":"^a+$","minLength":2,"maxLength":3,"not":{"const":"aaa"}})";
  EXPECT_TRUE(takes(s, R"("aa")"));
  EXPECT_FALSE(takes(s, R"("a")"));
  EXPECT_FALSE(takes(s, R"("aaa")"));
  EXPECT_FALSE(takes(s, R"("aaaa")"));
  EXPECT_TRUE(takes(R"({"type":"string","maxLength":1})", "\"\U0001F600\""));
  EXPECT_FALSE(takes(R"({"type":"string","minLength":2})", R"("\ud83d\ude00")"));
}

TEST(JsonSchema, AllOfHoldsAsAWhole) {
  const char* s = R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
                               {"properties":{"a":{"minimum":5},"b":{"type":"string"}},"additionalProperties":false}]})";
  EXPECT_TRUE(takes(s, R"({"a":5,"b":"x"})"));
  EXPECT_FALSE(takes(s, R"({"a":4})"));
  EXPECT_FALSE(takes(s, "7"));
  EXPECT_FALSE(takes(s, R"({"a":5,"zzz":1})"));
}

TEST(JsonSchema, OneOfNotIfAndDependenciesAreDecided) {
  const char* one = R"({"oneOf":[{"type":"integer"},{"minimum":2}]})";
  EXPECT_TRUE(takes(one, "1"));
  EXPECT_TRUE(takes(one, "2.5"));
  EXPECT_FALSE(takes(one, "3"));
  EXPECT_TRUE(takes(one, R"("x")"));
  const char* condition = R"({"type":"object","properties":{"k":{"enum":["a","b"]},"v":{}},"required":["k","v"],
    "if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"v":{"type":"string"}}},"else":{"properties":{"v":{"type":"null"}}}})";
  EXPECT_TRUE(takes(condition, R"({"k":"a","v":"x"})"));
  EXPECT_FALSE(takes(condition, R"({"k":"a","v":null})"));
  EXPECT_TRUE(takes(condition, R"({"k":"b","v":null})"));
  const char* depends = R"({"properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}})";
  EXPECT_TRUE(takes(depends, R"({"b":1})"));
  EXPECT_FALSE(takes(depends, R"({"a":1})"));
  EXPECT_TRUE(takes(depends, R"({"a":1,"b":2})"));
}

TEST(JsonSchema, RefusalsNameThePart) {
  EXPECT_EQ(error_of(R"({"properties":{"a/b":{"type":5}}})"), "json_schema: #/properties/a~1b/type: must be a string");
  EXPECT_EQ(error_of(R"({"items":{"type":"strnig"}})"), "json_schema: #/items/type: there is no type \"strnig\"");
  EXPECT_EQ(error_of(R"({"properties":{"a":7}})"),
            "json_schema: #/properties/a: a schema must be an object, true or false");
  EXPECT_EQ(error_of(R"({"$ref":"http://example.com/x.json"})"),
            "json_schema: #/$ref: \"http://example.com/x.json\" is not in this schema, and nothing is fetched");
  EXPECT_EQ(error_of(R"({"$ref":"#/nowhere"})"), "json_schema: #/$ref: \"#/nowhere\" leads nowhere");
  EXPECT_NE(error_of(R"({"properties":{"a":{"pattern":"(?<=x)y"}}})").find("#/properties/a/pattern: regex: "),
            std::string::npos);
  EXPECT_NE(error_of(R"({"items":{"type":"string"},"uniqueItems":true})").find("#/uniqueItems: "), std::string::npos);
  EXPECT_NE(error_of(R"({"multipleOf":1e-40})").find("#/multipleOf: "), std::string::npos);
  EXPECT_NE(error_of(R"({"minLength":-1})").find("#/minLength: must be a whole number"), std::string::npos);
  EXPECT_EQ(error_of(R"({"type":"string","minLength":3,"maxLength":2})"),
            "json_schema: #: grammar: nothing can match it");
  EXPECT_NE(error_of("{").find("json_schema: "), std::string::npos);
}

TEST(JsonSchema, UnknownFormatsAreWarnedOf) {
  const auto g = compile(R"({"properties":{"a":{"type":"string","format":"shoe-size"}}})");
  ASSERT_TRUE(g.has_value());
  ASSERT_EQ((*g)->warnings().size(), 1u);
  EXPECT_EQ((*g)->warnings()[0], "json_schema: #/properties/a/format: \"shoe-size\" is not known and says nothing");
}

TEST(JsonSchema, FormatsAdmitTheirTextsOnly) {
  const auto check = [](const char* format, const char* text) {
    return takes("{\"type\":\"string\",\"format\":\"" + std::string(format) + "\"}", "\"" + std::string(text) + "\"");
  };
  EXPECT_TRUE(check("date", "2024-02-29"));
  EXPECT_FALSE(check("date", "2023-02-29"));
  EXPECT_FALSE(check("date", "1900-02-29"));
  EXPECT_TRUE(check("date", "2000-02-29"));
  EXPECT_FALSE(check("date", "2024-04-31"));
  EXPECT_TRUE(check("date-time", "2024-12-31T23:59:59.5+01:00"));
  EXPECT_FALSE(check("date-time", "2024-12-31 23:59:59Z"));
  EXPECT_FALSE(check("time", "24:00:00Z"));
  EXPECT_TRUE(check("email", "a.b@example.org"));
  EXPECT_FALSE(check("email", "a..b@example.org"));
  EXPECT_TRUE(check("ipv4", "192.168.0.255"));
  EXPECT_FALSE(check("ipv4", "192.168.0.256"));
  for (const char* good : {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "fe80::1:2", "::ffff:1.2.3.4"})
    EXPECT_TRUE(check("ipv6", good)) << good;
  for (const char* bad : {":", "1:2:3", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9"})
    EXPECT_FALSE(check("ipv6", bad)) << bad;
  EXPECT_TRUE(check("uuid", "123e4567-e89b-12d3-a456-426614174000"));
  EXPECT_TRUE(check("uri", "https://user@example.org:80/a%20b?x=1#f"));
  EXPECT_FALSE(check("uri", "/relative"));
  EXPECT_TRUE(check("uri-reference", "/relative?x"));
  EXPECT_TRUE(check("uri-reference", "a/b:c"));
  EXPECT_TRUE(check("uri-reference", ""));
  EXPECT_FALSE(check("uri-reference", "1a:b"));
  EXPECT_TRUE(check("hostname", "a-b.example.org"));
  EXPECT_FALSE(check("hostname", "-a.example.org"));
  EXPECT_TRUE(check("duration", "P1Y2M3DT4H"));
  EXPECT_FALSE(check("duration", "P"));
  EXPECT_TRUE(check("json-pointer", "/a~1b/0"));
  EXPECT_TRUE(check("uri-template", "/a/{b}{?c,d*}"));
  EXPECT_FALSE(check("uri-template", "/a/{"));
}

// Steps are counted, so what is refused is refused everywhere; the clock's part is that each case ends soon.
TEST(JsonSchemaBounds, WhatIsTooMuchIsRefusedByItsSize) {
  std::string nested = R"({"type":"string"})";
  for (int i = 0; i < 8; ++i)
    nested = R"({"oneOf":[)" + nested + R"(,{"minLength":)" + std::to_string(i) + R"(},{"maxLength":)" +
             std::to_string(9 + i) + "}]}";
  std::string product = "{\"allOf\":[";
  for (int i = 0; i < 20; ++i)
    product += std::string(i == 0 ? "" : ",") + R"({"anyOf":[{"required":["a)" + std::to_string(i) +
               R"("]},{"required":["b)" + std::to_string(i) + R"("]}]})";
  product += "]}";
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"items":)";
  deep += "{}" + std::string(100, '}');
  for (const std::string& s : {nested, product, deep}) {
    const auto g = compile(s);
    if (g) continue;  // kept after all, within its steps
    EXPECT_NE(g.error().code, Code::internal) << g.error().message;
  }
  EXPECT_FALSE(compile(product).has_value());
  EXPECT_FALSE(compile(deep).has_value());
  EXPECT_NE(error_of(std::string(300 << 10, ' ')).find("the limit is 262144"), std::string::npos);
}

TEST(JsonSchemaBounds, LargeCountsCostNothing) {
  for (const char* s :
       {R"({"type":"string","minLength":1000000000})", R"({"type":"array","maxItems":1000000000})",
        R"({"type":"array","items":{"type":"null"},"minItems":1000000,"maxItems":1000000000})",
        R"({"type":"string","pattern":"a{1000000}"})", R"({"type":"string","pattern":"(a{0,500}){0,500}"})",
        R"({"type":"string","pattern":"^.{0,10000}.{0,10000}$"})", R"({"type":"string","pattern":"^(a+)+$"})"}) {
    const auto g = compile(s);
    ASSERT_TRUE(g.has_value()) << s << g.error().message;
    EXPECT_LT((*g)->bytes(), size_t{40} << 20);
    Matcher m(*g, byte_vocabulary());
    std::vector<uint32_t> mask(m.n_words());
    EXPECT_TRUE(m.mask(mask).has_value());
  }
  EXPECT_TRUE(takes(
      R"({"type":"array","items":{"type":"null"},"minItems":40,"maxItems":41})", "[null" + [] {
        std::string s;
        for (int i = 0; i < 39; ++i) s += ",null";
        return s;
      }() + "]"));
  EXPECT_FALSE(takes(R"({"type":"array","items":{"type":"null"},"minItems":40,"maxItems":41})", "[null,null]"));
}

TEST(JsonSchemaBounds, ManyPartsAreTakenInOneGo) {
  std::string values = "{\"enum\":[";
  for (int i = 0; i < 20000; ++i) values += std::string(i == 0 ? "" : ",") + "\"v" + std::to_string(i) + "\"";
  values += "]}";
  EXPECT_TRUE(takes(values, "\"v19999\""));
  EXPECT_FALSE(takes(values, "\"v20000\""));
  std::string optional = "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{";
  for (int i = 0; i < 400; ++i)
    optional += std::string(i == 0 ? "" : ",") + "\"p" + std::to_string(i) + "\":{\"type\":\"integer\"}";
  optional += "}}";
  EXPECT_TRUE(takes(optional, R"({"p3":1,"p77":2,"p399":3})"));
  EXPECT_FALSE(takes(optional, R"({"p77":1,"p3":2})"));
}

// What a mask finds dead it must find so without a long search, whatever counts are around it.
TEST(JsonSchemaBounds, DeadEndsOfFormatsAreSeenAtOnce) {
  for (const char* format : {"hostname", "email", "uri", "ipv6", "date-time"}) {
    const auto g = compile("{\"type\":\"string\",\"format\":\"" + std::string(format) + "\"}");
    ASSERT_TRUE(g.has_value());
    Matcher m(*g, byte_vocabulary());
    std::vector<uint32_t> mask(m.n_words());
    for (const char c : std::string("\"4E-x.ab-")) {
      ASSERT_TRUE(m.mask(mask).has_value()) << format;
      if (!m.accept(c)) break;
    }
    EXPECT_TRUE(m.mask(mask).has_value()) << format;
  }
}

TEST(JsonSchemaBounds, MultiplesAreCountedOrRefused) {
  for (const char* s :
       {R"({"multipleOf":4093})", R"({"type":"integer","multipleOf":997,"minimum":5,"maximum":1000000000})"}) {
    const auto g = compile(s);
    ASSERT_TRUE(g.has_value()) << g.error().message;
    Matcher m(*g, byte_vocabulary());
    std::vector<uint32_t> mask(m.n_words());
    for (const char c : std::string("993039")) {
      ASSERT_TRUE(m.mask(mask).has_value()) << s;
      if (!m.accept(c)) break;
    }
  }
  EXPECT_NE(error_of(R"({"allOf":[{"multipleOf":97},{"multipleOf":89}]})").find("more than 4096 rests"),
            std::string::npos);
}

// Readers keep 15 digits, so where the last digit decides no more are written.
TEST(JsonSchema, DigitsThatDecideAreKeptByEveryReader) {
  EXPECT_TRUE(takes(R"({"multipleOf":3})", "999999999999999"));
  EXPECT_FALSE(takes(R"({"multipleOf":3})", "9999999999999999"));
  EXPECT_FALSE(takes(R"({"type":"number","not":{"type":"integer"}})", "2954553409801403.8"));
  EXPECT_TRUE(takes(R"({"type":"number","not":{"type":"integer"}})", "29545534098014.5"));
}

TEST(JsonSchemaBounds, ReferencesInCirclesEnd) {
  EXPECT_TRUE(takes(R"({"$ref":"#"})", "7"));
  EXPECT_TRUE(takes(
      R"({"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}})",
      "7"));
  EXPECT_EQ(error_of(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
            "json_schema: #: grammar: nothing can match it");
  EXPECT_EQ(error_of(R"({"not":{"$ref":"#"}})"), "json_schema: #: grammar: nothing can match it");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "[";
  EXPECT_TRUE(takes(R"({"type":"array","items":{"$ref":"#"}})", text + "[]" + std::string(2000, ']')));
}

TEST(JsonSchemaBounds, DescriptionsChangeNothing) {
  const auto plain = compile(R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]})");
  const auto described = compile(
      R"({"description":"say {\"b\":1}","type":"object","properties":{"a":{"title":"x","description":"<tool_call>","type":"string","examples":["q"]}},"required":["a"]})");
  ASSERT_TRUE(plain.has_value() && described.has_value());
  std::vector<uint32_t> a(9), b(9);
  Matcher m(*plain, byte_vocabulary()), n(*described, byte_vocabulary());
  for (const char c : std::string("{\"a\": \"xyz\"}")) {
    ASSERT_TRUE(m.mask(a).has_value() && n.mask(b).has_value());
    EXPECT_EQ(a, b);
    ASSERT_TRUE(m.accept(c).has_value() && n.accept(c).has_value());
  }
}

// Each of these is one long list: what is worked out of it grows with the list and not with its square.
TEST(JsonSchema, LongListsAreSettledOrRefusedSoon) {
  const auto list = [](int n, const auto& one) {
    std::string out;
    for (int i = 0; i < n; ++i) out += (i > 0 ? "," : "") + one(i);
    return out;
  };
  const auto texts = [&](int n) { return list(n, [](int i) { return "\"v" + std::to_string(i) + "\""; }); };
  const std::string other = R"({"type":"string","maxLength":9,"not":{"enum":[)" + texts(20'000) + "]}}";
  EXPECT_TRUE(takes(other, "\"v20000\""));
  EXPECT_FALSE(takes(other, "\"v19999\""));
  const std::string number =
      R"({"type":"integer","not":{"enum":[)" + list(20'000, [](int i) { return std::to_string(i); }) + "]}}";
  EXPECT_TRUE(takes(number, "20000"));
  EXPECT_FALSE(takes(number, "19999"));
  const auto parts = [&](int n) {
    return R"({"properties":{)" + list(n, [](int i) { return "\"v" + std::to_string(i) + "\":{}"; }) + "}}";
  };
  EXPECT_EQ(error_of(parts(7'000)), "compiled");
  EXPECT_EQ(error_of(parts(15'000)), "json_schema: #/properties: has more than 8000 names");
  const auto steps = [](const std::string& schema) {
    return error_of(schema).find("steps to compile") != std::string::npos;
  };
  EXPECT_TRUE(steps(R"({"allOf":[)" + list(80'000, [](int) { return std::string("{}"); }) + "]}"));
  EXPECT_TRUE(steps(R"({"required":[)" + texts(25'000) + "]}"));
  EXPECT_NE(error_of(R"({"dependencies":{)" + list(18'000, [](int i) { return "\"v" + std::to_string(i) + "\":[]"; }) +
                     R"(},"$schema":"http://json-schema.org/draft-07/schema"})"),
            "compiled");
}

}  // namespace
}  // namespace quire
