// Parsers of calls and their grammars. An input is a family (its name and a line end, or a byte that picks one), a byte
// that says how the answer is cut, what it thinks and whether calls may stand in it without marks, a schema of
// parameters, a NUL and an answer. The parts of the answer are the same however it is cut, and no call is of a tool
// that is not there. Calls without marks are the whole answer, or it is read as if none might stand there. The schema
// goes through what makes the grammar of such calls, too.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/json.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace {

using namespace quire;

AnswerParts parse(const std::shared_ptr<const CallRules>& rules, uint8_t how, std::string_view text, size_t cut) {
  const auto kind = static_cast<ReasoningForm::Kind>(how % 3);
  return read_in_pieces(AnswerParser(kind, (how & 0x80) != 0, rules), text, cut);
}

void hold(const CallForm& form, const Json& schema) {
  GrammarLimits limits;
  limits.fuel = 20'000;
  limits.memory_bytes = 8 << 20;
  const auto arguments = obeying_arguments(form, schema);
  if (!arguments) return;
  const CallableTool tools[] = {{"get", *arguments}, {"search", any_arguments(form, ArgumentKinds(schema))}};
  for (const bool required : {true, false}) {
    CallTagRules rules;
    rules.required = required;
    (void)compile_structural_tag(call_tag(form, tools, rules), {}, limits);
  }
}

// Takes the family off the input.
const CallForm& family_of(std::string_view& input) {
  static const std::vector<std::string> families = Registry<CallForm>::get().names();
  const size_t end = input.find('\n');
  if (end != input.npos) {
    if (const CallForm* named = find_call_form(input.substr(0, end))) {
      input.remove_prefix(end + 1);
      return *named;
    }
  }
  const CallForm* form = find_call_form(families[static_cast<uint8_t>(input[0]) % families.size()]);
  input.remove_prefix(1);
  return *form;
}

// `whole` are the parts of an answer in which calls may stand without marks.
void hold_bare(const CallRules& rules, uint8_t how, std::string_view text, const AnswerParts& whole) {
  CallRules marked = rules;
  marked.bare = false;
  if (whole == parse(std::make_shared<const CallRules>(std::move(marked)), how, text, text.size() + 1)) return;
  QR_CHECK(whole.has(PartKind::call) && !whole.has(PartKind::text));
  for (const AnswerPart& part : whole) {
    if (part.kind != PartKind::arguments) continue;
    const auto arguments = Json::parse(part.text);
    QR_CHECK(arguments && arguments->as_object() != nullptr);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4096) return 0;
  std::string_view all(reinterpret_cast<const char*>(data), size);
  const CallForm& form = family_of(all);
  if (all.empty()) return 0;
  const auto how = static_cast<uint8_t>(all[0]);
  all.remove_prefix(1);
  const size_t split = std::min(all.find('\0'), all.size());
  const std::string_view text = all.substr(std::min(split + 1, all.size()));
  CallRules rules;
  rules.form = &form;
  rules.names = {"get", "search"};
  rules.bare = (how & 0x40) != 0 && form.objects();
  if (const auto schema = Json::parse(all.substr(0, split)); schema && schema->as_object() != nullptr) {
    rules.kinds.emplace_back(*schema);
    hold(form, *schema);
  }
  const auto shared = std::make_shared<const CallRules>(std::move(rules));
  const AnswerParts whole = parse(shared, how, text, text.size() + 1);
  QR_CHECK(parse(shared, how, text, size_t{1} + how % 7) == whole);
  if (shared->bare) hold_bare(*shared, how, text, whole);
  for (const AnswerPart& part : whole)
    QR_CHECK(part.kind != PartKind::call || part.text == "get" || part.text == "search");
  return 0;
}
