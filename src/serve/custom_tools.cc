#include "serve/custom_tools.h"

#include <algorithm>
#include <utility>

#include "text/parse/call_arguments.h"

namespace quire {
namespace {

using Notation = GrammarSource::Notation;

constexpr Field kTool[] = {
    field_of("type", kString),        field_of("custom", kObject), field_of("name", kString, &ServeLimits::name_bytes),
    field_of("description", kString), field_of("format", kObject),
};
constexpr Field kFormat[] = {
    field_of("type", kString),
    field_of("grammar", kObject),
    field_of("syntax", kString),
    field_of("definition", kString),
};
const Schema kToolSchema({kTool});
const Schema kFormatSchema({kFormat});

constexpr int kQuotesBefore = 3;  // of {"input": "

// "syntax" and "definition", which chat has in a member "grammar".
ApiResult<WantedGrammar::Part> read_grammar(const Args& format,
                                            bool nested,
                                            const std::string& path,
                                            const Reading& reading) {
  Args args = format;
  std::string at = path;
  if (nested) {
    at = at_key(path, "grammar");
    const Json* grammar = format.find("grammar");
    if (grammar == nullptr) return refuse(missing_field(at));
    QR_TRY(args, kFormatSchema.check(*grammar, reading, at));
  }
  for (const char* name : {"syntax", "definition"})
    if (args.text(name).empty()) return refuse(missing_field(at_key(at, name)));
  const std::string_view syntax = args.text("syntax");
  if (syntax != "lark" && syntax != "regex")
    return refuse(bad_field(at_key(at, "syntax"), "is '" + shown(syntax) + "': it must be lark or regex"));
  WantedGrammar::Part out;
  out.source.notation = syntax == "lark" ? Notation::lark : Notation::regex;
  out.source.text = args.text("definition");
  out.field = at_key(at, "definition");
  return out;
}

ApiResult<WantedGrammar::Part> read_input_format(const Args& tool,
                                                 bool nested,
                                                 const std::string& path,
                                                 const Reading& reading) {
  WantedGrammar::Part any;
  any.source.notation = Notation::regex;
  any.field = path;
  const Json* format = tool.find("format");
  if (format == nullptr) return any;
  const std::string at = at_key(path, "format");
  QR_TRY(const Args args, kFormatSchema.check(*format, reading, at));
  const std::string_view type = args.text("type");
  if (type == "text") return any;
  if (type == "grammar") return read_grammar(args, nested, at, reading);
  return refuse(bad_field(at_key(at, "type"), "is '" + shown(type) + "': it must be text or grammar"));
}

// A model has to know what it is held to.
Json input_schema(const WantedGrammar::Part& input) {
  Json out = Json::Object{{"type", "string"}};
  if (input.source.notation == Notation::lark)
    out.set("description", "A text of this grammar, in Lark's notation:\n" + input.source.text);
  else if (!input.source.text.empty())
    out.set("description", "A text that matches this regular expression: " + input.source.text);
  return out;
}

// Of a text inside of a JSON string.
struct Told {
  size_t n = 0;        // bytes of whole characters
  bool ended = false;  // the string's end is behind them
};

// How many bytes an escape at the beginning has; 0: some are still to come.
size_t escape_bytes(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] != 'u') return 2;
  if (text.size() < 6) return 0;
  const bool half = (text[2] == 'd' || text[2] == 'D') && std::string_view("89abAB").find(text[3]) != text.npos;
  return half && std::string_view("\\u").starts_with(text.substr(6, 2)) ? 12 : 6;  // a lone half ends by itself
}

size_t utf8_bytes(char first) {
  const auto c = static_cast<unsigned char>(first);
  return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

Told told_of(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && text[at] != '"') {
    const size_t n = text[at] == '\\' ? escape_bytes(text.substr(at)) : utf8_bytes(text[at]);
    if (n == 0 || n > text.size() - at) return {at, false};
    at += n;
  }
  return {at, at < text.size()};
}

}  // namespace

ApiResult<CustomTool> read_custom_tool(const Json& tool, bool nested, const std::string& path, const Reading& reading) {
  QR_TRY(Args args, kToolSchema.check(tool, reading, path));
  std::string at = path;
  if (nested) {
    at = at_key(path, "custom");
    const Json* custom = args.find("custom");
    if (custom == nullptr) return refuse(missing_field(at));
    QR_TRY(args, kToolSchema.check(*custom, reading, at));
  }
  CustomTool out;
  out.name = args.text("name");
  if (out.name.empty()) return refuse(missing_field(at_key(at, "name")));
  QR_TRY(out.input, read_input_format(args, nested, at, reading));
  out.function = Json::Object{{"name", out.name}};
  if (args.has("description")) out.function.set("description", args.text("description"));
  const std::string name(kInputName);
  out.function.set("parameters", Json::Object{{"type", "object"},
                                              {"properties", Json::Object{{name, input_schema(out.input)}}},
                                              {"required", Json::Array{Json(name)}}});
  return out;
}

std::string input_arguments(std::string_view input) {
  std::string out = "{\"" + std::string(kInputName) + "\": ";
  append_json_string(out, input);
  return out + "}";
}

bool is_custom_call(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view input_in(std::string_view arguments) {
  for (int i = 0; i < kQuotesBefore; ++i) {
    const size_t at = arguments.find('"');
    if (at == std::string_view::npos) return {};
    arguments.remove_prefix(at + 1);
  }
  return arguments.substr(0, told_of(arguments).n);
}

void add_input(std::string_view arguments, std::shared_ptr<const void> owner, Pieces& out) {
  const std::string_view input = input_in(arguments);
  if (!input.empty()) out.add_list(1, [input, owner = std::move(owner)](size_t, std::string& text) { text += input; });
}

std::string CustomInputReader::push(std::string_view piece) {
  for (; n_quotes_ < kQuotesBefore; ++n_quotes_) {
    const size_t at = piece.find('"');
    if (at == std::string_view::npos) return {};
    piece.remove_prefix(at + 1);
  }
  if (ended_) return {};
  held_ += piece;
  const Told told = told_of(held_);
  std::string out = held_.substr(0, told.n);
  held_.erase(0, told.n);
  ended_ = told.ended;
  return out;
}

}  // namespace quire
