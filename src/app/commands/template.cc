// quire template: renders conversations with a chat template, or tells whether it only appends from turn to turn.
#include <cstdio>
#include <ctime>
#include <iostream>

#include "app/text_file.h"
#include "app/wire.h"
#include "text/chat_prompt.h"
#include "text/parse/tool_format.h"
#include "text/template_jsonl.h"
#include "text/template_lint.h"

namespace quire {
namespace {

struct Args {
  std::string model, file;
  bool jsonl = false, lint = false, json = false;
};

struct Loaded {
  ChatTemplate chat;
  Json special_tokens;

  // What a request need not say. Arguments of calls are shown as this template takes them.
  TemplateInput defaults() const {
    TemplateInput out;
    out.special_tokens = special_tokens;
    out.arguments = find_tool_format(chat, special_tokens).arguments;
    out.now = local_time_text(std::time(nullptr));
    return out;
  }
};

constexpr int64_t kMostSource = 1 << 20, kMostRequest = 64 << 20;  // bytes

// --file names the source; else the model's own template, with its special tokens.
Result<Loaded> load_template(const Args& args) {
  std::string source;
  Json tokens = Json::Object{};
  if (!args.model.empty()) {
    QR_TRY(const std::unique_ptr<Tokenizer> tokenizer, load_tokenizer_of(args.model));
    source = tokenizer->spec().chat_template;
    tokens = special_tokens(*tokenizer);
  }
  if (!args.file.empty()) {
    QR_TRY(source, read_text_file("--file", args.file, kMostSource));
  }
  if (source.empty()) return fail(Code::not_found, "no template: name a model that has one, or --file");
  QR_TRY(ChatTemplate chat, ChatTemplate::parse(source));
  return Loaded{std::move(chat), std::move(tokens)};
}

Status render_lines(const Loaded& loaded) {
  const TemplateInput defaults = loaded.defaults();
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << render_template_line(loaded.chat, line, defaults) << '\n';
  }
  return {};
}

// The whole of stdin is one request; prints the text itself.
Status render_one(const Loaded& loaded) {
  QR_TRY(const std::string line, read_stdin(kMostRequest));
  QR_TRY(const Json request, Json::parse(line));
  QR_TRY(const TemplateInput input, template_input(request, loaded.defaults()));
  QR_TRY(const std::string text, loaded.chat.render(input));
  std::cout << text;
  return {};
}

Result<bool> run(const Args& args) {
  QR_TRY(const Loaded loaded, load_template(args));
  if (args.lint) {
    const TemplateLint lint = lint_template(loaded.chat, loaded.special_tokens);
    std::cout << (args.json ? lint_json(lint).dump() + "\n" : lint_text(lint));
    return lint.appends_only();
  }
  QR_TRY_VOID(args.jsonl ? render_lines(loaded) : render_one(loaded));
  return true;
}

QR_REGISTER(Command,
            "template",
            Command{"render a chat template, or lint it", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("MODEL", args->model, false, "a model, for its template and special tokens");
                      line.option("--file", args->file, "the template's Jinja source, instead of the model's");
                      line.flag("--jsonl", args->jsonl,
                                "one request per line on stdin, one {\"text\"} or {\"error\"} per line");
                      line.flag("--lint", args->lint, "does it only append from turn to turn? Exit code 1 when not");
                      line.flag("--json", args->json, "the lint's answer as one JSON object");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
