#include "text/chat_prompt.h"

#include <utility>

#include "text/template_variables.h"

namespace quire {

Json special_tokens(const Tokenizer& tokenizer) {
  const TokenizerSpec& spec = tokenizer.spec();
  Json out(Json::Object{});
  for (const auto& [name, id] : {std::pair{"bos_token", spec.bos}, std::pair{"eos_token", spec.eos},
                                 std::pair{"unk_token", spec.unk}, std::pair{"pad_token", spec.pad}}) {
    if (id < 0) continue;
    std::string text;
    tokenizer.append_bytes(id, true, text);
    out.set(name, std::move(text));
  }
  return out;
}

// Ranges of the client's do not touch: one that the text ends with is drawn longer.
static void append_begun(const Begun& begun, Rendered& rendered) {
  rendered.text += begun.lead;
  if (begun.text.empty()) return;
  const size_t from = rendered.text.size();
  rendered.text += begun.text;
  if (!rendered.user_ranges.empty() && rendered.user_ranges.back().end == from)
    rendered.user_ranges.back().end = rendered.text.size();
  else
    rendered.user_ranges.push_back({from, rendered.text.size()});
}

Result<ChatPrompt> chat_prompt(const ChatTemplate& chat,
                               const Tokenizer& tokenizer,
                               TemplateInput input,
                               UserText user_text,
                               const std::function<Begun(std::string_view)>& begin) {
  input.special_tokens = special_tokens(tokenizer);
  QR_TRY_VOID(add_template_variables(input));
  QR_TRY(Rendered rendered, chat.render_marked(input));
  if (begin) append_begun(begin(rendered.text), rendered);
  std::vector<Token> tokens;
  EncodeOptions options{.parse_special = true};
  if (user_text == UserText::plain) options.plain = rendered.user_ranges;
  QR_TRY_VOID(tokenizer.encode(rendered.text, options, tokens));
  const TokenizerSpec& spec = tokenizer.spec();
  if (spec.add_bos && spec.bos >= 0 && (tokens.empty() || tokens[0] != spec.bos)) {
    tokens.insert(tokens.begin(), spec.bos);
  }
  return ChatPrompt{std::move(rendered.text), std::move(tokens)};
}

Result<ChatPrompt> question_prompt(const ChatTemplate& chat,
                                   const Tokenizer& tokenizer,
                                   const std::string& text,
                                   std::string now) {
  TemplateInput input;
  input.messages = Json::Array{Json::Object{{"role", "user"}, {"content", text}}};
  input.add_generation_prompt = true;
  input.now = std::move(now);
  return chat_prompt(chat, tokenizer, std::move(input), UserText::plain);
}

}  // namespace quire
