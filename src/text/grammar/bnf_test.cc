#include "text/grammar/bnf.h"

#include "text/grammar/automaton.h"
#include "text/grammar/grammar_testing.h"

namespace quire {
namespace {

bool gbnf(std::string_view source, std::string_view text) { return takes(compile_gbnf(source, {}), text); }
bool ebnf(std::string_view source, std::string_view text) { return takes(compile_ebnf(source, {}), text); }
std::string error_of(std::string_view source) { return quire::error_of(compile_gbnf(source, {})); }

constexpr const char* kJson = R"(
# values in values
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)";

TEST(Gbnf, ReadsAGrammarOfJson) {
  EXPECT_TRUE(gbnf(kJson, R"({"a": [1, 2.5, "x\u00e9"], "b": {"c": null}})"));
  EXPECT_TRUE(gbnf(kJson, "{}"));
  EXPECT_FALSE(gbnf(kJson, "[1]"));
  EXPECT_FALSE(gbnf(kJson, R"({"a": 01})"));
  EXPECT_FALSE(gbnf(kJson, R"({"a": 1,})"));
}

TEST(Gbnf, CountsBehindCountsAreBounded) {
  const std::string rest = " \"x\" | \"y\"";
  EXPECT_TRUE(gbnf("root ::= root" + std::string(16, '?') + rest, "xx"));
  EXPECT_NE(error_of("root ::= root" + std::string(200'000, '?') + rest).find("more than 16 counts"),
            std::string::npos);
}

TEST(Gbnf, CountsClassesAndEscapes) {
  EXPECT_TRUE(gbnf("root ::= \"a\"{2} [b-d]{1,2} .", "aabcx"));
  EXPECT_FALSE(gbnf("root ::= \"a\"{2} [b-d]{1,2} .", "abcx"));
  EXPECT_TRUE(gbnf("root ::= [^a]+", "\xC3\xA9\n"));
  EXPECT_TRUE(gbnf("root ::= \"\\u00e9\\x41\\\"\"",
                   "\xC3\xA9"
                   "A\""));
  EXPECT_TRUE(gbnf("root ::= [-a]+", "a-"));
  EXPECT_TRUE(gbnf("root ::= (\"a\" |\n  \"b\")\n  x\nx ::= \"c\"", "bc"));
  EXPECT_TRUE(gbnf("root ::= \"\"", ""));
  EXPECT_TRUE(gbnf("root ::= \"x\"{1000000} | \"y\"", "y"));
}

TEST(Gbnf, RecursionOfEveryKindEnds) {
  EXPECT_TRUE(gbnf("root ::= root \"a\" | \"b\"", "baaa"));       // left
  EXPECT_TRUE(gbnf("root ::= \"a\" root | \"b\"", "aaab"));       // right
  EXPECT_TRUE(gbnf("root ::= \"a\" root \"b\" | \"\"", "aabb"));  // middle
  EXPECT_FALSE(gbnf("root ::= \"a\" root \"b\" | \"\"", "aab"));
  EXPECT_TRUE(gbnf("root ::= x root | \"b\"\nx ::= \"\" | \"a\"", "aab"));  // behind what may be nothing
  EXPECT_TRUE(gbnf("root ::= ( [x]* )*", "xxx"));
  EXPECT_TRUE(gbnf("root ::= a\na ::= b | \"x\"\nb ::= a", "x"));  // a circle
  EXPECT_TRUE(gbnf("root ::= root root | \"a\"", "aaaaaaaa"));     // many meanings
  EXPECT_TRUE(gbnf("root ::= e\ne ::= e \"+\" e | \"(\" e \")\" | [0-9]+", "1+(2+3)+44"));
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "a";
  EXPECT_TRUE(gbnf("root ::= \"a\" root | \"a\"", text));
}

TEST(Gbnf, ErrorsNameTheOffset) {
  EXPECT_EQ(error_of("root ::= foo"), "gbnf: there is no rule \"foo\" at offset 9");
  EXPECT_EQ(error_of("a ::= \"x\""), "gbnf: there is no rule \"root\" at offset 0");
  EXPECT_EQ(error_of("root ::= \"a"), "gbnf: a literal without its closing quote at offset 11");
  EXPECT_EQ(error_of("root ::= (\"a\""), "gbnf: ( without ) at offset 13");
  EXPECT_EQ(error_of("root ::= \"a\"\nroot ::= \"b\""), "gbnf: rule \"root\" is there twice at offset 13");
  EXPECT_EQ(error_of("root = \"a\""), "gbnf: ::= is missing at offset 5");
  EXPECT_EQ(error_of("root ::= root"), "grammar: nothing can match it");
  EXPECT_NE(error_of("root ::= " + std::string(100000, '(')).find("groups nested deeper than 64"), std::string::npos);
  EXPECT_NE(error_of(std::string(300 << 10, ' ')).find("the limit is 262144"), std::string::npos);
  EXPECT_NE(error_of("root ::= \"a\"{9999999999}").find("a number above"), std::string::npos);
}

TEST(Gbnf, ManyAlternativesAndDeepChainsAreFine) {
  std::string many = "root ::= \"word\"";
  for (int i = 0; i < 20000; ++i) many += " | \"w" + std::to_string(i) + "\"";
  EXPECT_TRUE(gbnf(many, "w19999"));
  EXPECT_FALSE(gbnf(many, "w20000"));
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 10000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  EXPECT_TRUE(gbnf(chain + "r10000 ::= \"x\"", "x"));
  std::string doubling = "root ::= r30\nr0 ::= \"a\"?\n";
  for (int i = 0; i < 30; ++i)
    doubling += "r" + std::to_string(i + 1) + " ::= r" + std::to_string(i) + " r" + std::to_string(i) + "\n";
  const auto g = compile_gbnf(doubling, {});
  ASSERT_TRUE(g.has_value());
  Matcher m(*g, byte_vocabulary());
  std::vector<uint32_t> mask(m.n_words());
  EXPECT_TRUE(m.mask(mask).has_value());
}

// What means too much at once is an error of that answer, not a stall.
TEST(Gbnf, AmbiguityIsBounded) {
  const auto g = compile_gbnf("root ::= s\ns ::= s s | s s s | \"a\" | \"\"", {});
  ASSERT_TRUE(g.has_value());
  Matcher m(*g, byte_vocabulary());
  std::vector<uint32_t> mask(m.n_words());
  for (int i = 0; i < 60; ++i) {
    const Status done = m.mask(mask);
    if (!done) {
      EXPECT_EQ(done.error().code, Code::exhausted);
      break;
    }
    if (!m.accept('a')) break;
  }
}

TEST(Gbnf, ControlTokensCountByIdOnly) {
  const auto g = compile_gbnf("root ::= \"a\" <[257]> \"b\"", {});
  ASSERT_TRUE(g.has_value());
  Matcher m(*g, byte_vocabulary());
  std::vector<uint32_t> mask(m.n_words());
  ASSERT_TRUE(m.accept('a').has_value());
  ASSERT_TRUE(m.mask(mask).has_value());
  for (uint32_t i = 0; i < 259; ++i)
    EXPECT_EQ((mask[i / 32] >> (i % 32) & 1) != 0, i == static_cast<uint32_t>(kByteControl)) << i;
  EXPECT_EQ(m.forced_bytes(10), "");
  EXPECT_FALSE(m.accept(kByteControl2).has_value());
  ASSERT_TRUE(m.accept(kByteControl).has_value());
  ASSERT_TRUE(m.accept('b').has_value());
  EXPECT_TRUE(m.may_end());
}

TEST(Ebnf, HasTheW3csNotation) {
  EXPECT_TRUE(ebnf("root ::= 'it' #x27 's' /* a comment */ [#x20-#x22]", "it's!"));
  EXPECT_TRUE(ebnf("root ::= word\nword ::= [a-z]+ - ('if' | 'else')", "iff"));
  EXPECT_FALSE(ebnf("root ::= word\nword ::= [a-z]+ - ('if' | 'else')", "if"));
  EXPECT_TRUE(ebnf("root ::= 'a' ;\n", "a"));
  EXPECT_TRUE(ebnf(kJson, R"({"a": 1})"));
}

TEST(Ebnf, SomethingIsBehindAMinus) {
  for (const char* source : {"root ::= 'a' - | 'b'", "root ::= ('a' -) 'b'", "root ::= 'a' -", "root ::= 'a' - ;",
                             "root ::= 'a' - x ::= 'b'", "root ::= 'a' - - 'b'", "root ::= 'a' - ?"}) {
    const auto grammar = compile_ebnf(source, {});
    ASSERT_FALSE(grammar) << source;
    EXPECT_EQ(grammar.error().code, Code::invalid) << source;
  }
  const auto grammar = compile_ebnf("root ::= 'a' - | 'b'", {});
  EXPECT_NE(grammar.error().message.find("there is nothing behind the -"), std::string::npos)
      << grammar.error().message;
  EXPECT_FALSE(ebnf("root ::= [ab] - ('a' | 'c') | 'd'", "a"));
  EXPECT_TRUE(ebnf("root ::= [ab] - ('a' | 'c') | 'd'", "d"));
}

}  // namespace
}  // namespace quire
