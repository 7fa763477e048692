#include "text/grammar/structural_tag.h"

#include "text/grammar/grammar_testing.h"

namespace quire {
namespace {

std::shared_ptr<const Grammar> compile(std::string_view text, std::vector<GrammarComposer::Control> controls = {}) {
  const auto json = Json::parse(text);
  EXPECT_TRUE(json.has_value());
  auto made = compile_structural_tag(*json, std::move(controls), {});
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made ? *made : nullptr;
}

std::string error_of(std::string_view text) {
  return quire::error_of(compile_structural_tag(*Json::parse(text), {}, {}));
}

constexpr const char* kOld = R"({"type":"structural_tag","triggers":["<f="],"structures":[
  {"begin":"<f=add>","schema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false},"end":"</f>"},
  {"begin":"<f=now>","schema":{"type":"object","additionalProperties":false},"end":"</f>"}]})";

TEST(StructuralTag, TextIsFreeUntilATriggerIsWhole) {
  const auto g = compile(kOld);
  EXPECT_TRUE(takes(g, ""));
  EXPECT_TRUE(takes(g, "plain <f text < f= and \xC3\xA9"));
  EXPECT_TRUE(takes(g, "a<f=add>{\"x\": 1}</f>b<f=now>{}</f>"));
  EXPECT_TRUE(takes(g, "<<f=now>{}</f>"));
  EXPECT_FALSE(takes(g, "a<f="));
  EXPECT_FALSE(takes(g, "a<f=sub>"));
  EXPECT_FALSE(takes(g, "a<f=add>{\"x\": \"y\"}</f>"));
  EXPECT_FALSE(takes(g, "a<f=add>{\"x\": 1}"));
}

// The first time that the trigger is whole counts, also where it overlaps with itself.
TEST(StructuralTag, TriggersThatOverlapBeginAtTheFirst) {
  const auto g = compile(R"({"triggers":["aa"],"structures":[{"begin":"aab","schema":{"const":1},"end":""}]})");
  EXPECT_TRUE(takes(g, "xaab1"));
  EXPECT_FALSE(takes(g, "aaab1"));
  EXPECT_TRUE(takes(g, "abab"));
}

TEST(StructuralTag, FormatsNest) {
  const auto g = compile(R"J({"type":"structural_tag","format":{"type":"sequence","elements":[
    {"type":"tag","begin":"<think>","content":{"type":"any_text"},"end":"</think>"},
    {"type":"or","elements":[{"type":"const_string","value":"none"},
      {"type":"tags_with_separator","separator":",","at_least_one":true,"tags":[
        {"begin":"[","content":{"type":"regex","pattern":"a+"},"end":"]"},
        {"begin":"(","content":{"type":"json_schema","json_schema":{"type":"null"}},"end":[")","."]}]}]}]}})J");
  EXPECT_TRUE(takes(g, "<think>a < b </thin k></think>none"));
  EXPECT_TRUE(takes(g, "<think></think>[aa],(null),(null."));
  EXPECT_FALSE(takes(g, "<think></think>"));
  EXPECT_FALSE(takes(g, "<think></think>[b]"));
  EXPECT_FALSE(takes(g, "<think>x</think>y</think>none"));
}

TEST(StructuralTag, GrammarsMayBeLarks) {
  const auto g = compile(R"J({"format":{"type":"sequence","elements":[{"type":"const_string","value":"{\"a\": \""},
    {"type":"grammar","lark":true,"grammar":"start: /[a-c\"]+/\n%json_string"},{"type":"const_string","value":"\"}"}]}})J");
  EXPECT_TRUE(takes(g, R"({"a": "b\"c"})"));
  EXPECT_FALSE(takes(g, R"({"a": "b"c"})"));
}

TEST(StructuralTag, OneTagMayBeAsked) {
  const char* base = R"({"format":{"type":"triggered_tags","triggers":["<"],"at_least_one":true,"stop_after_first":STOP,
    "tags":[{"begin":"<a>","content":{"type":"grammar","grammar":"root ::= 'x' root 'y' | 'z'"},"end":"</a>"}]}})";
  const auto with = [&](const char* stop) {
    std::string s = base;
    s.replace(s.find("STOP"), 4, stop);
    return compile(s);
  };
  EXPECT_FALSE(takes(with("true"), "text"));
  EXPECT_TRUE(takes(with("true"), "text<a>xzy</a>"));
  EXPECT_FALSE(takes(with("true"), "text<a>z</a>more"));
  EXPECT_TRUE(takes(with("false"), "text<a>z</a>more<a>z</a>"));
}

TEST(StructuralTag, ControlTokensStandForTheirText) {
  const auto g =
      compile(R"({"triggers":["<call>"],"structures":[{"begin":"<call>","schema":{"const":7},"end":"</call>"}]})",
              {{"<call>", kByteControl}, {"</call>", kByteControl2}});
  Matcher m(g, byte_vocabulary());
  ASSERT_TRUE(m.accept_text("hi <call").has_value());
  EXPECT_FALSE(m.accept('>').has_value());  // spelled it would be read as the token that it is not
  ASSERT_TRUE(m.accept_text("ed> ").has_value());
  ASSERT_TRUE(m.accept(kByteControl).has_value());
  EXPECT_EQ(m.forced_bytes(9), "7");
  ASSERT_TRUE(m.accept('7').has_value());
  EXPECT_FALSE(m.accept('<').has_value());
  ASSERT_TRUE(m.accept(kByteControl2).has_value());
  EXPECT_TRUE(m.may_end());
  ASSERT_TRUE(m.accept_text("more").has_value());
  EXPECT_TRUE(m.may_end());
}

TEST(StructuralTag, TextEndsAtTheTokenAndCannotSpellIt) {
  const auto g = compile(R"({"format":{"type":"tag","begin":"","content":{"type":"any_text"},"end":"</call>\n"}})",
                         {{"<call>", kByteControl}, {"</call>", kByteControl2}});
  Matcher m(g, byte_vocabulary());
  ASSERT_TRUE(m.accept_text("a </call").has_value());
  EXPECT_FALSE(m.accept('>').has_value());
  ASSERT_TRUE(m.accept_text(" ").has_value());
  ASSERT_TRUE(m.accept(kByteControl2).has_value());
  EXPECT_EQ(m.forced_bytes(9), "\n");
}

TEST(StructuralTag, ErrorsNameThePart) {
  EXPECT_EQ(error_of("7"), "structural_tag: #: must be an object");
  EXPECT_EQ(error_of(R"({"format":{"type":"sequence","elements":[{"type":"x"}]}})"),
            "structural_tag: #/format/elements/0/type: \"x\" is not supported");
  EXPECT_EQ(error_of(R"({"format":{"type":"json_schema","json_schema":{"type":5}}})"),
            "structural_tag: #/format: json_schema: #/type: must be a string");
  EXPECT_EQ(error_of(R"({"triggers":["<f"],"structures":[{"begin":"<g","schema":{},"end":""}]})"),
            "structural_tag: a tag begins with none of the triggers: \"<g\"");
  EXPECT_EQ(error_of(R"({"triggers":["<f"],"structures":[{"begin":"<f","schema":{}}]})"),
            "structural_tag: #/structures/0: end is missing");
}

}  // namespace
}  // namespace quire
