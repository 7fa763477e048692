#include "text/template_lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/template_jsonl.h"

namespace quire {
namespace {

using testing::HasSubstr;

TemplateLint lint(std::string_view source) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return lint_template(*parsed, *Json::parse(R"({"bos_token":"<s>","eos_token":"</s>"})"));
}

constexpr std::string_view kChatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ m.reasoning_content }}{{ m.tool_calls|tojson "
    "if m.tool_calls }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST(TemplateLint, AcceptsATemplateThatOnlyAppends) {
  const TemplateLint result = lint(kChatml);
  EXPECT_TRUE(result.appends_only()) << lint_text(result);
  EXPECT_THAT(result.refused, testing::IsEmpty());
  EXPECT_EQ(result.n_compared, 3 + 3 + 3 + 3 + 1);  // four questions three times, two with a tool, two times of day
}

TEST(TemplateLint, FindsWhereAPromptIsRewritten) {
  // The system prompt moves to the last question, as Mistral's early templates had it.
  const TemplateLint result = lint(
      "{% for m in messages %}{% if m.role == 'user' %}[INST] {% if loop.last and messages[0].role == 'system' %}"
      "{{ messages[0].content }} {% endif %}{{ m.content }} [/INST]{% elif m.role == 'assistant' %}{{ m.content }}{% "
      "endif %}"
      "{% endfor %}");
  ASSERT_FALSE(result.appends_only());
  ASSERT_FALSE(result.rewrites.empty());
  const TemplateRewrite& first = result.rewrites[0];
  EXPECT_EQ(first.conversation, "system");
  EXPECT_EQ(first.kind, RewriteKind::prompt);
  EXPECT_EQ(first.turn, 1);
  EXPECT_EQ(first.offset, 7U);
  EXPECT_EQ(first.before, "Answer briefly. Question one? [/INST]");
  EXPECT_EQ(first.after.substr(0, 21), "Question one? [/INST]");
  EXPECT_THAT(lint_text(result), HasSubstr("system, turn 1: the next prompt rewrites this one at byte 7\n"));
}

TEST(TemplateLint, FindsChangedAnswersAndDroppedReasoning) {
  const TemplateLint result = lint(
      "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content and loop.last %}{{ m.reasoning_content }}{% "
      "endif %}"
      "{{ m.content|upper if m.role == 'assistant' else m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  ASSERT_EQ(result.rewrites.size(), 4U) << lint_text(result);
  EXPECT_EQ(result.rewrites[0].kind, RewriteKind::reply);
  EXPECT_EQ(result.rewrites[0].before, "nswer one.");
  EXPECT_EQ(result.rewrites[0].after.substr(0, 10), "NSWER ONE.");
  EXPECT_EQ(result.rewrites[2].kind, RewriteKind::reasoning);
  EXPECT_FALSE(result.appends_only());
}

TEST(TemplateLint, TextBeforeTheAnswerIsNoRewrite) {
  const TemplateLint result = lint(
      "{% for m in messages %}<{{ m.role }}>{{ '[final]' if m.role == 'assistant' }}{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  ASSERT_EQ(result.rewrites.size(), 3U) << lint_text(result);
  EXPECT_EQ(result.rewrites[0].kind, RewriteKind::inserted);
  EXPECT_EQ(result.rewrites[0].after.substr(0, 18), "[final]Answer one.");
  EXPECT_TRUE(result.appends_only());
}

TEST(TemplateLint, FindsWhatDependsOnTheTime) {
  const TemplateLint dated = lint("{{ strftime_now('%d %b') }}" + std::string(kChatml));
  ASSERT_EQ(dated.rewrites.size(), 1U);
  EXPECT_EQ(dated.rewrites[0].kind, RewriteKind::time);
  EXPECT_EQ(dated.rewrites[0].offset, 1U);
  EXPECT_EQ(dated.rewrites[0].before.substr(0, 5), "1 May");
  EXPECT_EQ(dated.rewrites[0].after.substr(0, 5), "2 May");
}

TEST(TemplateLint, SaysWhatItCouldNotCheck) {
  const TemplateLint result = lint(
      "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{{ m.content }}"
      "{{ m.reasoning_content }}{% endfor %}");
  ASSERT_EQ(result.refused.size(), 1U);
  EXPECT_EQ(result.refused[0], "tools: chat template, line 1: raise_exception: no tools");
  EXPECT_EQ(lint_json(result).find("refused")->dump(), Json(Json::Array{result.refused[0]}).dump());
  EXPECT_FALSE(lint("{{ nope.x }}").appends_only());
}

TEST(TemplateLint, JsonHasTheSameContent) {
  const Json out = lint_json(lint("{{ strftime_now('%d') }}" + std::string(kChatml)));
  EXPECT_EQ(out.find("appends_only")->dump(), "false");
  const Json& rewrite = (*out.find("rewrites")->as_array())[0];
  EXPECT_EQ(*rewrite.find("kind")->as_string(), "time");
  EXPECT_EQ(*rewrite.find("offset")->as_int(), 1);
}

// JSON lines ------------------------------------------------------------------------------------------------------

std::string line(std::string_view source, std::string_view request, const TemplateInput& defaults = {}) {
  return render_template_line(*ChatTemplate::parse(source), request, defaults);
}

TEST(TemplateJsonl, RendersByTheContract) {
  EXPECT_EQ(line("{{ bos_token }}{{ messages[0].content }}{{ tools[0].a }}{{ x }}{{ add_generation_prompt }}{{ "
                 "strftime_now('%Y') }}{{ eos_token }}",
                 R"({"messages":[{"role":"user","content":"q\n"}],"tools":[{"a":1}],"add_generation_prompt":true,)"
                 R"("bos_token":"<s>","eos_token":"</s>","now":"2026-01-31T12:00:00","x":"é"})"),
            "{\"text\":\"<s>q\\n1éTrue2026</s>\"}");
}

TEST(TemplateJsonl, TakesDefaultsForWhatIsNotSaid) {
  TemplateInput defaults;
  defaults.special_tokens = *Json::parse(R"({"bos_token":"<s>"})");
  defaults.now = "2020-01-01T00:00:00";
  defaults.extra = *Json::parse(R"({"a":1,"b":2})");
  EXPECT_EQ(line("{{ bos_token }}{{ strftime_now('%y') }}{{ a }}{{ b }}", R"({"messages":[],"b":3})", defaults),
            "{\"text\":\"<s>2013\"}");
  EXPECT_EQ(line("{{ bos_token }}", R"({"messages":[],"bos_token":"<b>"})", defaults), "{\"text\":\"<b>\"}");
}

TEST(TemplateJsonl, ShowsMessagesAsTheServerDoes) {
  constexpr std::string_view kTurns =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"p"},{"type":"text","text":"q"}]},)"
      R"({"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\": 7}"}}]}]})";
  const std::string begin = "{% for m in messages %}{{ m.content }};{% for c in m.tool_calls or [] %}{{ c.function.";
  const std::string end = " }}{% endfor %}{% endfor %}";
  TemplateInput defaults;
  defaults.arguments = ArgumentsAs::object;
  EXPECT_EQ(line(begin + "arguments.a" + end, kTurns, defaults), R"({"text":"p\nq;;7"})");
  defaults.arguments = ArgumentsAs::text;
  EXPECT_EQ(line(begin + "arguments" + end, kTurns, defaults), R"({"text":"p\nq;;{\"a\": 7}"})");
}

TEST(TemplateJsonl, ErrorsAreLinesToo) {
  EXPECT_EQ(line("{{ raise_exception('no') }}", R"({"messages":[]})"),
            "{\"error\":\"chat template, line 1: raise_exception: no\"}");
  EXPECT_THAT(line("x", "{"), testing::StartsWith("{\"error\":\"JSON: "));
  EXPECT_EQ(line("x", "[]"), "{\"error\":\"the request must be an object\"}");
  EXPECT_EQ(line("x", "{}"), "{\"error\":\"'messages' is missing\"}");
  EXPECT_EQ(line("x", R"({"messages":{}})"), "{\"error\":\"'messages' must be an array\"}");
  EXPECT_EQ(line("x", R"({"messages":[],"bos_token":1})"), "{\"error\":\"'bos_token' must be a string or null\"}");
  EXPECT_THAT(line("x", R"({"messages":[],"tokenize":true})"), HasSubstr("reserved name"));
}

}  // namespace
}  // namespace quire
