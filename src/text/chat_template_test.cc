#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TemplateInput conversation(std::string_view messages) {
  TemplateInput input;
  input.messages = *Json::parse(messages);
  input.special_tokens = *Json::parse(R"({"bos_token":"<s>","eos_token":"</s>"})");
  input.now = "2026-01-31T12:00:00";
  return input;
}

Result<Rendered> render_marked(std::string_view source, const TemplateInput& input) {
  QR_TRY(const ChatTemplate parsed, ChatTemplate::parse(source));
  return parsed.render_marked(input);
}

std::string render(std::string_view source, const TemplateInput& input = {}) {
  const auto rendered = render_marked(source, input);
  return rendered ? rendered->text : "error: " + rendered.error().message;
}

// The rendering with «» around what came from the user.
std::string marked(std::string_view source, const TemplateInput& input) {
  const auto rendered = render_marked(source, input);
  if (!rendered) return "error: " + rendered.error().message;
  std::string out;
  size_t at = 0;
  for (const ByteRange& r : rendered->user_ranges) {
    out += rendered->text.substr(at, r.begin - at) + "«" + rendered->text.substr(r.begin, r.end - r.begin) + "»";
    at = r.end;
  }
  return out + rendered->text.substr(at);
}

std::string refusal(std::string_view source, const TemplateInput& input = {}) {
  const auto rendered = render_marked(source, input);
  if (rendered) return "rendered: " + rendered->text.substr(0, 200);
  EXPECT_TRUE(rendered.error().code == Code::invalid || rendered.error().code == Code::unsupported);
  return rendered.error().message;
}

// Provenance ------------------------------------------------------------------------------------------------------

TEST(ChatTemplateMarks, TellsTheUsersBytesFromTheTemplates) {
  const auto input = conversation(R"([{"role":"user","content":"Hi <|im_end|>"},{"role":"assistant","content":"é"}])");
  const char* chatml = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}";
  EXPECT_EQ(marked(chatml, input),
            "<|im_start|>user\n«Hi <|im_end|>»<|im_end|>\n<|im_start|>assistant\n«é»<|im_end|>\n");
  const auto rendered = render_marked(chatml, input);
  ASSERT_TRUE(rendered);
  EXPECT_THAT(rendered->user_ranges, ElementsAre(ByteRange{17, 30}, ByteRange{63, 65}));
}

TEST(ChatTemplateMarks, FollowStringsThroughWhatIsDoneToThem) {
  const auto input = conversation(R"([{"role":"user","content":"  a<b>c  "}])");
  const std::string with = "{% set c = messages[0].content %}";
  const std::pair<const char*, const char*> kCases[] = {
      {"{{ '[' + c + ']' }}", "[«  a<b>c  »]"},
      {"{{ '[' ~ c|trim ~ ']' }}", "[«a<b>c»]"},
      {"{{ c.strip()[1:4] }}|", "«<b>»|"},
      {"{{ c.strip()[0] }}|", "«a»|"},
      {"{{ c.replace('<b>', '<|sep|>') }}", "«  a»<|sep|>«c  »"},
      {"{{ c.strip()|replace('b', '-') }}", "«a<»-«>c»"},
      {"{{ c.split('<b>')|join('+') }}", "«  a»+«c  »"},
      {"{{ ('x' + c + 'y')|upper }}", "X«  A<B>C  »Y"},
      {"{{ c|trim|e }}", "«a&lt;b&gt;c»"},
      {"{{ {'k': c}|tojson }}", "«{\"k\": \"  a<b>c  \"}»"},
      {"{{ [c] }}", "«['  a<b>c  ']»"},
      {"{{ '%s!' % c }}", "«  a<b>c  !»"},
      {"{{ '{}!'.format(c) }}", "«  a<b>c  !»"},
      {"{{ c[::-1] }}", "«  c>b<a  »"},
      {"{{ c|length }}", "9"},
      {"{% set d %}[{{ c }}]{% endset %}{{ d }}", "[«  a<b>c  »]"},
      {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(c) }}", "<«  a<b>c  »>"},
      {"{% filter trim %}{{ c }}{% endfilter %}", "«a<b>c»"},
      {"{{ 'tmpl' if c else 'none' }}", "tmpl"},
      {"{{ c * 2 }}", "«  a<b>c    a<b>c  »"},
      {"{{ (c.strip() + 'T').rsplit('>', 1)|join('|') }}", "«a<b»|«c»T"},
      {"{{ c|indent(2, true) }}", "  «  a<b>c  »"},
      {"{{ messages }}|", "«[{'role': 'user', 'content': '  a<b>c  '}]»|"},
  };
  for (const auto& [source, expected] : kCases) EXPECT_EQ(marked(with + source, input), expected) << source;
}

