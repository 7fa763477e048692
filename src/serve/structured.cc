#include "serve/structured.h"

#include <algorithm>
#include <array>

#include "sample/constraint.h"
#include "serve/api.h"
#include "serve/grammar_cache.h"

namespace quire {
namespace {

using Notation = GrammarSource::Notation;

constexpr size_t kWarnings = 8;      // places that are named
constexpr size_t kErrorBytes = 500;  // of a compiler's words, which may quote what the client sent

// How a field's value is read.
enum class Form : uint8_t { flag, schema, regex, choice, gbnf, ebnf, any_grammar, structural_tag };
struct Name {
  std::string_view field;
  Form form;
};
constexpr std::array kNames{
    Name{"json_schema", Form::schema},
    Name{"regex", Form::regex},
    Name{"ebnf", Form::ebnf},
    Name{"grammar", Form::gbnf},
    Name{"choice", Form::choice},
    Name{"structural_tag", Form::structural_tag},
    Name{"guided_json", Form::schema},
    Name{"guided_json_object", Form::flag},
    Name{"guided_regex", Form::regex},
    Name{"guided_choice", Form::choice},
    Name{"guided_grammar", Form::any_grammar},
};
constexpr std::array kInner{
    Name{"json", Form::schema},   Name{"json_object", Form::flag},    Name{"regex", Form::regex},
    Name{"choice", Form::choice}, Name{"grammar", Form::any_grammar}, Name{"structural_tag", Form::structural_tag},
};

constexpr Field kStructured[] = {
    field_of("json", kString | kObject | kBool),
    flag_field("json_object"),
    field_of("regex", kString),
    field_of("choice", kArray),
    field_of("grammar", kString),
    field_of("structural_tag", kString | kObject),
    unsupported("disable_any_whitespace", "false"),
    unsupported("disable_additional_properties", "false"),
    unsupported("whitespace_pattern"),
    ignored_field("disable_fallback"),
    ignored_field("backend"),
};
constexpr Field kFormat[] = {
    field_of("type", kString),      field_of("json_schema", kObject), field_of("schema", kObject | kBool | kString),
    field_of("structures", kArray), field_of("triggers", kArray),     field_of("format", kObject),
    ignored_field("name"),          ignored_field("description"),     flag_field("strict"),
};
constexpr Field kNamedSchema[] = {
    field_of("schema", kObject | kBool | kString),
    ignored_field("name"),
    ignored_field("description"),
    flag_field("strict"),
};
const Schema kStructuredSchema({kStructured});
const Schema kFormatSchema({kFormat});
const Schema kNamedSchemaSchema({kNamedSchema});

std::string text_of(const Json& value) { return value.as_string() != nullptr ? *value.as_string() : value.dump(); }

Notation notation_of(Form form, std::string_view text) {
  switch (form) {
    case Form::flag: return Notation::json_object;
    case Form::schema: return Notation::json_schema;
    case Form::regex: return Notation::regex;
    case Form::choice: return Notation::choice;
    case Form::gbnf: return Notation::gbnf;
    case Form::ebnf: return Notation::ebnf;
    case Form::structural_tag: return Notation::structural_tag;
    case Form::any_grammar: break;
  }
  return text.find("::=") != std::string_view::npos ? Notation::ebnf : Notation::lark;
}

// Servers' own defaults of these fields: they want nothing.
bool says_nothing(const Json& value) {
  if (value.as_string() != nullptr) return value.as_string()->empty();
  return value.as_array() != nullptr && value.as_array()->empty();
}

WantedGrammar want(Notation notation, std::string text, std::string field) {
  WantedGrammar out;
  out.source.notation = notation;
  out.source.text = std::move(text);
  out.field = std::move(field);
  return out;
}

MaybeGrammar wanted(Form form, const Json& value, std::string field) {
  if (says_nothing(value)) return std::nullopt;
  if (form == Form::flag && !*value.as_bool()) return std::nullopt;
  if (form == Form::flag) return wanted_object(std::move(field));
  std::string text = text_of(value);
  const Notation notation = notation_of(form, text);
  return want(notation, std::move(text), std::move(field));
}

ApiResult<void> read_names(const Args& args, std::span<const Name> names, std::string_view path, MaybeGrammar& out) {
  for (const Name& name : names) {
    const Json* value = args.find(name.field);
    if (value == nullptr) continue;
    const std::string field = path.empty() ? std::string(name.field) : at_key(path, name.field);
    QR_TRY_VOID(add_grammar(wanted(name.form, *value, field), out));
  }
  return {};
}

ApiResult<MaybeGrammar> read_json_schema(const Args& format, const std::string& path, const Reading& reading) {
  if (const Json* schema = format.find("schema")) return wanted(Form::schema, *schema, at_key(path, "schema"));
  const std::string inner = at_key(path, "json_schema");
  const Json* named = format.find("json_schema");
  if (named == nullptr) return refuse(missing_field(inner));
  QR_TRY(const Args args, kNamedSchemaSchema.check(*named, reading, inner));
  const Json* schema = args.find("schema");
  if (schema == nullptr) return refuse(missing_field(at_key(inner, "schema")));
  return wanted(Form::schema, *schema, at_key(inner, "schema"));
}

std::string_view error_code(Code code) {
  if (code == Code::unsupported) return "unsupported_value";
  return code == Code::exhausted ? "limit_exceeded" : "invalid_value";
}

std::string shortened(std::string text) {
  if (text.size() <= kErrorBytes) return text;
  size_t n = kErrorBytes;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0U) == 0x80U) --n;  // between characters
  text.resize(n);
  return text + "…";
}

