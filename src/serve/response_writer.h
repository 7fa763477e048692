// The answer of /v1/responses, whole or as events: a list of items in the order of the answer's parts, reasoning,
// messages and calls, each with its text. Io thread.
#pragma once
#include <string>
#include <vector>

#include "serve/api.h"
#include "serve/response_store.h"

namespace quire {

struct KeepResponse {  // null store: the answer is not kept
  ResponseStore* store = nullptr;
  Asker asker{};
  Json::Array input, conversation;
};

struct ResponseForm {
  AnswerName name;
  Json::Object echo;     // what of the request the answer repeats
  bool timings = false;  // stand in the events of its text and in the last one, as llama.cpp's server has it
  std::vector<std::string> customs;  // Tools::custom_names
};

std::unique_ptr<ReplyWriter> make_response_writer(const ServeEnv& env, ResponseForm form, KeepResponse keep);

}  // namespace quire
