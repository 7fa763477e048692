#include "text/grammar/lark.h"

#include "text/grammar/grammar_testing.h"

namespace quire {
namespace {

bool takes(std::string_view source, std::string_view text) { return quire::takes(compile_lark(source, {}), text); }
std::string error_of(std::string_view source) { return quire::error_of(compile_lark(source, {})); }

constexpr const char* kSums = R"L(
// sums of products
?start: sum
?sum: product
    | sum "+" product   -> add
    | sum "-" product   -> sub
?product: atom
    | product "*" atom  -> mul
?atom: NUMBER           -> number
     | "-" atom         -> neg
     | "(" sum ")"
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
)L";

TEST(Lark, ReadsAGrammarOfSums) {
  EXPECT_TRUE(takes(kSums, "1+2*(3 - 4.5)"));
  EXPECT_TRUE(takes(kSums, "  1 +  2 "));
  EXPECT_TRUE(takes(kSums, "--1e5"));
  EXPECT_FALSE(takes(kSums, "1+"));
  EXPECT_FALSE(takes(kSums, "1 2"));
  EXPECT_FALSE(takes(kSums, "(1"));
}

TEST(Lark, HasRangesCountsOptionsAndFlags) {
  EXPECT_TRUE(takes("start: A~2 [B] \"x\"..\"z\"\nA: \"a\"\nB: \"b\"i", "aaBy"));
  EXPECT_TRUE(takes("start: A~2 [B] \"x\"..\"z\"\nA: \"a\"\nB: \"b\"i", "aaz"));
  EXPECT_FALSE(takes("start: A~2..3\nA: \"a\"", "a"));
  EXPECT_TRUE(takes("start: A~2..3\nA: \"a\"", "aaa"));
  EXPECT_TRUE(takes("start: /a.b/s", "a\nb"));
  EXPECT_FALSE(takes("start: /a.b/", "a\nb"));
  EXPECT_TRUE(takes("start: /ab[/]\\/c/i", "AB//C"));
  EXPECT_TRUE(takes("start: (\"a\"\n | \"b\"\n)+", "abba"));
  EXPECT_TRUE(takes("start.2: X\nX.10: (\"a\" | \"b\")*\n", "ab"));
}

// What is ignored stands between terminals, never inside one.
TEST(Lark, IgnoresBetweenTerminalsOnly) {
  constexpr const char* kWords = "start: WORD+\nWORD: \"a\" \"b\"\n%ignore \" \"\n%ignore /#[^\\n]*/";
  EXPECT_TRUE(takes(kWords, " ab  ab#x"));
  EXPECT_TRUE(takes(kWords, "abab"));
  EXPECT_FALSE(takes(kWords, "a b"));
}

TEST(Lark, ATextMayStandInAJsonString) {
  constexpr const char* kList =
      "start: list\nlist: \"(\" (list | WORD)* \")\"\nWORD: /\"[a-c]+\"/ | \"\\\\n\" | \"q\"i | "
      "\"\xC3\xA8\"..\"\xC3\xAA\"\n"
      "%ignore \"\\t\"\n%json_string\n";
  for (const char* text : {"()", "(\\\"ab\\\"(\\\\n)\\t(()Q))", "\\t((\\t\\\"c\\\"\\t)\\t)", "(\xC3\xA9\\u00e9)"})
    EXPECT_TRUE(takes(kList, text)) << text;
  for (const char* text : {"(", "(\"ab\")", "(\\n)", "(ab)", "(\t)", "(\\u00e7)"})
    EXPECT_FALSE(takes(kList, text)) << text;
  EXPECT_EQ(error_of("start: <[3]>\n%json_string"), "lark: a control token, inside of a JSON string, at offset 12");
  EXPECT_NE(error_of("%json_string\nstart: \"a\"").find("%json_string is no last line"), std::string::npos);
}

TEST(Lark, ErrorsNameTheOffset) {
  EXPECT_EQ(error_of("start: foo"), "lark: there is no rule \"foo\" at offset 7");
  EXPECT_EQ(error_of("a: \"x\""), "lark: there is no rule \"start\" at offset 0");
  EXPECT_EQ(error_of("start: (\"a\""), "lark: a group without its end at offset 11");
  EXPECT_EQ(error_of("start: x{y}"), "lark: a template at offset 8");
  EXPECT_EQ(error_of("start: /a\\"), "lark: an expression without its end at offset 10");
  EXPECT_EQ(error_of("%declare X"), "lark: this directive at offset 1");
  EXPECT_EQ(error_of("start: /(?<=x)a/"), "lark: /(?<=x)a/: regex: lookbehind at offset 2");
  EXPECT_EQ(error_of("start: /a/m"), "lark: flags but i and s at offset 11");
  EXPECT_EQ(error_of("start: \"a\"\nstart: \"b\""), "lark: rule \"start\" is there twice at offset 11");
  EXPECT_EQ(error_of("%import common.NOPE"), "lark: there is no common terminal \"NOPE\" at offset 19");
}

}  // namespace
}  // namespace quire
