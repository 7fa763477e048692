#include "serve/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "serve/prompt_tokens.h"
#include "text/detok.h"

namespace quire {
namespace {

constexpr size_t kAllTop = std::numeric_limits<size_t>::max();
constexpr double kLowestLogprob = -9999.0;  // what OpenAI shows for "impossible"; JSON has no infinity

void append_entry(std::string& out, Token id, float logprob, const Tokenizer& tokenizer) {
  out += "{\"token\":";
  append_json_string(out, token_name(tokenizer, id));
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":";
  append_token_bytes(out, id, tokenizer);
}

// The largest n_top of those that are there.
std::span<const TopLogprob> first_of(const std::vector<TopLogprob>& top, size_t n_top) {
  return std::span(top).first(std::min(top.size(), n_top));
}

void append_top_map(std::string& out, const TokenText& token, size_t n_top, const Tokenizer& tokenizer) {
  if (std::isnan(token.logprob)) {
    out += "null";
    return;
  }
  std::vector<std::string> names;
  out += '{';
  const auto add = [&](Token id, float logprob) {
    std::string name = token_name(tokenizer, id);
    if (std::find(names.begin(), names.end(), name) != names.end()) return;  // a byte token beside its character
    if (!names.empty()) out += ',';
    append_json_string(out, name);
    out += ':';
    append_logprob(out, logprob);
    names.push_back(std::move(name));
  };
  add(token.id, token.logprob);
  for (const TopLogprob& top : first_of(token.top, n_top)) add(top.id, top.logprob);
  out += '}';
}

void append_listed(std::string& out, const TokenText& token, size_t n_top, const Tokenizer& tokenizer) {
  append_entry(out, token.id, token.logprob, tokenizer);
  out += ",\"top_logprobs\":[";
  const auto tops = first_of(token.top, n_top);
  for (size_t k = 0; k < tops.size(); ++k) {
    if (k > 0) out += ',';
    append_entry(out, tops[k].id, tops[k].logprob, tokenizer);
    out += '}';
  }
  out += "]}";
}

// Of a prompt: itself and the largest.
void append_scored(std::string& out, const TokenText& token, size_t n_top, const Tokenizer& tokenizer) {
  if (std::isnan(token.logprob)) {
    out += "null";
    return;
  }
  const auto add = [&](Token id, float logprob) {
    out += '"' + std::to_string(id) + "\":{\"logprob\":";
    append_logprob(out, logprob);
    out += ",\"decoded_token\":";
    append_json_string(out, token_name(tokenizer, id));
    out += '}';
  };
  out += '{';
  add(token.id, token.logprob);
  for (const TopLogprob& top : first_of(token.top, n_top)) {
    if (top.id == token.id) continue;
    out += ',';
    add(top.id, top.logprob);
  }
  out += '}';
}

// The four lists of completions, by what each says of a token.
using AppendToken = void (*)(std::string& out, const TokenText& token, size_t n_top, const Tokenizer& tokenizer);
struct TokenColumn {
  std::string_view name;
  AppendToken append;
};
constexpr TokenColumn kColumns[] = {
    {"{\"tokens\":[",
     [](std::string& out, const TokenText& t, size_t, const Tokenizer& tokenizer) {
       append_json_string(out, token_name(tokenizer, t.id));
     }},
    {"],\"token_logprobs\":[",
     [](std::string& out, const TokenText& t, size_t, const Tokenizer&) { append_logprob(out, t.logprob); }},
    {"],\"top_logprobs\":[", &append_top_map},
    {"],\"text_offset\":[",
     [](std::string& out, const TokenText& t, size_t, const Tokenizer&) { out += std::to_string(t.text_at); }},
};

void append_place(std::string& out, const TokenText& token) {
  out += "{\"text_offset\":" + std::to_string(token.text_at) + ",\"length\":" + std::to_string(token.n_points) + "}";
}

void add_told(Pieces& out, const ToldTokens& told, AppendToken append, const Tokenizer& tokenizer) {
  const size_t n_prompt = told.prompt != nullptr ? told.prompt->size() : 0;
  out.add_list(n_prompt + told.choice->whole.tokens.size(),
               [told, n_prompt, append, &tokenizer](size_t i, std::string& text) {
                 if (i < n_prompt)
                   append(text, told.prompt->tokens()[i], static_cast<size_t>(told.n_prompt_top), tokenizer);
                 else
                   append(text, told.choice->whole.tokens[i - n_prompt], kAllTop, tokenizer);
               });
}

}  // namespace

void append_ids(std::string& out, std::span<const Token> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(ids[i]);
  }
}

