// See structural_tag.h. Formats nest as deep as JSON does (kMaxJsonDepth).
#include "text/grammar/structural_tag.h"

#include <unordered_map>

namespace quire {

namespace {

using Part = GrammarComposer::Part;

class TagCompiler {
 public:
  explicit TagCompiler(GrammarComposer& composer) : c_(composer) {}

  Result<Part> run(const Json& root) {
    if (root.as_object() == nullptr) return error("#", "must be an object");
    if (const Json* format = root.find("format")) return part(*format, "#/format");
    return structures(root);
  }

 private:
  static tl::unexpected<Error> error(const std::string& at, std::string_view what) {
    return fail(Code::invalid, "structural_tag: " + at + ": " + std::string(what));
  }
  static Result<Part> at(const std::string& where, Result<Part> made) {
    if (made) return made;
    return fail(made.error().code, "structural_tag: " + where + ": " + made.error().message);
  }

  static Result<const Json*> member(const Json& v, const char* key, const std::string& at) {
    const Json* found = v.find(key);
    if (found == nullptr) return error(at, std::string(key) + " is missing");
    return found;
  }
  static Result<std::string> text(const Json& v, const char* key, const std::string& at) {
    QR_TRY(const Json* found, member(v, key, at));
    if (found->as_string() == nullptr) return error(at + "/" + key, "must be a string");
    return *found->as_string();
  }
  static Result<std::vector<std::string>> texts(const Json& v, const char* key, const std::string& at) {
    QR_TRY(const Json* found, member(v, key, at));
    std::vector<std::string> out;
    if (found->as_string() != nullptr) out.push_back(*found->as_string());
    if (found->as_array() != nullptr) {
      for (const Json& e : *found->as_array()) {
        if (e.as_string() == nullptr) return error(at + "/" + key, "must be strings");
        out.push_back(*e.as_string());
      }
    }
    if (out.empty()) return error(at + "/" + key, "must be a string or a list of strings");
    return out;
  }
  static bool flag(const Json& v, const char* key) {
    const Json* found = v.find(key);
    return found != nullptr && found->as_bool() != nullptr && *found->as_bool();
  }

  Result<Part> structures(const Json& root) {
    QR_TRY(const Json* list, member(root, "structures", "#"));
    QR_TRY(const std::vector<std::string> triggers, texts(root, "triggers", "#"));
    if (list->as_array() == nullptr) return error("#/structures", "must be an array");
    std::vector<GrammarComposer::Tag> tags;
    for (size_t i = 0; i < list->as_array()->size(); ++i) {
      const Json& one = (*list->as_array())[i];
      const std::string where = "#/structures/" + std::to_string(i);
      QR_TRY(std::string begin, text(one, "begin", where));
      QR_TRY(const Json* schema, member(one, "schema", where));
      QR_TRY(const std::string end, text(one, "end", where));
      QR_TRY(const Part content, at(where + "/schema", c_.json_schema(*schema, {})));
      const Part rest[] = {content, c_.literal(end)};
      tags.push_back({std::move(begin), c_.sequence(rest)});
    }
    return c_.triggered(triggers, tags, {});
  }

  Result<std::vector<Part>> elements(const Json& v, const std::string& where) {
    QR_TRY(const Json* list, member(v, "elements", where));
    if (list->as_array() == nullptr || list->as_array()->empty())
      return error(where + "/elements", "must be a list of formats");
    std::vector<Part> out;
    for (size_t i = 0; i < list->as_array()->size(); ++i) {
      QR_TRY(const Part p, part((*list->as_array())[i], where + "/elements/" + std::to_string(i)));
      out.push_back(p);
    }
    return out;
  }

  // All of a tag behind its beginning.
  Result<Part> rest_of_tag(const Json& v, const std::string& where) {
    QR_TRY(const Json* content, member(v, "content", where));
    QR_TRY(const std::vector<std::string> ends, texts(v, "end", where));
    const Json* type = content->find("type");
    const bool any_text = type != nullptr && type->as_string() != nullptr && *type->as_string() == "any_text";
    bool some_end = true;
    for (const std::string& e : ends) some_end = some_end && !e.empty();
    if (any_text && some_end) return c_.text_until(ends);
    QR_TRY(const Part inner, part(*content, where + "/content"));
    std::vector<Part> ways;
    for (const std::string& e : ends) ways.push_back(c_.literal(e));
    const Part both[] = {inner, c_.choice(ways)};
    return c_.sequence(both);
  }

