#include "serve/model_chat.h"

#include "base/log.h"
#include "serve/messages.h"

namespace quire {

Result<ModelChat> model_chat(const std::string& source) {
  if (!source.empty()) {
    auto own = ChatTemplate::parse(source);
    if (own) return ModelChat{std::move(*own), source, false};
    log_warn("the model's chat template cannot be used, a plain one is: " + own.error().message);
  }
  QR_TRY(ChatTemplate plain, ChatTemplate::parse(plain_template()));
  return ModelChat{std::move(plain), std::string(plain_template()), true};
}

}  // namespace quire