// The place and, where the compiler quotes one, the name: what stands between are its words.
void warn(const Grammar& grammar, const std::string& field, Warnings& warnings) {
  if (grammar.warnings().empty()) return;
  std::string text;
  append_header_text(text, field);
  text += ": not checked:";
  std::vector<std::string> sorted = grammar.warnings();
  std::sort(sorted.begin(), sorted.end());
  sorted.resize(std::min(sorted.size(), kWarnings));
  for (const std::string& warning : sorted) {
    const std::string_view all = warning;
    const size_t begin = std::min(all.find("#/"), all.size() - 1) + 1,
                 end = std::min(all.find(": ", begin), all.size());
    text += ' ';
    append_header_text(text, all.substr(begin, end - begin));
    const size_t quote = all.find('"', end);
    if (quote == std::string_view::npos) continue;
    text += ' ';
    append_header_text(text, all.substr(quote + 1, all.rfind('"') - quote - 1));
  }
  warnings.add(std::move(text));
}

}  // namespace

WantedGrammar wanted_object(std::string field) { return want(Notation::json_object, "", std::move(field)); }
WantedGrammar wanted_schema(const Json& schema, std::string field) {
  return want(Notation::json_schema, text_of(schema), std::move(field));
}

ApiResult<void> add_grammar(MaybeGrammar&& more, MaybeGrammar& wanted) {
  if (!more) return {};
  if (wanted)
    return refuse(
        bad_field(more->field, "stands beside '" + wanted->field + "': an answer has one constraint at most"));
  wanted = std::move(more);
  return {};
}

ApiResult<MaybeGrammar> read_format(const Json& format, const std::string& path, const Reading& reading) {
  QR_TRY(const Args args, kFormatSchema.check(format, reading, path));
  if (!args.has("type")) return refuse(missing_field(at_key(path, "type")));
  const std::string_view type = args.text("type");
  if (type == "text") return MaybeGrammar();
  if (type == "json_schema") return read_json_schema(args, path, reading);
  if (type == "json_object") {
    if (args.has("schema")) return read_json_schema(args, path, reading);
    return MaybeGrammar(wanted_object(path));
  }
  if (type == "structural_tag") return MaybeGrammar(want(Notation::structural_tag, format.dump(), path));
  return refuse(bad_field(at_key(path, "type"),
                          "is '" + shown(type) + "': it must be text, json_object, json_schema or structural_tag"));
}

ApiResult<MaybeGrammar> read_grammar(const Args& args, const Reading& reading) {
  MaybeGrammar out;
  if (const Json* format = args.find("response_format")) {
    QR_TRY(out, read_format(*format, "response_format", reading));
  }
  if (const Json* structured = args.find("structured_outputs")) {
    QR_TRY(const Args inner, kStructuredSchema.check(*structured, reading, "structured_outputs"));
    QR_TRY_VOID(read_names(inner, kInner, "structured_outputs", out));
  }
  QR_TRY_VOID(read_names(args, kNames, "", out));
  return out;
}

// Of what cannot be compiled: the error of the part that is to blame, where one is. All parts together may cost as much
// as the whole might have: of many each gets a share, and one that needs more than that is not to blame by itself.
static HttpError no_room_for_grammars(const GrammarCache& grammars) {
  return {503,
          "the grammars of the requests that are under way hold " + std::to_string(grammars.most_elsewhere()) +
              " bytes, which is the limit (" + std::to_string(GrammarCache::kElsewhere) + " × grammar_bytes)",
          "server_error", "", "grammars_full"};
}

static HttpError cannot_keep(const WantedGrammar& wanted, Error error, const GrammarCache& grammars) {
  std::string field = wanted.field;
  GrammarLimits share;
  const size_t n = std::max<size_t>(1, wanted.parts.size());
  share.source_bytes = std::max<size_t>(share.source_bytes / n, 16 << 10);
  share.fuel /= n;
  share.derivatives /= n;
  for (const WantedGrammar::Part& part : wanted.parts) {
    const auto made = grammars.check(part.source, n > 1 ? share : GrammarLimits());
    if (made || (n > 1 && (made.error().code == Code::exhausted || part.source.text.size() > share.source_bytes)))
      continue;
    field = part.field;
    error = made.error();
    break;
  }
  if (error.code == Code::internal) return to_http_error(error, field);
  return bad_field(field, "cannot be kept: " + shortened(std::move(error.message)), error_code(error.code));
}

ApiResult<void> constrain(const ServeEnv& env, Job& job, Warnings& warnings) {
  Generation& g = job.generation;
  if (!g.grammar) return {};
  g.grammar->source.reasoning = job.thinks;
  g.grammar->source.reasoning_open = job.thinks_open;
  g.grammar->source.reasoning_over = job.thinks_over && job.thinks != ReasoningForm::Kind::none;
  if (env.grammars->no_room_for(g.grammar->source)) return refuse(no_room_for_grammars(*env.grammars));
  auto made = env.grammars->get(g.grammar->source);
  if (!made) return refuse(cannot_keep(*g.grammar, std::move(made.error()), *env.grammars));
  warn(**made, g.grammar->field, warnings);
  g.sampling.constraint = std::make_shared<const Constraint>(
      Constraint{g.grammar->source.written(), g.grammar->field, std::move(*made), env.grammars->vocabulary()});
  if (!g.stops.empty() && !g.grammar->free_text) {
    g.stops.clear();
    std::string text = "stop has no effect beside ";
    append_header_text(text, g.grammar->field);
    warnings.add(std::move(text));
  }
  return {};
}

}  // namespace quire
