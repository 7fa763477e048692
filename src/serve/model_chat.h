// The chat template that a model is talked with.
#pragma once
#include <string>

#include "base/result.h"
#include "text/chat_template.h"

namespace quire {

struct ModelChat {
  ChatTemplate chat;
  std::string source;
  bool plain;  // plain_template()
};
// By the model's own template `source`; by the plain one where that is empty, or cannot be parsed, which the log says.
Result<ModelChat> model_chat(const std::string& source);

}  // namespace quire
