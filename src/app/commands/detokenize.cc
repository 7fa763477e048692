// quire detokenize: the text of token ids, or of one JSON array per line.
#include <iostream>

#include "app/json_lines.h"
#include "app/wire.h"

namespace quire {
namespace {

struct Args {
  std::string model;
  std::vector<int> tokens;
  bool jsonl = false;
};

Result<std::string> text_of(const Tokenizer& tokenizer, const Json& line) {
  const Json::Array* items = line.as_array();
  if (items == nullptr) return fail(Code::invalid, "the line is not a JSON array of token ids");
  std::vector<Token> ids;
  for (const Json& item : *items) {
    const int64_t* id = item.as_int();
    if (id == nullptr || *id < 0 || *id >= tokenizer.n_vocab()) {
      return fail(Code::invalid,
                  "token " + item.dump() + " is not an id in 0 … " + std::to_string(tokenizer.n_vocab() - 1));
    }
    ids.push_back(static_cast<Token>(*id));
  }
  return tokenizer.decode(ids, true);
}

Status detokenize(const Args& args) {
  QR_TRY(const std::unique_ptr<Tokenizer> tokenizer, load_tokenizer_of(args.model));
  if (!args.jsonl) {
    Json::Array ids;
    for (int id : args.tokens) ids.emplace_back(id);
    QR_TRY(const std::string text, text_of(*tokenizer, Json(std::move(ids))));
    std::cout << text << '\n';
    return {};
  }
  each_line([&](const Json& line) {
    const Result<std::string> text = text_of(*tokenizer, line);
    Json out;
    out.set(text ? "text" : "error", text ? *text : text.error().message);
    return out;
  });
  return {};
}

QR_REGISTER(Command,
            "detokenize",
            Command{"print the text of token ids", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("MODEL", args->model, false, "a model or anything that holds its tokenizer");
                      line.option("--tokens", args->tokens, kTokenIds, "token ids, separated by commas");
                      line.flag("--jsonl", args->jsonl, "read one JSON array per line, print {\"text\": …} lines");
                      return [args] { return exit_code(detokenize(*args)); };
                    }});

}  // namespace
}  // namespace quire