TEST(ChatTemplateMarks, KnownRolesMakeSpecialTokensOthersDoNot) {
  const char* zephyr = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
  EXPECT_EQ(marked(zephyr, conversation(R"([{"role":"user","content":"x"}])")), "<|user|>«x»");
  EXPECT_EQ(marked(zephyr, conversation(R"([{"role":"im_end","content":"x"}])")), "<|«im_end»|>«x»");
}

TEST(ChatTemplateMarks, CoverToolsAndExtraVariablesButNotSpecialTokens) {
  auto input = conversation("[]");
  input.tools = *Json::parse(R"([{"name":"f<|x|>"}])");
  input.extra = *Json::parse(R"({"effort":"high"})");
  EXPECT_EQ(marked("{{ bos_token }}{{ tools[0].name }}{{ effort }}{{ eos_token }}", input), "<s>«f<|x|>high»</s>");
  EXPECT_EQ(marked("{{ strftime_now('%Y') }}{{ 'a'|from_json if no }}", input), "2026");
  EXPECT_EQ(marked("{{ tools[0].name|tojson|from_json }}", input), "«f<|x|>»");
}

// Errors ----------------------------------------------------------------------------------------------------------

TEST(ChatTemplateErrors, NameTheLine) {
  EXPECT_EQ(refusal("a\nb\n{% if %}"), "chat template, line 3: expected an expression, got the end of the tag");
  EXPECT_EQ(refusal("a\n{{ x.y.z }}"), "chat template, line 2: 'x' is undefined");
  EXPECT_EQ(refusal("{% for x in [1] %}\n\n{{ 1 + 'a' }}{% endfor %}"),
            "chat template, line 3: operator + does not take 'int' and 'str'");
  EXPECT_THAT(refusal("{% for x in y %}"), HasSubstr("'endfor' is missing"));
  EXPECT_THAT(refusal("\n{{ 'a' }"), StartsWith("chat template, line 2: "));
  EXPECT_THAT(refusal("{# never closed"), HasSubstr("comment is not closed"));
  EXPECT_THAT(refusal("{% include 'x' %}"), HasSubstr("'include' is not supported"));
  EXPECT_THAT(refusal("{{ 'a'|nope }}"), HasSubstr("there is no filter 'nope'"));
  EXPECT_THAT(refusal("{{ 1 is nope }}"), HasSubstr("there is no test 'nope'"));
  EXPECT_THAT(refusal("{{ 'a'|replace('b') }}"), HasSubstr("replace: argument 'new' is missing"));
  EXPECT_THAT(refusal("{{ 'a'|upper(1, 2) }}"), HasSubstr("takes at most 0 arguments, 2 were given"));
}

TEST(ChatTemplateErrors, QuoteWhatTheTemplateRaises) {
  EXPECT_EQ(refusal("{% if true %}\n{{ raise_exception('Roles must ' ~ 'alternate') }}{% endif %}"),
            "chat template, line 2: raise_exception: Roles must alternate");
  EXPECT_LT(refusal("{{ raise_exception('x' * 100000) }}").size(), 1200U);
}

TEST(ChatTemplateErrors, StrftimeNeedsATime) {
  TemplateInput input;
  EXPECT_THAT(refusal("{{ strftime_now('%Y') }}", input), HasSubstr("current time was not given"));
  for (const char* now :
       {"yesterday", "2026-02-30T00:00:00", "2026-01-01", "2026-01-01T25:00:00", "-001-01-01T00:00:00"}) {
    input.now = now;
    EXPECT_THAT(refusal("{{ strftime_now('%Y') }}", input), HasSubstr("YYYY-MM-DDTHH:MM:SS")) << now;
  }
  input.now = "2026-01-31 12:00:00.25";
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y %f') }}", input), "31 Jan 2026 250000");
  EXPECT_THAT(refusal("{{ strftime_now('%9000d') }}", input), HasSubstr("4096"));
}

