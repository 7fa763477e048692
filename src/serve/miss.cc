#include "serve/miss.h"

#include <algorithm>
#include <cstdio>
#include <span>

#include "text/parse/answer_parts.h"

namespace quire {
namespace {

std::string text_of(std::span<const Token> tokens, const Tokenizer& tokenizer) {
  std::string out;
  for (const Token id : tokens) tokenizer.append_bytes(id, true, out);
  return out;
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
  return text;
}

// Whether both texts are the same but for white space, as far as both go, and that is further than the tokens that
// differ.
bool same_text(const Explanation& found, const Tokenizer& tokenizer) {
  const std::string asked = without_spaces(text_of(found.asked, tokenizer));
  const std::string stored = without_spaces(text_of(found.stored, tokenizer));
  const size_t n = std::min(asked.size(), stored.size());
  const auto first = [&](const std::vector<Token>& tokens) {
    return without_spaces(text_of(std::span(tokens).first(1), tokenizer)).size();
  };
  if (n == 0 || n < std::max(first(found.asked), first(found.stored))) return false;
  return asked.compare(0, n, stored, 0, n) == 0;
}

bool begins_to_think(std::span<const Token> tokens, const MissContext& context) {
  if (context.reasoning == ReasoningForm::Kind::none) return false;
  ReasoningSplitter splitter(context.reasoning, false);
  AnswerParts parts;
  splitter.push(text_of(tokens, *context.tokenizer), parts);
  return splitter.thinking() || (!parts.empty() && parts.begin()->kind == PartKind::reasoning);
}

Miss name_difference(const Explanation& found, const MissContext& context) {
  for (const EarlierTurn& turn : context.chat.turns) {
    if (turn.n_same != found.parts_at || turn.then.front() != found.stored.front()) continue;
    return {"template", "The chat template writes this place otherwise than it did for the answer that is messages[" +
                            std::to_string(turn.message) + "] now."};
  }
  if (same_text(found, *context.tokenizer))
    return {"whitespace_or_merge",
            "The text is the same up to white space, or the same text was made of other tokens."};
  if (begins_to_think(found.stored, context) && !begins_to_think(found.asked, context))
    return {"template", "An earlier answer began with reasoning, which is not in the prompt any more."};
  return {"differs", "The prompt goes on with other text than what is stored."};
}

Miss name_other(const OtherRoot& other, int n_tokens) {
  const std::string what = std::to_string(n_tokens) + " tokens of the prompt are cached ";
  if (other.is_adapter) {
    return {"adapter", what + (other.adapter.empty() ? "for the model without an adapter."
                                                     : "for the adapter '" + other.adapter + "'.")};
  }
  return {"salt", what + (other.unsalted ? "without a cache_salt." : "under another cache_salt of this client.")};
}

Miss name_eviction(const Explanation& found) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", static_cast<double>(found.evicted_ago_ns) * 1e-9);
  return {"evicted", std::string("What comes next was cached and had to make room ") + seconds + " s ago, for " +
                         (found.made_way_for_own ? "a request of this client." : "another client's request.")};
}

}  // namespace

Miss name_miss(const Explanation& found, const MissContext& context) {
  const std::string block = std::to_string(found.block_tokens);
  switch (found.cause) {
    case MissCause::whole:
      return {"whole", "All whole blocks of " + block + " tokens before the last token are cached."};
    case MissCause::below_block:
      return {"below_block", "Whole blocks of " + block + " tokens before the last token are cached; there is none."};
    case MissCause::evicted: return name_eviction(found);
    case MissCause::partly_kept:
      return {"partly_kept",
              "What comes next is known, but not all that layers with a window or a state need there was kept."};
    case MissCause::other_root: return name_other(context.others[static_cast<size_t>(found.other)], found.n_other);
    case MissCause::differs: return name_difference(found, context);
    case MissCause::never_stored: break;
  }
  return {"never_stored", "Nothing that this client has stored goes on there."};
}

Json first_difference(const Explanation& found, const MissContext& context) {
  if (found.parts_at < 0) return {};
  const Tokenizer& tokenizer = *context.tokenizer;
  const MessageEnd* message = message_at(context.chat.ends, found.parts_at);
  const auto head = [&](const std::vector<Token>& tokens) {
    return text_of(std::span(tokens).first(std::min(tokens.size(), size_t{kToldTokens})), tokenizer);
  };
  return Json::Object{{"token", found.parts_at},
                      {"message", message != nullptr ? Json(message->message) : Json()},
                      {"role", message != nullptr ? Json(message->role) : Json()},
                      {"before", text_of(found.before, tokenizer)},
                      {"prompt", head(found.asked)},
                      {"stored", head(found.stored)},
                      {"prompt_token_id", static_cast<int64_t>(found.asked.front())},
                      {"stored_token_id", static_cast<int64_t>(found.stored.front())}};
}

}  // namespace quire
