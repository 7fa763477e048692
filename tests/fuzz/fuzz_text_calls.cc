// Parsers of calls and their grammars. An input is a family (its name and a line end, or a byte that picks one), a byte
// that says how the answer is cut, how it thinks, whether it may be a document and whether calls may stand in it
// without marks, a schema of parameters, a NUL and an answer. The parts of the answer are the same however it is cut,
// and no call is of a tool that is not there. Calls without marks are the whole answer, or it is read as if none might
// stand there. What the grammar of calls or any JSON lets through is read as either. The schema goes through what makes
// the grammar of such calls, too.
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/check.h"
#include "base/json.h"
#include "text/grammar/source.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace {

using namespace quire;

using Kind = ReasoningForm::Kind;

constexpr int kKinds = static_cast<int>(Kind::muse) + 1;

// How an answer is read.
struct How {
  explicit How(uint8_t byte)
      : kind(static_cast<Kind>((byte & 0x1F) % kKinds)),
        open((byte & 0x80) != 0),
        bare((byte & 0x40) != 0),
        document((byte & 0x20) != 0),
        cut(size_t{1} + byte % 7) {}
  Kind kind;
  bool open, bare, document;
  size_t cut;
};

AnswerParts parse(const std::shared_ptr<const CallRules>& rules, const How& how, std::string_view text, size_t cut) {
  return read_in_pieces(AnswerParser(how.kind, how.open, rules, how.document), text, cut);
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

std::shared_ptr<const TokenTrie> bytes() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  tokens.emplace_back("</s>");
  return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<Token>{256}, 257);
}

// Calls or any JSON, behind thoughts.
std::shared_ptr<const Grammar> calls_or_json(const CallForm& form, const How& how) {
  CallTagRules rules;
  rules.document = Json::Object{{"type", "json_schema"}, {"json_schema", true}};
  const CallableTool tools[] = {{"get", any_arguments(form, {})}, {"search", any_arguments(form, {})}};
  GrammarComposer composer({}, {});
  const auto answer = structural_tag_part(call_tag(form, tools, std::move(rules)), composer);
  QR_CHECK(answer.has_value());
  const Kind before = form.channels ? Kind::none : how.kind;  // its own grammar has all channels
  const auto root = behind_reasoning(composer, {.reasoning = before, .reasoning_open = how.open}, *answer);
  QR_CHECK(root.has_value());
  const auto made = composer.finish(*root);
  QR_CHECK(made.has_value());
  return *made;
}

// An answer that is calls or a document is read as what it is.
void hold_document(const CallForm& form, const How& how, std::string_view text, const AnswerParts& whole) {
  const bool in_messages = thinks_in_messages(how.kind);
  if (in_messages != form.channels || (form.channels && (how.open || how.kind != message_kind(form)))) return;
  if (!form.said.empty() && how.kind != Kind::none) return;
  static const auto trie = bytes();
  using Key = std::tuple<const CallForm*, Kind, bool>;
  static std::map<Key, std::shared_ptr<const Grammar>> grammars;
  if (grammars.size() > 8) grammars.clear();
  auto& grammar = grammars[Key(&form, how.kind, how.open)];
  if (grammar == nullptr) grammar = calls_or_json(form, how);
  Matcher m(grammar, trie);
  if (!m.accept_text(text) || !m.may_end()) return;
  const std::string said = whole.joined(PartKind::text);
  QR_CHECK(whole.has(PartKind::call) ? said.empty() : Json::parse(said).has_value(), said);
}

// `whole` are the parts of an answer in which calls may stand without marks.
void hold_bare(const CallRules& rules, const How& how, std::string_view text, const AnswerParts& whole) {
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
  const How how(static_cast<uint8_t>(all[0]));
  all.remove_prefix(1);
  const size_t split = std::min(all.find('\0'), all.size());
  const std::string_view text = all.substr(std::min(split + 1, all.size()));
  CallRules rules;
  rules.form = &form;
  rules.names = {"get", "search"};
  rules.bare = how.bare && !how.document && form.objects();
  rules.or_document = how.document;
  if (const auto schema = Json::parse(all.substr(0, split)); schema && schema->as_object() != nullptr) {
    if (!how.document) {
      rules.kinds.emplace_back(*schema);
      hold(form, *schema);
    }
  }
  const auto shared = std::make_shared<const CallRules>(std::move(rules));
  const AnswerParts whole = parse(shared, how, text, text.size() + 1);
  QR_CHECK(parse(shared, how, text, how.cut) == whole);
  if (shared->bare) hold_bare(*shared, how, text, whole);
  if (how.document) hold_document(form, how, text, whole);
  for (const AnswerPart& part : whole)
    QR_CHECK(part.kind != PartKind::call || part.text == "get" || part.text == "search");
  return 0;
}