TEST(ChatTemplateErrors, ReservedNamesCannotBeExtraVariables) {
  for (const char* name : {"messages", "tools", "tokenize", "bos_token", "add_generation_prompt", "raise_exception",
                           "range", "loop", "chat_template"}) {
    TemplateInput input;
    input.extra.set(name, 1);
    EXPECT_THAT(refusal("x", input), HasSubstr("'" + std::string(name) + "' is a reserved name")) << name;
  }
  TemplateInput input;
  input.extra = Json::Array{};
  EXPECT_THAT(refusal("x", input), HasSubstr("must be an object"));
}

// Limits ----------------------------------------------------------------------------------------------------------

TEST(ChatTemplateLimits, StopBombs) {
  const char* kBombs[] = {
      "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% endfor %}{% endfor "
      "%}",
      "{{ 'x' * 10**9 }}",
      "{{ [1] * 10**9 }}",
      "{{ 'x' * 9223372036854775807 }}",
      "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=()) %}{% for i in range(90) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ {ns.l: 1} }}",
      "{% set ns = namespace(l=[], m=[]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
      "{% set l = [] %}{{ l.append(l) }}{{ l }}",
      "{% set l = [] %}{{ l.append(l) }}{{ l|tojson }}",
      "{% set a = [] %}{% set b = [] %}{{ a.append(b) }}{{ b.append(a) }}{{ a == b }}",
      "{% set l = [1] %}{% for x in l %}{{ l.append(x) }}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(x) %}{{ m(m(x)) }}{% endmacro %}{{ m(1) }}",
      "{{ range(10**9) }}",
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      "{{ ('a' * 1000000)|replace('a', 'b' * 1000) }}",
      "{{ (['a' * 1000] * 100000)|join }}",
      "{{ ('a' * 4000000)|list }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ 'a'.ljust(10**12) }}",
      "{{ 'a'|center(10**12) }}",
      "{{ 'a'|indent(10**12) }}",
      "{{ [[1]]|tojson(indent=10**6) }}",
      "{{ ('a' * 5000000) }}",
      "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
      "{{ 10 ** 19 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ -9223372036854775807 - 2 }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{{ ('a' * 1000000).strip('b' * 1000000) }}{{ ('a' * 1000000).strip('a' * 1000000) * 10**9 }}",
      "{{ range(100000)|batch(1)|list|length }}{{ [1]|batch(10**12, 0)|list }}",
      "{{ [1]|slice(10**12)|list }}",
  };
  for (const char* bomb : kBombs) EXPECT_THAT(refusal(bomb), StartsWith("chat template, line 1: ")) << bomb;
}

TEST(ChatTemplateLimits, LinearSearchesStayLinear) {
  // Searching for half a million 'a' and a 'b' in a million 'a' takes 10^11 comparisons the naive way.
  const char* kSource =
      "{% set a = 'a' * 1000000 %}{% set b = 'a' * 500000 + 'b' %}"
      "{{ b in a }}{{ a.find(b) }}{{ a.rfind(b) }}{{ a.split(b)|length }}{{ a.rsplit(b)|length }}{{ a.count(b) }}"
      "{{ a.replace(b, '') == a }}{{ a.partition(b)|length }}";
  EXPECT_EQ(render(kSource), "False-1-1110True3");
}

