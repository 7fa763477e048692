#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/template_variables.h"

namespace quire {
namespace {

using jinja::Context;
using jinja::JsonImport;
using jinja::Trust;
using jinja::Value;

// Names that chat_template_kwargs may not set: the request's own fields, and the arguments of apply_chat_template that
// a caller could otherwise smuggle in.
bool is_reserved(std::string_view name) {
  constexpr std::array<std::string_view, 12> kReserved{"messages",
                                                       "tools",
                                                       "add_generation_prompt",
                                                       "tokenize",
                                                       "chat_template",
                                                       "conversation",
                                                       "return_dict",
                                                       "truncation",
                                                       "padding",
                                                       "max_length",
                                                       "continue_final_message",
                                                       "loop"};
  const bool token = name.ends_with("_token") || name.ends_with("_tokens");
  return token || jinja::find_global(name) || std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

}  // namespace

Status check_template_kwargs(const Json& extra) {
  if (extra.is_null()) return {};
  const Json::Object* members = extra.as_object();
  if (!members) return fail(Code::invalid, "chat_template_kwargs must be an object");
  for (const Json::Member& m : *members) {
    if (is_reserved(m.first)) {
      return fail(Code::invalid, "chat_template_kwargs: '" + jinja::excerpt(m.first, 100) + "' is a reserved name");
    }
  }
  return {};
}

namespace {

class InputVariables final : public jinja::Variables {
 public:
  explicit InputVariables(const TemplateInput& input) : input_(input) {}

  bool find(Context& in, std::string_view name, Value& out) override {
    if (name == "messages") {
      const JsonImport how{.trust = Trust::user,
                           .limit = in.limits().memory_bytes,
                           .parses_arguments = input_.arguments == ArgumentsAs::object};
      return import_json(in.arena(), input_.messages, how, out) || in.step();
    }
    if (name == "tools") return import(in, input_.tools, Trust::user, out);
    if (name == "add_generation_prompt") {
      out = jinja::make_bool(input_.add_generation_prompt);
      return true;
    }
    if (const Json* token = input_.special_tokens.find(name)) return import(in, *token, Trust::trusted, out);
    if (const Json* more = input_.extra.find(name)) return import(in, *more, Trust::user, out);
    if (name == "functions" && input_.shows_functions) {
      if (functions_.is_null()) functions_ = functions_text(input_.tools);
      return import(in, functions_, Trust::user, out);
    }
    if (name == "documents") out = jinja::make_none();  // the reference always passes it
    return true;
  }

 private:
  static bool import(Context& in, const Json& json, Trust trust, Value& out) {
    const JsonImport how{.trust = trust, .limit = in.limits().memory_bytes};
    return import_json(in.arena(), json, how, out) || in.step();
  }

  const TemplateInput& input_;
  Json functions_;  // the value refers to it
};

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const jinja::Program> program, const TemplateLimits& limits)
    : program_(std::move(program)), limits_(limits) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const TemplateLimits& limits) {
  QR_TRY(std::unique_ptr<const jinja::Program> program, jinja::parse_template(source, limits));
  return ChatTemplate(std::move(program), limits);
}

Result<Rendered> ChatTemplate::render_marked(const TemplateInput& input) const {
  QR_TRY_VOID(check_template_kwargs(input.extra));
  Context in(limits_, input.now);
  InputVariables variables(input);
  jinja::TextBuilder out;
  if (!jinja::Evaluator(in, *program_, variables).run(out)) return tl::make_unexpected(in.error());
  return Rendered{out.take_text(), out.take_user()};
}

Result<std::string> ChatTemplate::render(const TemplateInput& input) const {
  QR_TRY(Rendered rendered, render_marked(input));
  return std::move(rendered.text);
}

std::string local_time_text(int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm tm{};
  localtime_r(&seconds, &tm);
  std::array<char, 32> buffer{};
  return {buffer.data(), std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%S", &tm)};
}

}  // namespace quire
