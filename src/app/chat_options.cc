#include "app/chat_options.h"

#include "text/chat_template.h"

namespace quire {

void declare_chat_options(CommandLine& line, ChatChoice& choice, ServeOptions& serve) {
  line.option("--reasoning", choice.thinking,
              "whether a model that can think does so where a request does not say: on, off, or auto for what its chat "
              "template does");
  line.option("--reasoning-budget", choice.thinking_budget, {0, kMostInt, -1},
              "tokens of thinking at most where a request does not say, -1 for no bound");
  line.option("--chat-template-kwargs", choice.template_kwargs,
              "a JSON object of variables for the chat template; those of a request go before them");
  line.option("--pooling", choice.pooling,
              "how embeddings are made where a request does not say: last, mean, or none for a vector of each token");
  line.flag("--verbose", serve.chat_defaults.verbose,
            "answers of /v1/chat/completions show the prompt and the settings that were used, as __verbose");
  line.flag("--no-slots", choice.no_slots, "do not answer at /slots");
  line.flag("--no-metrics", choice.no_metrics, "do not answer at /metrics");
  line.flag("--no-ui", choice.no_ui, "do not serve the chat page");
}

Status apply(const ChatChoice& choice, ServeOptions& serve) {
  if (choice.thinking != "auto" && choice.thinking != "on" && choice.thinking != "off")
    return fail(Code::invalid, "--reasoning must be on, off or auto, got \"" + choice.thinking + "\"");
  if (choice.thinking != "auto") serve.chat_defaults.think = choice.thinking == "on";
  serve.chat_defaults.thinking_tokens = choice.thinking_budget;
  if (!choice.template_kwargs.empty()) {
    auto kwargs = Json::parse(choice.template_kwargs);
    if (!kwargs) return fail(Code::invalid, "--chat-template-kwargs: " + kwargs.error().message);
    if (kwargs->as_object() == nullptr) return fail(Code::invalid, "--chat-template-kwargs must be a JSON object");
    if (const Status ok = check_template_kwargs(*kwargs); !ok)
      return fail(Code::invalid, "--chat-template-kwargs: " + ok.error().message);
    serve.chat_defaults.kwargs = std::move(*kwargs);
  }
  if (choice.pooling != "last" && choice.pooling != "mean" && choice.pooling != "none")
    return fail(Code::invalid, "--pooling must be last, mean or none, got \"" + choice.pooling + "\"");
  serve.pooling = choice.pooling == "last" ? Pool::last : choice.pooling == "mean" ? Pool::mean : Pool::all;
  if (choice.no_slots) serve.off.emplace_back("slots");
  if (choice.no_metrics) serve.off.emplace_back("metrics");
  if (choice.no_ui) serve.off.emplace_back("ui");
  return {};
}

}  // namespace quire
