// Calls at their worst, in every family: a megabyte, every kind of character, deep and broken, what is said twice. They
// are read as they were written, or stay as far as they came, however they are cut.
#include <gtest/gtest.h>

#include "base/sanitized.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

class HostileCalls : public testing::TestWithParam<std::string> {
 protected:
  const CallForm& form() const { return *find_call_form(GetParam()); }
  std::string answer(const Json& arguments) const {
    return answer_begin(form()) + call_as_written(form(), "get", arguments.dump()) + std::string(form().tail);
  }
  // The same whole and in pieces.
  AnswerParts read(const std::string& text) const {
    auto rules = std::make_shared<CallRules>();
    rules->form = &form();
    rules->names = {"get"};
    const AnswerParser fresh(message_kind(form()), false, rules);
    AnswerParts whole = read_in_pieces(fresh, text, text.size() + 1);
    EXPECT_TRUE(read_in_pieces(fresh, text, 7) == whole) << text.substr(0, 200);
    return whole;
  }
  void expect_call(const Json& arguments) const {
    const AnswerParts parts = read(answer(arguments));
    EXPECT_EQ(parts.joined(PartKind::call), "get");
    EXPECT_FALSE(parts.has(PartKind::text)) << parts.joined(PartKind::text).substr(0, 200);
    const auto read = Json::parse(parts.joined(PartKind::arguments));
    EXPECT_TRUE(read && *read == arguments) << parts.joined(PartKind::arguments).substr(0, 200);
  }
};

TEST_P(HostileCalls, AMegabyteIsRead) {
  std::string text;
  while (text.size() < static_cast<size_t>(fewer_if_sanitized(1 << 20))) text += "line \\ of \" code; ";
  expect_call(Json::Object{{"s", "x" + text}});
}

TEST_P(HostileCalls, EveryCharacterIsRead) {
  expect_call(Json::Object{{"s", "é 🦜 \xe2\x80\xa8 \\u00e9 \\ \" ' } ] ) , : = x"}});
  expect_call(Json::Object{{"s", "a\x01\x7f\tb\nc"}, {"other", "\xef\xbf\xbf"}});
}

TEST_P(HostileCalls, NestedListsAreRead) {
  Json deep = Json(1);
  for (int i = 0; i < 6; ++i) deep = Json::Object{{"k", Json::Array{std::move(deep), Json("x")}}};
  expect_call(Json::Object{{"o", std::move(deep)}});
}

// Deeper than anything is read: however it is taken, the server goes on and no cut matters.
TEST_P(HostileCalls, NoDepthBreaksAnything) {
  const std::string begin = answer({Json::Object{{"o", "~"}}});
  const size_t at = begin.find('~');
  for (const std::string unit : {"[", "{\"a\":", "{a:", "<item>", "<![CDATA["}) {
    std::string text = begin.substr(0, at);
    for (int i = 0; i < fewer_if_sanitized(20'000); ++i) text += unit;
    const AnswerParts parts = read(text + begin.substr(at + 1));
    EXPECT_FALSE(parts.empty());
  }
}

// Cut anywhere: a call that was told stays, its arguments are a beginning of the whole's.
TEST_P(HostileCalls, WhatIsCutOffIsABeginning) {
  const std::string text = answer(Json::Object{{"s", "é 🦜"}, {"l", Json::Array{Json("x"), Json(2)}}});
  const std::string whole = read(text).joined(PartKind::arguments);
  for (size_t n = 0; n < text.size(); ++n) {
    const AnswerParts parts = read(text.substr(0, n));
    if (!parts.has(PartKind::call)) continue;
    EXPECT_EQ(parts.joined(PartKind::call), "get");
    EXPECT_TRUE(whole.starts_with(parts.joined(PartKind::arguments))) << n << ": " << parts.joined(PartKind::arguments);
  }
}

// Arguments that are JSON come as the model wrote them; elsewhere the second is dropped, or ends the call.
TEST_P(HostileCalls, WhatIsSaidTwiceIsReadOneWay) {
  const std::string twice = answer_begin(form()) + call_as_written(form(), "get", R"({"s": "a", "t": "b"})");
  std::string text = twice + std::string(form().tail);
  for (size_t at = 0; (at = text.find('t', at)) != std::string::npos; ++at)
    if (text.substr(at - 1, 1).find_first_of("\"=<{,> ") != std::string::npos &&
        text.substr(at + 1, 1).find_first_of("\"=:>") == 0)
      text[at] = 's';
  const AnswerParts parts = read(text);
  EXPECT_EQ(parts.joined(PartKind::call), "get") << text;
  EXPECT_NE(parts.joined(PartKind::arguments).find("\"a\""), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Families,
                         HostileCalls,
                         testing::ValuesIn(Registry<CallForm>::get().names()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace quire
