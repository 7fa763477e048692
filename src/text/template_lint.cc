#include "text/template_lint.h"

#include <algorithm>

#include "text/jinja/context.h"

namespace quire {
namespace {

constexpr std::string_view kMorning = "2024-05-01T08:00:00";
constexpr std::string_view kNextDay = "2024-05-02T09:30:00";
constexpr size_t kExcerptBytes = 60;

Json message(std::string_view role, std::string_view content) {
  Json out;
  out.set("role", role);
  out.set("content", content);
  return out;
}

Json weather_tool() {
  const char* kTool = R"({"type":"function","function":{"name":"get_weather","description":"Weather of a city",
      "parameters":{"type":"object","properties":{"city":{"type":"string","description":"Its name"}},"required":["city"]}}})";
  return *Json::parse(kTool);
}

Json tool_call_message(std::string_view id, std::string_view city) {
  Json arguments, function, call;
  arguments.set("city", city);
  function.set("name", "get_weather");
  function.set("arguments", std::move(arguments));
  call.set("id", id);
  call.set("type", "function");
  call.set("function", std::move(function));
  Json out = message("assistant", "");
  out.set("tool_calls", Json::Array{std::move(call)});
  return out;
}

Json tool_result(std::string_view id, std::string_view content) {
  Json out = message("tool", content);
  out.set("tool_call_id", id);
  out.set("name", "get_weather");
  return out;
}

// A conversation and where its prompts end: after each message that a model answers.
struct Conversation {
  std::string name;
  Json::Array messages;
  Json tools;
  std::string reasoning;  // in each answer, empty: none
};

Conversation talk(std::string name, bool system, bool reasoning) {
  Conversation c{.name = std::move(name), .messages = {}, .tools = {}, .reasoning = reasoning ? "Let me think." : ""};
  if (system) c.messages.push_back(message("system", "Answer briefly."));
  for (const char* number : {"one", "two", "three", "four"}) {
    c.messages.push_back(message("user", std::string("Question ") + number + "?"));
    Json answer = message("assistant", std::string("Answer ") + number + ".");
    if (reasoning) answer.set("reasoning_content", c.reasoning);
    c.messages.push_back(std::move(answer));
  }
  return c;
}

Conversation tool_talk() {
  Conversation c{.name = "tools", .messages = {}, .tools = Json::Array{weather_tool()}, .reasoning = ""};
  c.messages.push_back(message("system", "Use tools."));
  int n = 0;
  for (const char* city : {"Paris", "Rome"}) {
    const std::string id = "call0000" + std::to_string(++n);
    c.messages.push_back(message("user", std::string("Weather in ") + city + "?"));
    c.messages.push_back(tool_call_message(id, city));
    c.messages.push_back(tool_result(id, "20 degrees"));
    c.messages.push_back(message("assistant", std::string("It is warm in ") + city + "."));
  }
  return c;
}

bool is_question(const Json& m) {
  const std::string& role = *m.find("role")->as_string();
  return role == "user" || role == "tool";
}

std::string excerpt_at(const std::string& text, size_t offset) {
  return jinja::excerpt(std::string_view(text).substr(std::min(offset, text.size())), kExcerptBytes);
}

// Where `text` stops starting with `head`; head.size() when it does start with it.
size_t first_difference(const std::string& head, const std::string& text) {
  const auto at = std::mismatch(head.begin(), head.end(), text.begin(), text.end()).first;
  auto offset = static_cast<size_t>(at - head.begin());
  while (offset > 0 && offset < head.size() && (head[offset] & 0xc0) == 0x80) --offset;
  return offset;
}

class Linter {
 public:
  Linter(const ChatTemplate& tmpl, const Json& special_tokens) : tmpl_(tmpl) { input_.special_tokens = special_tokens; }

  void check(const Conversation& c) {
    input_.tools = c.tools;
    std::string before;
    int turn = 0;
    for (size_t i = 0; i < c.messages.size(); ++i) {
      if (!is_question(c.messages[i])) continue;
      const auto prompt = render(c, i + 1, kMorning);
      if (!prompt) {
        out_.refused.push_back(c.name + ": " + prompt.error().message);
        return;
      }
      if (turn > 0 && !compare(c, {turn, before, *prompt, c.messages[i - 1]})) return;
      before = *prompt;
      ++turn;
    }
  }

  void check_time(const Conversation& c) {
    input_.tools = c.tools;
    const auto today = render(c, c.messages.size() - 1, kMorning),
               tomorrow = render(c, c.messages.size() - 1, kNextDay);
    if (!today || !tomorrow) return;  // check() has reported it
    ++out_.n_compared;
    const size_t at = first_difference(*today, *tomorrow);
    if (at < today->size()) add({RewriteKind::time, c.name, 1, at, excerpt_at(*today, at), excerpt_at(*tomorrow, at)});
  }

