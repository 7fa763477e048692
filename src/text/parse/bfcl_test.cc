// The calls that the Berkeley function calling leaderboard (BFCL v4) accepts pass the grammars of its tools and are
// read back, in families that write JSON and in one that does not. Skipped where the files are absent.
#include <fstream>
#include <map>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"
#include "text/test_support.h"

namespace quire {
namespace {

// The types that the files have of their own, as JSON Schema has them.
Json standard(const Json& schema) {
  static const std::map<std::string, std::string> kTypes{{"dict", "object"}, {"float", "number"}, {"tuple", "array"}};
  if (schema.as_object() == nullptr) return schema;
  Json out = Json::Object{};
  for (const auto& [key, value] : *schema.as_object()) {
    if (key == "type" && value.as_string() != nullptr) {
      const auto known = kTypes.find(*value.as_string());
      if (*value.as_string() != "any") out.set(key, known != kTypes.end() ? Json(known->second) : value);
    } else if (key == "properties") {
      Json properties = Json::Object{};
      for (const auto& [name, part] : *value.as_object()) properties.set(name, standard(part));
      out.set(key, std::move(properties));
    } else {
      out.set(key, key == "items" ? standard(value) : value);
    }
  }
  return out;
}

// The first of the values that an argument may have, inside lists and objects too; absent where it may be left out.
// Members in the schema's order.
std::optional<Json> first_accepted(const Json& ways, const Json& schema);
Json accepted(const Json& value, const Json& schema) {
  const Json none = Json::Object{};
  const auto part = [&](const Json& of, const char* key) { return of.find(key) != nullptr ? *of.find(key) : none; };
  if (const Json::Array* list = value.as_array()) {
    Json::Array out;
    for (const Json& v : *list) out.push_back(accepted(v, part(schema, "items")));
    return out;
  }
  if (value.as_object() == nullptr) return value;
  const Json properties = part(schema, "properties");
  Json out = Json::Object{};
  const auto add = [&](const std::string& name, const Json& ways, const Json& own) {
    if (auto chosen = first_accepted(ways, own)) out.set(name, std::move(*chosen));
  };
  for (const auto& [name, own] : *properties.as_object())
    if (const Json* ways = value.find(name)) add(name, *ways, own);
  for (const auto& [name, ways] : *value.as_object())
    if (properties.find(name) == nullptr) add(name, ways, none);
  return out;
}
std::optional<Json> first_accepted(const Json& ways, const Json& schema) {
  if (ways.as_array() == nullptr) return accepted(ways, schema);
  for (const Json& way : *ways.as_array())
    if (way.as_string() == nullptr || !way.as_string()->empty()) return accepted(way, schema);
  return std::nullopt;
}

std::vector<Json> lines(const std::filesystem::path& path) {
  std::vector<Json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(*Json::parse(line));
  return out;
}

struct Called {
  std::string name;
  Json arguments;
};

class Question {
 public:
  Question(const CallForm& form, const Json& functions) : form_(form) {
    rules_ = std::make_shared<CallRules>();
    rules_->form = &form;
    std::vector<CallableTool> tools;
    for (const Json& f : *functions.as_array()) {
      const std::string& name = *f.find("name")->as_string();
      schemas_[name] = standard(*f.find("parameters"));
      auto arguments = obeying_arguments(form, schemas_[name]);
      EXPECT_TRUE(arguments) << name;
      if (arguments) tools.push_back({name, std::move(*arguments)});
      rules_->names.push_back(name);
    }
    auto made = compile_structural_tag(call_tag(form, tools, {.required = true}), {}, {});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    if (made) grammar_ = *made;
  }

  const Json& schema(const std::string& name) const { return schemas_.at(name); }

  // Whether the grammar lets the call through; what it lets through is read back as it is.
  bool takes(const Called& call) const {
    const std::string text =
        std::string(form_.lead) + call_as_written(form_, call.name, call.arguments.dump()) + std::string(form_.tail);
    if (grammar_ == nullptr || !quire::takes(grammar_, text)) return false;
    const AnswerParts parts = read_in_pieces(AnswerParser(ReasoningForm::Kind::none, false, rules_), text, text.size());
    const auto read = Json::parse(parts.joined(PartKind::arguments));
    EXPECT_TRUE(parts.joined(PartKind::call) == call.name && read && *read == call.arguments) << text;
    return true;
  }

 private:
  const CallForm& form_;
  std::shared_ptr<CallRules> rules_;
  std::map<std::string, Json> schemas_;
  std::shared_ptr<const Grammar> grammar_;
};

// Python's jsonschema calls three of the 1,140 accepted calls invalid by their own tools' schemas: true and null where
// a string and a number are wanted.
TEST(Bfcl, AcceptedCallsPassTheirGrammars) {
  const auto dir = shared_dir() / "prompts" / "bfcl";
  QR_NEED_FILE(dir / "BFCL_v4_multiple.json");
  for (const char* family : {"hermes", "llama3_json", "gemma4"}) {
    size_t n = 0;
    std::string refused;
    for (const std::string file : {"simple_python", "multiple", "parallel"}) {
      std::map<std::string, Json> answers;
      for (const Json& a : lines(dir / ("answer_BFCL_v4_" + file + ".json")))
        answers[*a.find("id")->as_string()] = *a.find("ground_truth");
      for (const Json& one : lines(dir / ("BFCL_v4_" + file + ".json"))) {
        const std::string& id = *one.find("id")->as_string();
        const Question question(*find_call_form(family), *one.find("function"));
        for (const Json& calls : *answers.at(id).as_array()) {
          for (const auto& [name, arguments] : *calls.as_object()) {
            ++n;
            if (!question.takes({name, accepted(arguments, question.schema(name))})) refused += id + " ";
          }
        }
      }
    }
    EXPECT_EQ(n, 1140U) << family;
    EXPECT_EQ(refused, "simple_python_307 parallel_152 parallel_152 ") << family;
  }
}

}  // namespace
}  // namespace quire