TEST(ChatTemplateLimits, NestingOfTheSource) {
  const auto repeat = [](std::string_view text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += text;
    return out;
  };
  EXPECT_EQ(render("{{ " + repeat("(", 50) + "1" + repeat(")", 50) + " }}"), "1");
  EXPECT_THAT(refusal("{{ " + repeat("(", 100000) + "1" + repeat(")", 100000) + " }}"), HasSubstr("limit of 64"));
  EXPECT_THAT(refusal("{{ " + repeat("[", 1000) + repeat("]", 1000) + " }}"), HasSubstr("limit of 64"));
  EXPECT_THAT(refusal("{{ " + repeat("-", 100000) + "1 }}"), HasSubstr("limit of 64"));
  EXPECT_THAT(refusal("{{ " + repeat("{'a':", 70) + "1" + repeat("}", 70) + " }}"), HasSubstr("limit of 64"));
  EXPECT_THAT(refusal(repeat("{% if 1 %}", 1000)), HasSubstr("limit of 64"));
  EXPECT_THAT(refusal("{% set " + repeat("(", 1000) + "a" + repeat(")", 1000) + " = 1 %}"), HasSubstr("limit of 64"));
  EXPECT_EQ(render("{{ " + repeat("not ", 100001) + "1 }}"), "False");
  EXPECT_EQ(render("{{ 1" + repeat(" + 1", 10000) + " }}"), "10001");
  EXPECT_EQ(render("{{ ''" + repeat("|trim", 10000) + " }}"), "");
  EXPECT_EQ(render("{{ 1" + repeat(" if 0 else 1", 10000) + " }}"), "1");
  EXPECT_EQ(render("{% if 0 %}" + repeat("{% elif 0 %}", 10000) + "{% else %}x{% endif %}"), "x");
}

TEST(ChatTemplateLimits, DepthAtRunTime) {
  std::string opens, closes, ifs, endifs;
  for (int i = 0; i < 30; ++i) {
    opens += "[";
    closes += "]";
    ifs += "{% if 1 %}";
    endifs += "{% endif %}";
  }
  const std::string body = ifs + "{{ " + opens + "m()" + closes + " }}" + endifs;
  EXPECT_THAT(refusal("{% macro m() %}" + body + "{% endmacro %}{{ m() }}"),
              HasSubstr("nested too deeply at run time"));
}

