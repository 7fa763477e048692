// From a conversation to a prompt: template and tokenizer together, the one way for every caller.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

// "bos_token", "eos_token", "unk_token", "pad_token" with their texts, those that the vocabulary has.
Json special_tokens(const Tokenizer& tokenizer);

// What becomes of a control token's text where the user wrote it.
enum class UserText : uint8_t { plain, parsed };

struct ChatPrompt {
  std::string text;  // as the template wrote it
  std::vector<Token> tokens;
};

// What stands behind the template's own text: an answer that its client has begun.
struct Begun {
  std::string lead;  // trusted, as the template's text
  std::string text;  // the client's
};

// Renders `input`, with the tokenizer's special tokens, and turns it into ids: control tokens where the template wrote
// them, plain text where the user did unless that is to be parsed; BOS in front where the tokenizer wants one and the
// template has not written it. Where `input.now` is given, the variables date_string ("26 Jul 2026") and datetime
// ("Jul 26 2026") are its day, unless `input.extra` has them. `begin`, where it is set, is shown the rendered text and
// says what comes behind it. Errors are the template's. Any thread.
Result<ChatPrompt> chat_prompt(const ChatTemplate& chat,
                               const Tokenizer& tokenizer,
                               TemplateInput input,
                               UserText user_text,
                               const std::function<Begun(std::string_view)>& begin = {});

// `text` as a user's only message, with the beginning of an answer. `now`: what templates that write a date take
// (TemplateInput).
Result<ChatPrompt> question_prompt(const ChatTemplate& chat,
                                   const Tokenizer& tokenizer,
                                   const std::string& text,
                                   std::string now = "");

}  // namespace quire