  Result<std::vector<GrammarComposer::Tag>> tags(const Json& v, const std::string& where) {
    QR_TRY(const Json* list, member(v, "tags", where));
    if (list->as_array() == nullptr || list->as_array()->empty())
      return error(where + "/tags", "must be a list of tags");
    std::vector<GrammarComposer::Tag> out;
    for (size_t i = 0; i < list->as_array()->size(); ++i) {
      const std::string own = where + "/tags/" + std::to_string(i);
      QR_TRY(std::string begin, text((*list->as_array())[i], "begin", own));
      QR_TRY(const Part rest, rest_of_tag((*list->as_array())[i], own));
      out.push_back({std::move(begin), rest});
    }
    return out;
  }

  Part whole(const GrammarComposer::Tag& tag) {
    const Part both[] = {c_.literal(tag.begin), tag.rest};
    return c_.sequence(both);
  }

  Result<Part> separated(const Json& v, const std::string& where) {
    QR_TRY(const std::string separator, text(v, "separator", where));
    QR_TRY(const auto all, tags(v, where));
    std::vector<Part> ways;
    for (const auto& tag : all) ways.push_back(whole(tag));
    const Part one = c_.choice(ways);
    const Part more[] = {c_.literal(separator), one};
    const Part list[] = {one, c_.repeat(c_.sequence(more), 0, grammar::kNoLimit)};
    const Part some = flag(v, "stop_after_first") ? one : c_.sequence(list);
    const Part maybe[] = {some, c_.literal("")};
    return flag(v, "at_least_one") ? some : c_.choice(maybe);
  }

  Result<Part> part(const Json& v, const std::string& where) {
    QR_TRY(const std::string type, text(v, "type", where));
    if (type == "const_string") {
      QR_TRY(const std::string value, text(v, "value", where));
      return c_.literal(value);
    }
    if (type == "json_schema") {
      QR_TRY(const Json* schema, member(v, "json_schema", where));
      std::string mark;
      if (v.find("string_mark") != nullptr) {
        QR_TRY(mark, text(v, "string_mark", where));
      }
      return at(where, c_.json_schema(*schema, {.string_mark = mark}));
    }
    if (type == "regex") {
      QR_TRY(const std::string pattern, text(v, "pattern", where));
      if (const auto known = patterns_.find(pattern); known != patterns_.end()) return known->second;
      QR_TRY(const Part made, at(where, c_.regex(pattern)));
      patterns_.emplace(pattern, made);
      return made;
    }
    if (type == "grammar") {
      QR_TRY(const std::string source, text(v, "grammar", where));
      return at(where, flag(v, "lark") ? c_.lark(source) : c_.ebnf(source));
    }
    if (type == "any_text") return c_.free_text();
    if (type == "sequence" || type == "or") {
      QR_TRY(const std::vector<Part> parts, elements(v, where));
      return type == "or" ? c_.choice(parts) : c_.sequence(parts);
    }
    if (type == "tag") {
      QR_TRY(std::string begin, text(v, "begin", where));
      QR_TRY(const Part rest, rest_of_tag(v, where));
      return whole({std::move(begin), rest});
    }
    if (type == "triggered_tags") {
      QR_TRY(const std::vector<std::string> triggers, texts(v, "triggers", where));
      QR_TRY(const auto all, tags(v, where));
      return c_.triggered(triggers, all, {flag(v, "at_least_one"), flag(v, "stop_after_first")});
    }
    if (type == "tags_with_separator") return separated(v, where);
    return fail(Code::unsupported, "structural_tag: " + where + "/type: \"" + type + "\" is not supported");
  }

  GrammarComposer& c_;
  std::unordered_map<std::string, Part> patterns_;  // calls of many tools have the same ones
};

}  // namespace

Result<GrammarComposer::Part> structural_tag_part(const Json& tag, GrammarComposer& composer) {
  return TagCompiler(composer).run(tag);
}

Result<std::shared_ptr<const Grammar>> compile_structural_tag(const Json& tag,
                                                              std::vector<GrammarComposer::Control> controls,
                                                              const GrammarLimits& limits) {
  GrammarComposer composer(limits, std::move(controls));
  QR_TRY(const Part root, structural_tag_part(tag, composer));
  return composer.finish(root);
}

}  // namespace quire