void append_token_bytes(std::string& out, Token id, const Tokenizer& tokenizer) {
  std::string bytes;
  if (id < tokenizer.n_vocab()) tokenizer.append_bytes(id, true, bytes);
  out += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

// Adding 0 turns the -0 of a certain token into 0.
void append_logprob(std::string& out, float v) {
  if (std::isnan(v)) {
    out += "null";
  } else {
    append_json_number(out, std::max<double>(v, kLowestLogprob) + 0.0);
  }
}

std::string token_name(const Tokenizer& tokenizer, Token id) {
  if (id >= tokenizer.n_vocab()) return "token:" + std::to_string(id);
  std::string bytes;
  tokenizer.append_bytes(id, true, bytes);
  if (to_valid_utf8(bytes) == bytes) return bytes;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "bytes:";
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    out += {'\\', 'x', kHex[b >> 4], kHex[b & 15]};
  }
  return out;
}

void append_logprob_list(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer) {
  out += '[';
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_listed(out, tokens[i], kAllTop, tokenizer);
  }
  out += ']';
}

void append_chat_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer) {
  out += "{\"content\":";
  append_logprob_list(out, tokens, tokenizer);
  out += ",\"refusal\":null}";
}

void append_completion_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer) {
  for (const TokenColumn& column : kColumns) {
    out += column.name;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) out += ',';
      column.append(out, tokens[i], kAllTop, tokenizer);
    }
  }
  out += "]}";
}

void append_accepted(std::string& out, const Delta& delta) {
  out += "\"accepted\":[";
  bool first = true;
  for (const TokenText& token : delta.tokens) {
    if (!token.accepted) continue;
    if (!std::exchange(first, false)) out += ',';
    append_place(out, token);
  }
  out += "],\"text_length\":" + std::to_string(delta.n_points);
}

void add_logprob_list(Pieces& out, std::shared_ptr<const ChoiceResult> choice, const Tokenizer& tokenizer) {
  add_told(out, {nullptr, 0, std::move(choice)}, &append_listed, tokenizer);
}

void add_chat_logprobs(Pieces& out, std::shared_ptr<const ChoiceResult> choice, const Tokenizer& tokenizer) {
  out.add("{\"content\":[");
  add_logprob_list(out, std::move(choice), tokenizer);
  out.add("],\"refusal\":null}");
}

void add_completion_logprobs(Pieces& out, const ToldTokens& told, const Tokenizer& tokenizer) {
  for (const TokenColumn& column : kColumns) {
    out.add(column.name);
    add_told(out, told, column.append, tokenizer);
  }
  out.add("]}");
}

void add_accepted(Pieces& out, std::shared_ptr<const ChoiceResult> choice) {
  std::vector<size_t> which;
  const auto& tokens = choice->whole.tokens;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].accepted) which.push_back(i);
  const std::string end = "],\"text_length\":" + std::to_string(choice->whole.n_points);
  const size_t n = which.size();
  out.add("\"accepted\":[").add_list(n, [which = std::move(which), choice](size_t i, std::string& text) {
    append_place(text, choice->whole.tokens[which[i]]);
  });
  out.add(end);
}

void add_prompt_logprobs(Pieces& out, std::shared_ptr<PromptTokens> prompt, int n_top, const Tokenizer& tokenizer) {
  out.add("[");
  const size_t n = prompt->size();
  out.add_list(n, [prompt = std::move(prompt), n_top, &tokenizer](size_t i, std::string& text) {
    append_scored(text, prompt->tokens()[i], static_cast<size_t>(n_top), tokenizer);
  });
  out.add("]");
}

}  // namespace quire
