// What a dialect makes of a request (serve/api.h).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "http/message.h"
#include "serve/generation.h"
#include "serve/handover.h"
#include "serve/reply_writer.h"
#include "text/parse/call_parser.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

namespace quire {

class ResumableStream;

// An answer that needs no engine.
struct Answer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers{};  // beside the usual
};

// Work for the engine. Choice c of prompt p has index p · n + c.
struct Job {
  std::vector<std::vector<Token>> prompts;               // every id in range
  std::vector<std::shared_ptr<const std::string>> echo;  // empty, or what comes before each prompt's choices
  std::string prompt_field;                              // named when a prompt does not fit the context
  Generation generation;
  int n_echo_logprobs = -1;            // ≥ 0: the answer's tokens begin with the prompt's, with so many of the largest
  Pool pool = Pool::none;              // other: hidden states instead of an answer
  PinWish pin;                         // of its prompt, which is then one
  std::optional<ExplainWish> explain;  // of its prompt likewise, instead of an answer
  uint64_t tenant = 0;                 // whose turn it is in the engine
  bool want_ids = false;               // the writer is told the tokens, with or without logprobs
  int64_t told_bytes = 0;              // of the prompts' texts that each of their choices tells
  ReasoningForm::Kind reasoning = ReasoningForm::Kind::none;  // taken out of the text
  bool reasoning_open = false;                                // the prompts have begun it
  ReasoningForm::Kind thinks = ReasoningForm::Kind::none;     // taken out or not: what a grammar's answer comes behind
  bool thinks_open = false;                                   // likewise
  bool thinks_over = false;                                   // the prompts have ended it
  std::shared_ptr<const CallRules> calls;                     // likewise taken out; null: there are none
  // A grammar holds what is left of the answer, or what may come instead of calls.
  bool document = false;
  AnswerName name;
  Handover handover;
  bool stream = false;
  bool tells_progress = false;  // of a stream: the writer is told how far the prompt is
  bool include_cost = false;    // in the usage
  HttpHeaders headers;          // of the answer, beside the usual
  std::unique_ptr<ReplyWriter> writer;
};
// A resumable stream goes on behind event `after` on the connection that asks. From quick endpoints only.
struct TakeUp {
  std::shared_ptr<ResumableStream> stream;
  int64_t after = 0;
};
using Call = std::variant<Answer, Job, TakeUp>;

}  // namespace quire
