// The options of `quire serve` that say what a chat or an embedding gets whose request does not say, and which parts of
// the server answer at all.
#pragma once
#include <string>

#include "app/command.h"
#include "serve/run.h"

namespace quire {

struct ChatChoice {
  std::string thinking = "auto", template_kwargs, pooling = "last";
  int thinking_budget = -1;
  bool no_slots = false, no_metrics = false, no_ui = false;
};

// `choice` and `serve` stay where they are.
void declare_chat_options(CommandLine& line, ChatChoice& choice, ServeOptions& serve);
// What was given, into `serve`. Fails (Code::invalid) naming the option.
Status apply(const ChatChoice& choice, ServeOptions& serve);

}  // namespace quire
