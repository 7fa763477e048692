// quire run: a model fetched if need be, and one question answered or a conversation begun.
#include "app/context_shift.h"
#include "app/conversation.h"
#include "app/local_server.h"
#include "engine/option_ranges.h"

namespace quire {
namespace {

struct Args {
  ModelOptions model;
  EngineOptions engine;
  ConversationOptions talk;
  std::vector<std::string> adapters;
  std::string prompt;
};

Status run(Args& args) {
  QR_TRY_VOID(check(args.talk));
  QR_TRY_VOID(check_one_adapter(args.adapters));
  args.engine.max_seqs = 1;
  QR_TRY(const std::unique_ptr<LocalServer> server, LocalServer::start(args.model, args.engine, args.adapters));
  if (!args.prompt.empty()) args.talk.history = "none";
  const std::string adapter = name_of_adapter(args.adapters);
  Conversation conversation(args.talk, server->remote(), adapter.empty() ? server->model() : adapter);
  return args.prompt.empty() ? conversation.run() : conversation.ask_once(args.prompt);
}

QR_REGISTER(Command,
            "run",
            Command{
                "fetch a model if need be, and answer a prompt or talk", false,
                [](CommandLine& line) -> std::function<int()> {
                  auto args = std::make_shared<Args>();
                  declare_model_options(line, args->model);
                  declare_shift_option(line, args->model);
                  line.positional("PROMPT", args->prompt, false, "one question; none: a conversation in the terminal");
                  line.option("--ctx", args->engine.n_ctx, {2, kMostContext, 0},
                              "the longest conversation in tokens, 0 for what the model was trained for or what fits");
                  declare_one_lora_option(line, args->adapters);
                  declare_conversation_options(line, args->talk);
                  return [args] { return exit_code(run(*args)); };
                }});

}  // namespace
}  // namespace quire
