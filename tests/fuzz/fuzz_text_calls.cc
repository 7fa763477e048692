// Parsers of calls and their grammars: the first byte says which family, the second how the answer is cut and what it
// thinks; then a schema of parameters, a NUL and an answer. The parts of the answer are the same however it is cut, and
// no call is of a tool that is not there. The schema goes through what makes the grammar of such calls, too.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/answer_parser.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/tool_format.h"

namespace {

using namespace quire;

AnswerParts parse(const std::shared_ptr<const CallRules>& rules, uint8_t how, std::string_view text, size_t cut) {
  const auto kind = static_cast<ReasoningForm::Kind>(how % 3);
  AnswerParser parser(kind, (how & 0x80) != 0, rules);
  AnswerParts out;
  for (size_t at = 0; at < text.size(); at += cut) {
    AnswerParts fresh;
    parser.push(text.substr(at, cut), fresh);
    out.append(fresh);
  }
  AnswerParts fresh;
  parser.finish(fresh);
  out.append(fresh);
  return out;
}

void hold(const CallForm& form, const Json& schema) {
  GrammarLimits limits;
  limits.fuel = 20'000;
  limits.memory_bytes = 8 << 20;
  const auto arguments = obeying_arguments(form, schema);
  if (!arguments) return;
  const CallableTool tools[] = {{"get", *arguments}, {"search", any_arguments(form)}};
  for (const bool required : {true, false}) {
    CallTagRules rules;
    rules.required = required;
    (void)compile_structural_tag(call_tag(form, tools, rules), {}, limits);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4096) return 0;
  static const std::vector<std::string> families = Registry<CallForm>::get().names();
  const CallForm* form = find_call_form(families[data[0] % families.size()]);
  const std::string_view all(reinterpret_cast<const char*>(data + 2), size - 2);
  const size_t split = std::min(all.find('\0'), all.size());
  const std::string_view text = all.substr(std::min(split + 1, all.size()));
  CallRules rules;
  rules.form = form;
  rules.names = {"get", "search"};
  if (const auto schema = Json::parse(all.substr(0, split)); schema && schema->as_object() != nullptr) {
    rules.kinds.emplace_back(*schema);
    hold(*form, *schema);
  }
  const auto shared = std::make_shared<const CallRules>(std::move(rules));
  const AnswerParts whole = parse(shared, data[1], text, text.size() + 1);
  QR_CHECK(parse(shared, data[1], text, size_t{1} + data[1] % 7) == whole);
  for (const AnswerPart& part : whole)
    QR_CHECK(part.kind != PartKind::call || part.text == "get" || part.text == "search");
  return 0;
}