  // Whether the template ever shows an answer's reasoning.
  bool shows_reasoning(const Conversation& c) {
    input_.tools = c.tools;
    input_.messages = Json::Array(c.messages.begin(), c.messages.begin() + 2);
    input_.add_generation_prompt = false;
    input_.now = kMorning;
    const auto text = tmpl_.render(input_);
    return text && text->find(c.reasoning) != std::string::npos;
  }

  TemplateLint take() { return std::move(out_); }

 private:
  struct Step {
    int turn;
    const std::string& before;
    const std::string& after;
    const Json& answer;  // the message between the two prompts
  };

  Result<std::string> render(const Conversation& c, size_t n_messages, std::string_view now) {
    input_.messages = Json::Array(c.messages.begin(), c.messages.begin() + static_cast<std::ptrdiff_t>(n_messages));
    input_.add_generation_prompt = true;
    input_.now = now;
    return tmpl_.render(input_);
  }

  void add(TemplateRewrite rewrite) { out_.rewrites.push_back(std::move(rewrite)); }

  // False after the first rewrite.
  bool compare(const Conversation& c, const Step& step) {
    ++out_.n_compared;
    const size_t at = first_difference(step.before, step.after);
    if (at < step.before.size()) {
      add({RewriteKind::prompt, c.name, step.turn, at, excerpt_at(step.before, at), excerpt_at(step.after, at)});
      return false;
    }
    const std::string rest = step.after.substr(at);
    if (!c.reasoning.empty()) {
      if (rest.find(c.reasoning) != std::string::npos) return true;
      add({RewriteKind::reasoning, c.name, step.turn, at, c.reasoning, excerpt_at(step.after, at)});
      return false;
    }
    const std::string& reply = *step.answer.find("content")->as_string();
    if (step.answer.find("tool_calls") || rest.starts_with(reply)) return true;
    const bool inserted = rest.find(reply) != std::string::npos;
    const size_t part = inserted ? at : at + first_difference(reply, rest);
    add({inserted ? RewriteKind::inserted : RewriteKind::reply, c.name, step.turn, part, excerpt_at(reply, part - at),
         excerpt_at(step.after, part)});
    return false;
  }

  const ChatTemplate& tmpl_;
  TemplateInput input_;
  TemplateLint out_;
};

std::string_view kind_text(RewriteKind kind) {
  switch (kind) {
    case RewriteKind::prompt: return "the next prompt rewrites this one";
    case RewriteKind::reply: return "the answer is not kept as the model wrote it";
    case RewriteKind::inserted: return "text that the prompt did not have stands before the answer";
    case RewriteKind::reasoning: return "the reasoning of an earlier answer is dropped";
    case RewriteKind::time: return "the text depends on the time";
  }
  return "";
}

std::string_view kind_name(RewriteKind kind) {
  constexpr std::string_view kNames[] = {"prompt", "reply", "inserted", "reasoning", "time"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

bool TemplateLint::appends_only() const {
  const auto harmless = [](const TemplateRewrite& r) { return r.kind == RewriteKind::inserted; };
  return n_compared > 0 && std::all_of(rewrites.begin(), rewrites.end(), harmless);
}

TemplateLint lint_template(const ChatTemplate& tmpl, const Json& special_tokens) {
  Linter linter(tmpl, special_tokens);
  const Conversation plain = talk("plain", false, false);
  linter.check(plain);
  linter.check(talk("system", true, false));
  const Conversation reasoning = talk("reasoning", false, true);
  if (linter.shows_reasoning(reasoning)) linter.check(reasoning);
  linter.check(tool_talk());
  linter.check_time(plain);
  return linter.take();
}

std::string lint_text(const TemplateLint& lint) {
  std::string out;
  const auto quoted = [&](const std::string& text) {
    append_json_string(out, text);
    out += '\n';
  };
  for (const TemplateRewrite& r : lint.rewrites) {
    out += r.conversation + ", turn " + std::to_string(r.turn) + ": " + std::string(kind_text(r.kind)) + " at byte " +
           std::to_string(r.offset) + "\n  before: ";
    quoted(r.before);
    out += "  after:  ";
    quoted(r.after);
  }
  for (const std::string& refusal : lint.refused) out += "not checked: " + refusal + "\n";
  if (lint.appends_only()) out += "appends only: " + std::to_string(lint.n_compared) + " steps compared\n";
  return out;
}

Json lint_json(const TemplateLint& lint) {
  Json::Array rewrites, refused;
  for (const TemplateRewrite& r : lint.rewrites) {
    Json item;
    item.set("conversation", r.conversation);
    item.set("kind", kind_name(r.kind));
    item.set("turn", r.turn);
    item.set("offset", static_cast<int64_t>(r.offset));
    item.set("before", r.before);
    item.set("after", r.after);
    rewrites.push_back(std::move(item));
  }
  for (const std::string& refusal : lint.refused) refused.emplace_back(refusal);
  Json out;
  out.set("appends_only", lint.appends_only());
  out.set("n_compared", lint.n_compared);
  out.set("rewrites", std::move(rewrites));
  out.set("refused", std::move(refused));
  return out;
}

}  // namespace quire
