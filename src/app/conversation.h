// A conversation in the terminal with a server that speaks OpenAI's API: `quire chat` and `quire run`. One thread;
// while it lives, Ctrl-C stops an answer or drops the line that is typed.
#pragma once
#include <memory>
#include <string>

#include "app/remote.h"
#include "app/sampling_options.h"
#include "base/result.h"

namespace quire {

struct ConversationOptions {
  std::string system;       // the system prompt; empty: none
  std::string history;      // file of the lines that were typed, or "none"; empty: among the state files
  SamplingChoice sampling;  // what is not given is left to the server
  int max_tokens = 0;       // of an answer, 0: until the context is full
  uint64_t seed = 0;        // 0: another each time
  bool no_stats = false;    // no line of figures after an answer
};
void declare_conversation_options(CommandLine& line, ConversationOptions& options);
Status check(const ConversationOptions& options);

class Conversation {
 public:
  Conversation(const ConversationOptions& options, Remote remote, std::string model);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // Lines of the terminal or of standard input, until its end. Fails when an answer failed and nobody is there to see.
  Status run();
  // One question; its answer is printed as it comes.
  Status ask_once(const std::string& question);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
