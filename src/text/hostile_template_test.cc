// Templates made to harm. Each has a first part, within every limit, that makes something large, and an operation on it
// that would cost far more than what there is: it must end, in a text or in an error that names a limit of steps,
// memory, text or depth, in processor time that the limits allow (what costs the square of 100,000 takes minutes) and
// in memory not far from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "base/cpu_clock.h"
#include "base/sanitized.h"
#include "text/chat_template.h"

namespace quire {
namespace {

constexpr double kSeconds = kSanitized ? 40 : 8;  // of processor time: checked memory costs a multiple
constexpr size_t kStep = kSanitized ? 4 : 1;      // every fourth: the fuzzer of templates runs with a sanitizer, too
constexpr int64_t kMemoryKib = 400 << 10;

double thread_seconds() { return static_cast<double>(ThreadCpuClock().now_ns()) * 1e-9; }

int64_t status_kib(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  return 0;
}

struct Hostile {
  const char* first;      // "" or what makes large things
  const char* operation;  // on them
};

// What firsts make: letters (a string), items (a list of 99,999), texts (a list of strings), deep (lists in lists).
const char* const kLetters = "{% set letters = 'a' * 4000000 %}";
const char* const kAbc = "{% set letters = 'abc ' * 500000 %}";
const char* const kItems = "{% set items = range(99999)|list %}";
const char* const kTexts = "{% set texts = ('ab ' * 30000).split() %}";
const char* const kDeep =
    "{% set ns = namespace(deep=[1]) %}{% for i in range(95) %}{% set ns.deep = [ns.deep] %}{% endfor %}"
    "{% set deep = ns.deep %}";
const char* const kWide =
    "{% set ns = namespace(wide=[1]) %}{% for i in range(40) %}{% set ns.wide = [ns.wide, ns.wide] %}{% endfor %}"
    "{% set wide = ns.wide %}";
const char* const kDict = "{% set d = {} %}{% for i in range(4000) %}{% set _ = d.update({i ~ '': i}) %}{% endfor %}";
const char* const kRing = "{% set ring = [1] %}{% set _ = ring.append(ring) %}{% set d = {'a': ring} %}";
const char* const kGreek = "{% set letters = '\xCE\x90' * 1000000 %}";  // upper case: three characters

const Hostile kHostile[] = {
    // Products and sums of strings and lists.
    {"", "{{ 'abcdefgh' * 100000000 }}"},
    {kLetters, "{{ letters * 1000 }}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters + letters %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters ~ i ~ letters %}{% endfor %}"},
    {kItems, "{{ (items * 1000)|length }}"},
    {kItems, "{% for i in items %}{% set x = items + items %}{% endfor %}"},
    {"", "{% set ns = namespace(s='ab') %}{% for i in range(99999) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"},
    {"", "{% set ns = namespace(l=[1, 2]) %}{% for i in range(99999) %}{% set ns.l = ns.l * 2 %}{% endfor %}"},
    {"", "{% set ns = namespace(s='') %}{% for i in range(99999) %}{% set ns.s = ns.s ~ 'abcdefgh' %}{% endfor %}"},
    {"", "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ns.l + [i] %}{% endfor %}"},
    {"",
     "{% set ns = namespace(t=()) %}{% for i in range(99999) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ ns.t }}"},
    // Join, replace, split, case and padding.
    {kItems, "{{ items|join('x' * 1000) }}"},
    {kTexts, "{{ texts|join(texts|join('x' * 100)) }}"},
    {kTexts, "{% for t in texts %}{% set x = texts|join %}{% endfor %}"},
    {kTexts, "{{ ('y' * 1000).join(texts) }}"},
    {kLetters, "{{ letters|replace('a', 'b' * 1000) }}"},
    {kLetters, "{{ letters.replace('', 'b' * 1000) }}"},
    {kLetters, "{{ letters.replace('aa', 'a' * 100) }}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters.replace('a', 'b') %}{% endfor %}"},
    {kLetters, "{{ letters.split('a')|length }}"},
    {kAbc, "{% for i in range(99999) %}{% set x = letters.split() %}{% endfor %}"},
    {kAbc, "{% for i in range(99999) %}{% set x = letters.split('c', 1) %}{% endfor %}"},
    {kAbc, "{% for i in range(99999) %}{% set x = letters.rsplit('b') %}{% endfor %}"},
    {kAbc, "{% for i in range(99999) %}{% set x = letters.partition('z') %}{% endfor %}"},
    {kAbc, "{{ letters.splitlines()|length }}{% for i in range(9999) %}{% set x = letters.splitlines() %}{% endfor %}"},
    {kLetters, "{{ (letters|list)|length }}"},
    {kLetters, "{% for c in letters %}{% for e in letters %}{% endfor %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters|upper %}{% endfor %}"},
    {kGreek, "{% for i in range(99999) %}{% set x = letters|upper %}{% endfor %}"},
    {kGreek, "{{ letters.upper().upper().lower().title()|length }}"},
    {kGreek, "{{ (letters * 10)|upper }}"},
    {kAbc, "{% for i in range(9999) %}{% set x = letters|title %}{% endfor %}"},
    {kAbc, "{% for i in range(9999) %}{% set x = letters|capitalize %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters|trim %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters.strip('ab') %}{% endfor %}"},
    {"{% set letters = '\\n' * 1000000 %}", "{{ letters|indent(1000) }}"},
    {"{% set letters = '\\n' * 1000000 %}", "{{ letters|indent(1000, true, true) }}"},
    {kLetters, "{{ letters|center(100000000) }}"},
    {"", "{% for i in range(99999) %}{% set x = 'a'.ljust(1000000) %}{% endfor %}"},
    {"", "{% for i in range(99999) %}{% set x = 'a'.rjust(1000000) %}{% endfor %}"},
    {"", "{% for i in range(99999) %}{% set x = '1'.zfill(1000000) %}{% endfor %}"},
    {"{% set letters = '<&>' * 1000000 %}", "{{ (letters|escape)|length }}"},
    {"{% set letters = '<&>' * 1000000 %}", "{{ letters|e|e|e|e|e }}"},
    // Formats.
    {"", "{{ '%10000d' % 1 }}{{ '%300000000d' % 1 }}"},
    {"", "{% for i in range(99999) %}{% set x = '%9999s' % 'a' %}{% endfor %}"},
    {"", "{% for i in range(99999) %}{% set x = '{:9999}'.format(i) %}{% endfor %}"},
    {"", "{{ ('%(abc)s' * 99999) % {'abc': 'x' * 100000} }}"},
    {kLetters, "{{ ('{0}' * 99999).format(letters) }}"},
    {kLetters, "{{ '%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s' % ((letters,) * 18) }}"},
    {"", "{% for i in range(99999) %}{% set x = '%.9999f' % 1.5 %}{% endfor %}"},
    {kLetters, "{{ letters|format }}{{ (letters ~ '%s')|format(letters) }}"},
    // Searches and comparisons.
    {kLetters, "{% for i in range(99999) %}{% set x = 'b' in letters %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters.find('b') %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters.count('a') %}{% endfor %}"},
    {kLetters, "{% set more = letters ~ '' %}{% for i in range(99999) %}{% set x = letters == more %}{% endfor %}"},
    {kLetters, "{% set more = letters ~ '' %}{% for i in range(99999) %}{% set x = letters < more %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = -1 in items %}{% endfor %}"},
    {kItems, "{% set more = items + [] %}{% for i in items %}{% set x = items == more %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items.index(99998) %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items.count(5) %}{% endfor %}"},
    {kDeep, "{{ deep == deep }}{% for i in range(99999) %}{% set x = [deep] == [deep] %}{% endfor %}"},
    {kWide,
     "{% set ns.more = [1] %}{% for i in range(40) %}{% set ns.more = [ns.more, ns.more] %}{% endfor %}"
     "{{ wide == ns.more }}"},
    {kWide,
     "{% set ns.more = [2] %}{% for i in range(40) %}{% set ns.more = [ns.more, ns.more] %}{% endfor %}"
     "{{ wide < ns.more }}"},
    // Sorting, grouping, selecting, batches and slices.
    {kItems, "{% for i in items %}{% set x = items|sort(reverse=true) %}{% endfor %}"},
    {kTexts, "{% for i in texts %}{% set x = texts|sort %}{% endfor %}"},
    {"{% set ns = namespace(l=[]) %}{% for i in range(300) %}{% set ns.l = ns.l + ['a' * 10000 ~ (300 - i)] %}{% "
     "endfor %}",
     "{% for i in range(9999) %}{% set x = ns.l|sort %}{% endfor %}"},
    {kTexts, "{% for i in texts %}{% set x = texts|unique|list %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items|unique|list %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items|reverse|list %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items|map('string')|list %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items|select('odd')|list %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items|reject('odd')|list %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items|sum %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items|max %}{% set x = items|min %}{% endfor %}"},
    {kItems, "{{ items|batch(1000000, 'x')|list|length }}"},
    {kItems, "{{ items|batch(100000000, 'x')|list|length }}"},
    {kItems, "{% for i in items %}{% set x = items|batch(3)|list %}{% endfor %}"},
    {kItems, "{{ items|slice(1000000)|list|length }}"},
    {kItems, "{{ items|slice(100000000, 'x')|list|length }}"},
    {kItems, "{% for i in items %}{% set x = items[1:] %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items[::-1] %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items[-1:0:-2] %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters[1:] %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters[::-1] %}{% endfor %}"},
    {kGreek, "{% for i in range(99999) %}{% set x = letters[999999] %}{% endfor %}"},
    {kGreek, "{% for i in range(99999) %}{% set x = letters|length %}{% endfor %}"},
    {kGreek, "{% for i in range(99999) %}{% set x = letters[500000:500001] %}{% endfor %}"},
    // Dicts.
    {kDict, "{% for i in range(99999) %}{% set x = d.copy() %}{% endfor %}"},
    {kDict, "{% for i in range(99999) %}{% set x = d.items()|list %}{% endfor %}"},
    {kDict, "{% for i in range(99999) %}{% set x = dict(d, a=i) %}{% endfor %}"},
    {kDict, "{% for i in range(99999) %}{% set x = d|dictsort %}{% endfor %}"},
    {kDict, "{% for i in range(99999) %}{% set _ = d.update(d) %}{% endfor %}"},
    {kDict,
     "{% for j in range(99999) %}{% for i in range(4000) %}{% set x = d.pop(i ~ '') %}{% endfor %}{% for i in "
     "range(4000) %}{% set _ = d.update({i ~ '': i}) %}{% endfor %}{% endfor %}"},
    {kDict, "{% for i in range(99999) %}{% set x = d == d.copy() %}{% endfor %}"},
    {"{% set letters = 'k' * 1000000 %}{% set d = {letters: 1} %}",
     "{% for i in range(99999) %}{% set x = d[letters] %}{% endfor %}"},
    {"{% set letters = 'k' * 1000000 %}{% set d = {} %}",
     "{% for i in range(99999) %}{% set _ = d.update({letters ~ i: i}) %}{% endfor %}"},
    {"{% set t = range(90000)|list %}{% set d = {} %}",
     "{% for i in range(99999) %}{% set _ = d.update({(t|join, i): i}) %}{% endfor %}"},
    // Lists that grow while somebody walks them, insertions at the front.
    {"{% set l = [1] %}", "{% for x in l %}{% set _ = l.append(x) %}{% endfor %}"},
    {"{% set l = [1] %}", "{% for x in l %}{% set _ = l.extend(l) %}{% endfor %}"},
    {kItems, "{% for i in range(99999) %}{% set _ = items.insert(0, i) %}{% endfor %}"},
    {kItems, "{% for i in range(99999) %}{% set _ = items.pop(0) %}{% endfor %}"},
    {kItems, "{% for i in range(99999) %}{% set _ = items.reverse() %}{% endfor %}"},
    {kItems, "{% for i in range(99998) %}{% set _ = items.pop(i // 3) %}{% endfor %}"},
    // Printing, JSON, and what holds itself.
    {kWide, "{{ wide }}"},
    {kWide, "{{ wide|tojson }}"},
    {kWide, "{{ wide|string|length }}"},
    {kDeep, "{% for i in range(99999) %}{% set x = deep|tojson %}{% endfor %}"},
    {kDeep, "{{ deep|tojson(indent=100000) }}"},
    {kRing, "{{ ring }}"},
    {kRing, "{{ ring|tojson }}"},
    {kRing, "{{ d == {'a': ring} }}{{ ring == ring }}{{ ring < ring }}"},
    {kRing, "{% set other = [1] %}{% set _ = other.append(other) %}{{ [ring, other]|sort }}"},
    {kRing,
     "{% set ns = namespace(r=ring) %}{% for i in range(99999) %}{% set ns.r = ns.r[1] %}{% endfor %}{{ ns.r }}"},
    {kItems, "{% for i in items %}{% set x = items|string %}{% endfor %}"},
    {kItems, "{% for i in items %}{% set x = items|tojson %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x = letters|tojson %}{% endfor %}"},
    {"{% set text = '[' * 90 ~ ']' * 90 %}", "{% for i in range(99999) %}{% set x = text|from_json %}{% endfor %}"},
    {"{% set text = '[' ~ ('1,' * 90000) ~ '1]' %}",
     "{% for i in range(99999) %}{% set x = text|from_json %}{% endfor %}"},
    // Loops in loops, macros, calls, captures.
    {kItems, "{% for i in items %}{% for j in items %}{% for k in items %}{% endfor %}{% endfor %}{% endfor %}"},
    {kItems,
     "{% for i in items if i < 0 %}{% endfor %}{% for i in items %}{% for j in items if j < 0 %}{% endfor %}{% endfor "
     "%}"},
    {kLetters, "{% for i in range(99999) %}{{ letters }}{% endfor %}"},
    {kLetters,
     "{% macro m() %}{{ letters }}{% endmacro %}{% for i in range(99999) %}{% set x = m() ~ m() %}{% endfor %}"},
    {"", "{% macro m(n) %}{{ m(n + 1) ~ m(n + 1) }}{% endmacro %}{{ m(0) }}"},
    {"", "{% macro m(n) %}{% if n < 25 %}{{ m(n + 1) }}{{ m(n + 1) }}{% endif %}{% endmacro %}{{ m(0) }}"},
    {"", "{% macro m(n) %}{{ caller() }}{% call m(n + 1) %}x{% endcall %}{% endmacro %}{% call m(0) %}y{% endcall %}"},
    {"",
     "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
     "{% for i in range(99999) %}{% call m() %}{% call m() %}{% call m() %}xxxx{% endcall %}{% endcall %}{% endcall "
     "%}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% set x %}{{ letters }}{{ letters }}{% endset %}{% endfor %}"},
    {kLetters, "{% for i in range(99999) %}{% filter upper %}{{ letters }}{% endfilter %}{% endfor %}"},
    // Numbers.
    {"", "{% set ns = namespace(n=3) %}{% for i in range(99999) %}{% set ns.n = ns.n * ns.n %}{% endfor %}"},
    {"", "{{ 2 ** 1000000000 }}"},
    {"", "{{ ('9' * 1000000)|int }}{% for i in range(99999) %}{% set x = ('9' * 1000000)|int %}{% endfor %}"},
    {"{% set letters = '1_' * 1000000 ~ '1' %}", "{{ letters|int }}{{ letters|int(0, 16) }}"},
    {"{% set d = {} %}{% for i in range(8) %}{% set _ = d.update({'k' * 999990 ~ (10 + i): i}) %}{% endfor %}"
     "{% set letters = 'k' * 999990 ~ 99 %}",
     "{% for i in range(99999) %}{% set x = d[letters] %}{% endfor %}"},
    {"{% set letters = 'k' * 999990 %}", "{% for i in range(99999) %}{% set x = {}[letters] %}{% endfor %}"},
    {kDict,
     "{% set _ = d.update({'name': 1}) %}{% set f = '%(name)d' * 9999 %}{% for i in range(99) %}{% set x = f % d %}{% "
     "endfor %}"},
    {"{% set letters = '9' * 1000000 %}", "{% for i in range(99999) %}{% set x = letters|float %}{% endfor %}"},
};

bool names_a_limit(const std::string& message) {
  for (const char* const words : {"limit of", "limited to", "does not fit", "the limit is", "nested too deeply",
                                  "too deep", "overflow", "64 bits", "too large", "changed while", "recursion"})
    if (message.find(words) != std::string::npos) return true;
  return false;
}

TEST(HostileTemplate, EachEndsWithinItsLimits) {
  for (size_t i = 0; i < std::size(kHostile); i += kStep) {
    const Hostile& h = kHostile[i];
    const std::string source = std::string(h.first) + h.operation;
    const auto first = ChatTemplate::parse(h.first);
    ASSERT_TRUE(first) << h.first;
    const auto made = first->render({});
    EXPECT_TRUE(made) << h.first << ": " << made.error().message;
    const auto whole = ChatTemplate::parse(source);
    ASSERT_TRUE(whole) << source << ": " << whole.error().message;
    std::ofstream("/proc/self/clear_refs") << 5;  // from now on the most memory is counted anew
    const int64_t before_kib = status_kib("VmRSS");
    const double began = thread_seconds();
    const auto rendered = whole->render({});
    EXPECT_LE(thread_seconds() - began, kSeconds) << source;
    EXPECT_LE(status_kib("VmHWM") - before_kib, kMemoryKib) << source;
    if (std::getenv("QUIRE_TELL") != nullptr) {
      std::fflush(stdout);
      std::printf("%6.2f s %6ld KiB  %s\n    %s\n", thread_seconds() - began,
                  static_cast<long>(status_kib("VmHWM") - before_kib), source.c_str(),
                  rendered ? "a text" : rendered.error().message.c_str());
    }
    if (rendered) {
      EXPECT_LE(rendered->size(), TemplateLimits().output_bytes) << source;
      continue;
    }
    EXPECT_TRUE(names_a_limit(rendered.error().message)) << source << ": " << rendered.error().message;
    EXPECT_EQ(rendered.error().message.find("range"), std::string::npos) << source << ": " << rendered.error().message;
  }
}

}  // namespace
}  // namespace quire
