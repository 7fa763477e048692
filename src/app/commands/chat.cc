// quire chat: a conversation in the terminal, with a model in this process or with any server that speaks OpenAI's API.
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
  std::string url, api_key, remote_model;
};

Status run(const Args& args) {
  QR_TRY_VOID(check(args.talk));
  if (args.url.empty()) {
    EngineOptions engine = args.engine;
    engine.max_seqs = 1;
    QR_TRY(const std::unique_ptr<LocalServer> server, LocalServer::start(args.model, engine));
    return Conversation(args.talk, server->remote(), server->model()).run();
  }
  QR_TRY(Remote remote, parse_remote(args.url));
  remote.api_key = args.api_key;
  std::string model = args.remote_model;
  if (model.empty()) {
    HttpClient client = connect_to(remote, 30'000);
    QR_TRY(model, first_model(client, remote));
  }
  return Conversation(args.talk, std::move(remote), std::move(model)).run();
}

QR_REGISTER(Command,
            "chat",
            Command{"talk with a model in the terminal", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      declare_model_options(line, args->model);
                      declare_shift_option(line, args->model);
                      line.option("--url", args->url, "talk to this server instead of a MODEL in this process");
                      line.option("--api-key", args->api_key, "of that server");
                      line.option("--model-name", args->remote_model, "what to ask it for; empty: its first model");
                      line.option(
                          "--ctx", args->engine.n_ctx, {2, kMostContext, 0},
                          "the longest conversation in tokens, 0 for what the model was trained for or what fits");
                      declare_conversation_options(line, args->talk);
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
