// See call_arguments.h. Between marks a string is written as it is, anything else as JSON. A string may be held to its
// values or its length; a value of several kinds only where each reading obeys. In Python a value is written as JSON,
// which is read there, too, but for True, False and None where they stand alone.
#include "text/parse/call_arguments.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/parse/argument_kinds.h"
#include "text/parse/held_schema.h"
#include "text/parse/keyword_arguments.h"
#include "text/parse/marked_value.h"
#include "text/parse/tag_formats.h"
#include "text/parse/tagged_grammar.h"
#include "text/regex/parse.h"

namespace quire {

using namespace formats;

namespace {

// A whole object as the form's calls write it.
Json object_schema(const CallForm& form, const Json& schema) {
  Json out = json_schema(schema);
  if (form.quoted()) out.set("string_mark", form.string_mark);
  return out;
}
Json any_object() { return Json::Object{{"type", "object"}}; }

std::string value_end(const CallForm& form) { return (form.padded ? "\n" : "") + std::string(form.value_end); }

std::string_view argument_end(const CallForm& form) { return form.joined ? "" : "\n"; }

// JSON behind the mark that tells it.
Json json_behind(const CallForm& form, const JsonKeyEnd& end, const Json& schema) {
  return sequence({text(end.mark + (form.padded ? "\n" : "")), json_schema(schema), text(value_end(form))});
}

// What of `schema` is of these kinds, which are some of its own.
Json of_kinds(Json schema, ValueKinds kinds) {
  if (schema == Json(true)) schema = Json::Object{};
  if (kinds == kEveryKind || schema.as_object() == nullptr) return schema;
  Json::Array names;
  const auto add = [&](ValueKinds kind, std::string_view name) {
    if ((kinds & kind) == kind) names.emplace_back(name);
  };
  if ((kinds & kFractionKind) == 0) add(kIntegerKind, "integer");
  add(kFractionKind, "number");
  add(kBoolKind, "boolean");
  add(kNullKind, "null");
  add(kObjectKind, "object");
  add(kArrayKind, "array");
  schema.set("type", std::move(names));
  return schema;
}

constexpr std::string_view kAnyPattern = "[\\s\\S]*";

// In front of a pattern of text that stands between marks: what would be read otherwise. `before`: what may stand in
// front of a mark that ends the value.
std::string unlike_marks(const CallForm& form, std::string_view before = kAnyPattern) {
  const std::string wrap = form.wrap_begin.empty() ? "" : "(?!" + quoted_pattern(form.wrap_begin) + ")";
  return wrap + "(?!" + std::string(before) + quoted_pattern(form.value_end) + ")";
}

// A value between the marks that may stand around one, behind which models write white space.
Json wrapped_text(const CallForm& form) {
  const std::string close = quoted_pattern(form.wrap_end);
  std::string inside = "(?![\\s\\S]*" + close + "[ \\t\\r\\n]*" + quoted_pattern(form.value_end) + ")[\\s\\S]*";
  return sequence({text(form.wrap_begin), regex(inside + close + "[ \\t\\r\\n]{0,16}"), text(form.value_end)});
}

// A value up to the mark that ends it, in front of which the line end may lack: any text, or what may be JSON.
Json any_value(const CallForm& form, MarkedValue::As as) {
  const bool is_text = as == MarkedValue::As::text;
  if (is_text && form.wrap_begin.empty()) return tag("", Json::Object{{"type", "any_text"}}, form.value_end);
  const std::string_view pattern = is_text ? kAnyPattern : kEitherPattern;
  Json bare = sequence({regex(unlike_marks(form, pattern) + "(?:" + std::string(pattern) + ")"), text(form.value_end)});
  if (form.wrap_begin.empty()) return bare;
  return one_of({std::move(bare), wrapped_text(form)});
}

// Python's literals, and JSON's. White space is bounded; half a pair of surrogates is no character.
constexpr std::string_view kAnyKeywords = R"py(
root   ::= ( pair ( "," ws pair )* )?
pair   ::= key "=" value
key    ::= edge ( inner{0,62} edge )?
edge   ::= [^\x00-\x20\x7F"'()\x5B\x5D{},:#\\=]
inner  ::= [^\x00-\x1F\x7F"'()\x5B\x5D{},:#\\=]
value  ::= string | number | list | dict | "True" | "False" | "None" | "true" | "false" | "null"
list   ::= "[" ws ( value ws ( "," ws value ws )* )? "]"
dict   ::= "{" ws ( entry ws ( "," ws entry ws )* )? "}"
entry  ::= string ws ":" ws value
string ::= "\"" ( [^"\\\x00-\x1F\x7F] | escape )* "\"" | "'" ( [^'\\\x00-\x1F\x7F] | escape )* "'"
escape ::= "\\" ( ["'\\/abfnrtv] | "x" hex{2} | "u" code )
code   ::= ( [0-9a-cA-Ce-fE-F] hex | [dD] [0-7] ) hex{2} | [dD] [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2}
hex    ::= [0-9a-fA-F]
number ::= "-"? ( "0" | [1-9] [0-9]{0,99} ) ( "." [0-9]{1,99} )? ( [eE] [-+]? [0-9]{1,2} )?
ws     ::= " "? | "\n" " "{0,16}
)py";

// Any name up to the mark that ends it, as the parser reads them: one line, and no blank at either end, which models
// would write and mean nothing by.
std::string any_key(const CallForm& form) {
  const std::string end = quoted_pattern(form.key_end.substr(0, 1));
  const std::string edge = "[^\\x00-\\x20\\x7f" + end + "]", inner = "[^\\x00-\\x1f\\x7f" + end + "]";
  return edge + "(?:" + inner + "{0,62}" + edge + ")?";
}

class Obeying {
 public:
  Obeying(const CallForm& form, const Json& schema) : form_(form), root_(schema), kinds_(schema) {}

  Result<Json> run() {
    for (const auto& [key, value] : *root_.as_object()) {
      static constexpr std::array<std::string_view, 8> kKnown{
          "properties", "required", "additionalProperties", "$schema", "$defs", "definitions", "$id", "strict"};
      if (!is_annotation(key) && std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) return cannot("#", key);
    }
    std::vector<Argument> arguments;
    const Json* properties = root_.find("properties");
    if (properties != nullptr && properties->as_object() != nullptr) {
      for (const auto& [key, schema] : *properties->as_object()) {
        QR_TRY(Json part, form_.keywords ? keyword(key, schema) : argument(key, resolved(schema, root_)));
        arguments.push_back({std::move(part), is_required(root_, key)});
      }
    }
    if (const std::string* name = required_but_unknown(root_))
      return fail(Code::unsupported, "#/required: \"" + *name + "\" is none of the properties, which " + means());
    if (arguments.empty()) return text("");
    return form_.keywords ? with_commas(std::move(arguments)) : one_after_another(std::move(arguments));
  }

 private:
  struct Argument {
    Json format;
    bool required;
  };
  static constexpr size_t kMaxFirst = 32;  // parameters of which any may come first: parts grow with the square

  std::string means() const {
    const char* what = form_.keywords ? "arguments in Python" : "values between marks";
    return std::string(what) + ", as this model writes them, cannot be held to";
  }
  tl::unexpected<Error> cannot(const std::string& at, std::string_view keyword) const {
    return fail(Code::unsupported, at + ": \"" + std::string(keyword) + "\" is what " + means());
  }

  static Json one_after_another(std::vector<Argument> arguments) {
    Json::Array parts;
    for (Argument& a : arguments) parts.push_back(a.required ? std::move(a.format) : optional(std::move(a.format)));
    return sequence(std::move(parts));
  }

  // The first that is required comes first. Where none is, any may, and those behind it follow.
  static Result<Json> with_commas(std::vector<Argument> arguments) {
    const auto first = std::find_if(arguments.begin(), arguments.end(), [](const Argument& a) { return a.required; });
    const bool some = first != arguments.end();
    if (some) std::rotate(arguments.begin(), first, first + 1);
    if (!some && arguments.size() > kMaxFirst)
      return fail(Code::unsupported,
                  "#/properties: " + std::to_string(arguments.size()) + " parameters of which none is required; of " +
                      "such, arguments in Python can be held to at most " + std::to_string(kMaxFirst));
    Json::Array ways;
    for (size_t i = 0; i < (some ? 1 : arguments.size()); ++i) {
      Json::Array parts{arguments[i].format};
      for (size_t k = i + 1; k < arguments.size(); ++k) {
        Json next = sequence({text(", "), arguments[k].format});
        parts.push_back(arguments[k].required ? std::move(next) : optional(std::move(next)));
      }
      ways.push_back(sequence(std::move(parts)));
    }
    if (!some) ways.push_back(text(""));
    return one_of(std::move(ways));
  }

  Result<Json> keyword(const std::string& key, const Json& schema) {
    const bool fits = !key.empty() && key.front() != ' ' && key.back() != ' ' && key.size() <= kKeywordBytes &&
                      std::none_of(key.begin(), key.end(), [&](char c) {
                        return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '=' ||
                               kNotInKeywords.find(c) != std::string_view::npos;
                      });
    if (!fits) return fail(Code::unsupported, "#/properties/" + key + ": no name that a keyword of Python's can be");
    return sequence({text(key + "="), python_value(schema)});
  }

  Json python_value(const Json& schema) const {
    const Json& meant = resolved(schema, root_);
    const Json* type = meant.find("type");
    const bool plain = type != nullptr && type->as_string() != nullptr &&
                       std::all_of(meant.as_object()->begin(), meant.as_object()->end(),
                                   [](const auto& m) { return is_annotation(m.first); });
    if (plain && *type->as_string() == "boolean") return one_of({text("True"), text("False")});
    if (plain && *type->as_string() == "null") return text("None");
    return json_schema(with_definitions(schema));
  }

  Result<Json> argument(const std::string& key, const Json& schema) {
    const std::string at = "#/properties/" + key;
    const std::string written = written_key(form_, key);
    if (key.empty() || written.find(form_.key_end[0]) != std::string::npos || key.find('\n') != std::string::npos)
      return fail(Code::unsupported, at + ": no name that this model's marks can hold");
    Json::Array parts{text(std::string(form_.key_begin) + written)};
    const ValueKinds kinds = kinds_of(schema, root_);
    const Json* values = schema.find("enum");
    const Json* value = schema.find("const");
    if (values != nullptr || value != nullptr) {
      QR_TRY(Json ways, listed(at, key, kinds, values, value));
      parts.push_back(std::move(ways));
    } else if ((kinds & kStringKind) == 0) {
      parts.push_back(json_value(schema));
    } else {
      QR_TRY(Json string, kinds == kStringKind ? plain_string(at, key, schema) : mixed(at, key, schema));
      string = sequence({text(key_end()), std::move(string)});
      const bool either = kinds != kStringKind && !form_.json_key_end.empty();
      parts.push_back(either ? one_of({std::move(string), json_value(schema)}) : std::move(string));
    }
    parts.push_back(text(argument_end(form_)));
    return sequence(std::move(parts));
  }

  // Behind the key, and up to the value: of one that no mark calls JSON, and of one that is.
  std::string key_end() const { return std::string(form_.key_end) + (form_.padded ? "\n" : ""); }
  std::string key_end(const Json& value) const {
    const auto ends = value.as_string() == nullptr ? json_key_ends(form_, kind_of(value)) : std::vector<JsonKeyEnd>();
    return ends.empty() ? key_end() : ends[0].mark + (form_.padded ? "\n" : "");
  }
  Json json_value(const Json& schema) const {
    const Json whole = with_definitions(schema);
    if (form_.json_key_end.empty()) return sequence({text(key_end()), json_schema(whole), text(value_end(form_))});
    const ValueKinds known = kinds_of(schema, root_), kinds = known != 0 ? known : kEveryKind;
    Json::Array ways;
    for (const JsonKeyEnd& end : json_key_ends(form_, kinds)) {
      const bool all = (kinds & ~end.kinds) == 0;
      ways.push_back(json_behind(form_, end, all ? whole : of_kinds(whole, end.kinds)));
    }
    return one_of(std::move(ways));
  }

  // A part of the schema, with what its references point to.
  Json with_definitions(const Json& schema) const {
    Json out = schema;
    for (const char* key : {"$defs", "definitions", "$schema"})
      if (const Json* found = root_.find(key); found != nullptr && out.as_object() != nullptr) out.set(key, *found);
    return out;
  }

  MarkedValue::As as(std::string_view key, bool is_json = false) const {
    return value_as(form_, kinds_.may_nest(key), is_json);
  }

  Result<Json> listed(
      const std::string& at, const std::string& key, ValueKinds kinds, const Json* values, const Json* value) {
    const Json::Array only = value != nullptr ? Json::Array{*value} : Json::Array{};
    const Json::Array* list = value != nullptr ? &only : values->as_array();
    if (list == nullptr || list->empty()) return cannot(at, "enum");
    Json::Array ways;
    for (const Json& one : *list) {
      const std::string written = one.as_string() != nullptr ? *one.as_string() : one.dump();
      const auto read = Json::parse(json_of_value(kinds, written));
      const bool told = !form_.json_key_end.empty() || (read && *read == one);  // by the mark, or as it reads
      const bool is_json = one.as_string() == nullptr && !form_.json_key_end.empty();
      if (!told || !fits_marks(form_, as(key, is_json), written))
        return cannot(at, value != nullptr ? "const" : "enum");
      ways.push_back(text(key_end(one) + written + value_end(form_)));
    }
    return one_of(std::move(ways));
  }

  Result<Json> plain_string(const std::string& at, const std::string& name, const Json& schema) {
    const StringBounds bounds = string_bounds(schema, is_annotation);
    if (bounds.unknown != nullptr) return cannot(at, *bounds.unknown);
    if (bounds.min == nullptr && bounds.max == nullptr) return any_value(form_, as(name));
    if (as(name) != MarkedValue::As::text) return cannot(at, bounds.min != nullptr ? "minLength" : "maxLength");
    const auto counted = counted_pattern(bounds.min, bounds.max);
    if (!counted) return cannot(at, bounds.wrong());
    return sequence({regex(unlike_marks(form_) + *counted), text(value_end(form_))});
  }

  // Whatever comes is of one of the types, or a string.
  Result<Json> mixed(const std::string& at, const std::string& name, const Json& schema) {
    Json any = any_value(form_, as(name));
    if (schema.as_object() == nullptr) return any;
    std::vector<const Json*> open{&schema};
    for (size_t i = 0; i < open.size(); ++i) {
      for (const auto& [key, value] : *open[i]->as_object()) {
        if (is_annotation(key)) continue;
        if (i > 0 || (key != "anyOf" && key != "oneOf") || value.as_array() == nullptr) return cannot(at, key);
        for (const Json& inner : *value.as_array()) {
          if (inner.as_object() == nullptr) return cannot(at, key);
          open.push_back(&inner);
        }
      }
    }
    return any;
  }

  const CallForm& form_;
  const Json& root_;
  const ArgumentKinds kinds_;
};

}  // namespace

// An argument that need not obey; its key obeys a pattern.
static Json any_argument(const CallForm& form, std::string key, Json value) {
  return tag(form.key_begin, sequence({regex(std::move(key)), std::move(value)}), argument_end(form));
}

Json any_arguments(const CallForm& form, const ArgumentKinds& kinds) {
  if (form.keywords) return Json::Object{{"type", "grammar"}, {"grammar", kAnyKeywords}};
  if (form.tagged()) return any_tagged(form);
  if (!form.marked()) return object_schema(form, any_object());
  const std::string key_end = std::string(form.key_end) + (form.padded ? "\n" : "");
  Json string = sequence({text(key_end), any_value(form, MarkedValue::As::text)});
  const std::string key = any_key(form);
  Json::Array ways;
  if (!form.json_key_end.empty()) {
    Json::Array either{std::move(string)};
    for (const JsonKeyEnd& end : json_key_ends(form, kEveryKind))
      either.push_back(json_behind(form, end, of_kinds(Json::Object{}, end.kinds)));
    ways.push_back(any_argument(form, key, one_of(std::move(either))));
  } else {
    std::string flat;
    for (const std::string& name : kinds.flat_names())
      if (name.find(form.key_end[0]) == std::string::npos) flat += (flat.empty() ? "" : "|") + quoted_pattern(name);
    Json other = sequence({text(key_end), any_value(form, MarkedValue::As::either)});
    if (!flat.empty()) ways.push_back(any_argument(form, "(?=(?:" + flat + ")$)" + key, std::move(string)));
    ways.push_back(any_argument(form, flat.empty() ? key : "(?!(?:" + flat + ")$)" + key, std::move(other)));
  }
  return repeated(std::move(ways));
}

Result<Json> obeying_arguments(const CallForm& form, const Json& schema, size_t& n_left) {
  if (form.tagged()) return obeying_tagged(form, schema, n_left);
  if (!form.marked() && !form.keywords) return object_schema(form, schema);
  return Obeying(form, schema).run();
}

Result<Json> obeying_arguments(const CallForm& form, const Json& schema) {
  size_t n_left = kTaggedParts;
  return obeying_arguments(form, schema, n_left);
}

// The text itself where it stands between marks, which it does not hold.
static Json between_marks(const CallForm& form, const std::string& pattern) {
  const std::string begin = std::string(form.key_begin) + std::string(kInputName) + std::string(form.key_end);
  return sequence({text(begin + (form.padded ? "\n" : "")), regex(unlike_marks(form) + "(?:" + pattern + ")"),
                   text(value_end(form) + std::string(argument_end(form)))});
}

Result<Json> obeying_input(const CallForm& form, TextNotation notation, std::string_view definition) {
  const std::string name(kInputName), source(definition);
  if (notation == TextNotation::lark) {
    if (form.marked() || form.quoted() || form.tagged())
      return fail(Code::unsupported,
                  "a grammar in Lark's notation, where a text stands between marks, as this model writes it; a regular "
                  "expression can be");
    Json grammar = Json::Object{{"type", "grammar"}, {"grammar", source + "\n%json_string"}, {"lark", true}};
    if (form.keywords) return sequence({text(name + "=\""), std::move(grammar), text("\"")});
    return sequence({regex("\\{\"" + name + "\": ?\""), std::move(grammar), text("\"}")});
  }
  RegexDialect dialect;
  dialect.ecma = true;
  QR_TRY([[maybe_unused]] const RegexTree whole, parse_regex(source, dialect));  // it becomes a part of another one
  if (form.marked() && !source.empty()) return between_marks(form, source);
  if (form.tagged()) return tagged_text(form, name, source);
  Json string = Json::Object{{"type", "string"}};
  if (!source.empty()) string.set("pattern", "^(?:" + source + ")$");
  return obeying_arguments(form, Json::Object{{"type", "object"},
                                              {"properties", Json::Object{{name, std::move(string)}}},
                                              {"required", Json::Array{Json(name)}},
                                              {"additionalProperties", false}});
}

}  // namespace quire