TEST(ChatTemplateLimits, SourceSizeAndEncoding) {
  EXPECT_THAT(refusal(std::string(1 << 20, ' ')), HasSubstr("the limit is 524288"));
  EXPECT_THAT(refusal("a\xff"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(refusal("{{ '\\ud800' }}"), HasSubstr("no character"));
}

TEST(ChatTemplateLimits, AreTheCallers) {
  TemplateLimits limits;
  limits.fuel = 100;
  limits.output_bytes = 10;
  const auto few = ChatTemplate::parse("{% for i in range(n) %}{{ i }}{% endfor %}", limits);
  ASSERT_TRUE(few);
  TemplateInput input;
  input.extra.set("n", 5);
  EXPECT_EQ(*few->render(input), "01234");
  input.extra.set("n", 11);
  EXPECT_THAT(few->render(input).error().message, HasSubstr("limit of 10 bytes"));
  input.extra.set("n", 0);
  const auto steps = ChatTemplate::parse("{% for i in range(1000) %}{% endfor %}", limits);
  EXPECT_THAT(steps->render(input).error().message, HasSubstr("limit of 100 steps"));
}

TEST(ChatTemplateLimits, ManyMessagesRenderLinearly) {
  Json::Array messages;
  for (int i = 0; i < 10000; ++i) {
    Json m;
    m.set("role", i % 2 == 0 ? "user" : "assistant");
    m.set("content", "message " + std::to_string(i));
    messages.push_back(std::move(m));
  }
  TemplateInput input;
  input.messages = std::move(messages);
  const std::string text =
      render("{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}{{ loop.last }}\n{% endfor %}", input);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10000);
  EXPECT_THAT(text, testing::EndsWith("<assistant>message 9999True\n"));
}

// Sandbox ---------------------------------------------------------------------------------------------------------

TEST(ChatTemplateSandbox, TheUsualPayloadsFindNothing) {
  const char* kPayloads[] = {
      "{{ ''.__class__.__mro__[1].__subclasses__() }}",
      "{{ ''.__class__.__base__.__subclasses__() }}",
      "{{ [].__class__.__base__ .x }}",
      "{{ ''['__class__']['__mro__'][1] }}",
      "{{ (''|attr('__class__'))|attr('__mro__')|first|attr('x') }}",
      "{{ self.__init__.__globals__.__builtins__.__import__('os').popen('id').read() }}",
      "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
      "{{ lipsum.__globals__['os'].popen('id').read() }}",
      "{{ joiner.__init__.__globals__.os.popen('id').read() }}",
      "{{ namespace.__init__.__globals__.os.popen('id').read() }}",
      "{{ range.__class__.x }}",
      "{{ request.application.__globals__.x }}",
      "{{ config.items() }}",
      "{{ raise_exception.__globals__.x }}",
      "{{ strftime_now.__globals__.x }}",
      "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
      "{{ '{0.__class__.__init__.__globals__}'.format(namespace) }}",
      "{{ '%c'.__mod__.__self__.x }}",
      "{{ messages.__class__.__init__.x }}",
      "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
      "{{ namespace(__class__=1) }}",
      "{{ ''.join.__self__.x }}",
      "{{ {}.__setattr__('a', 1) }}",
      "{{ dict.mro() }}",
      "{% macro m() %}{% endmacro %}{{ m.__globals__.x }}",
      "{{ get_flashed_messages.__globals__.x }}",
      "{{ url_for.__globals__.x }}",
      "{{ open('/etc/passwd') }}",
      "{{ eval('1') }}",
      "{{ import('os') }}",
  };
  for (const char* payload : kPayloads) EXPECT_THAT(refusal(payload), StartsWith("chat template, line 1: ")) << payload;
  EXPECT_EQ(render("{{ ''.__class__ }}{{ messages.__init__ }}{{ namespace.__globals__ }}"), "");
}

// What goes beyond the reference ------------------------------------------------------------------------------------

TEST(ChatTemplateExtensions, ListsAndDictsCanBeChanged) {
  EXPECT_EQ(
      render(
          "{% set l = [3] %}{{ l.append(1) }}{% set m = l.extend([2, 4]) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}"),
      "None[3, 1, 2, 4]43[1, 2]");
  EXPECT_EQ(render("{% set l = [1, 3] %}{% set m = l.insert(1, 2) %}{% set m = l.reverse() %}{{ l }}{{ l.copy() == l "
                   "}}{{ l.clear() }}{{ l }}"),
            "[3, 2, 1]TrueNone[]");
  EXPECT_EQ(render("{% set d = {'a': 1} %}{{ d.update({'b': 2}, c=3) }}{{ d.pop('a') }}{{ d.pop('x', 9) }}{{ "
                   "d.setdefault('b', 7) }}{{ d }}"),
            "None192{'b': 2, 'c': 3}");
  EXPECT_THAT(refusal("{{ [].pop() }}"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("{{ {}.pop('a') }}"), HasSubstr("no such key"));
}

TEST(ChatTemplateExtensions, FromJsonReadsWhatTojsonWrites) {
  EXPECT_EQ(render(R"({{ '{"a": [1, 2.5, null]}'|from_json }})"), "{'a': [1, 2.5, None]}");
  EXPECT_THAT(refusal("{{ '{'|from_json }}"), HasSubstr("from_json: JSON: "));
}

TEST(ChatTemplate, InputsAreNotChangedByRendering) {
  const auto parsed =
      ChatTemplate::parse("{% set m = messages %}{{ m.append('x') }}{{ m[0].update(role='y') }}{{ m|length }}");
  ASSERT_TRUE(parsed);
  const auto input = conversation(R"([{"role":"user","content":"c"}])");
  EXPECT_EQ(*parsed->render(input), "NoneNone2");
  EXPECT_EQ(*parsed->render(input), "NoneNone2");
}

TEST(ChatTemplate, VariablesOfTheReferenceAreThere) {
  EXPECT_EQ(render("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ messages }}"),
            "TrueTrueFalse[]");
  EXPECT_EQ(render("{{ bos_token is defined }}"), "False");
}

TEST(ChatTemplate, LocalTimeTextHasTheFormThatNowWants) {
  TemplateInput input;
  input.now = local_time_text(1769860800);
  EXPECT_EQ(input.now.size(), 19U);
  EXPECT_EQ(render("{{ strftime_now('%Y-%m-%dT%H:%M:%S') }}", input), input.now);
}

}  // namespace
}  // namespace quire
