// quire tokenize: the ids of a text, or of one JSON string per line.
#include <iostream>

#include "app/json_lines.h"
#include "app/wire.h"

namespace quire {
namespace {

struct Args {
  std::string model, text;
  bool jsonl = false;
  EncodeOptions encode;
};

Result<Json> ids_of(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  std::vector<Token> ids;
  QR_TRY_VOID(tokenizer.encode(text, options, ids));
  Json::Array out;
  for (Token id : ids) out.emplace_back(id);
  return Json(std::move(out));
}

Status tokenize(const Args& args) {
  QR_TRY(const std::unique_ptr<Tokenizer> tokenizer, load_tokenizer_of(args.model));
  if (!args.jsonl) {
    QR_TRY(const Json ids, ids_of(*tokenizer, args.text, args.encode));
    std::cout << ids.dump() << '\n';
    return {};
  }
  each_line([&](const Json& line) {
    Json out;
    if (line.as_string() == nullptr) {
      out.set("error", "the line is not a JSON string");
    } else {
      Result<Json> ids = ids_of(*tokenizer, *line.as_string(), args.encode);
      ids ? out.set("tokens", std::move(*ids)) : out.set("error", ids.error().message);
    }
    return out;
  });
  return {};
}

QR_REGISTER(Command,
            "tokenize",
            Command{"print the token ids of a text", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("MODEL", args->model, false, "a model or anything that holds its tokenizer");
                      line.option("--text", args->text, "the text");
                      line.flag("--jsonl", args->jsonl, "read one JSON string per line, print {\"tokens\": […]} lines");
                      line.flag("--add-special", args->encode.add_special, "add BOS/EOS as the model wants them");
                      line.flag("--parse-special", args->encode.parse_special, "let text name control tokens");
                      return [args] { return exit_code(tokenize(*args)); };
                    }});

}  // namespace
}  // namespace quire
