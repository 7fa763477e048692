// Hears an answer: its tokens, how many of them had been guessed, and what went wrong.
#pragma once
#include <string>
#include <vector>

#include "engine/engine.h"

namespace quire {

class AnswerSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    tokens.push_back(event.id);
    n_accepted += event.accepted ? 1 : 0;
  }
  void on_finish(SeqId, Finish, const Usage&, const std::string& message) override { error = message; }
  std::vector<Token> tokens;
  std::string error;
  int n_accepted = 0;
};

}  // namespace quire
