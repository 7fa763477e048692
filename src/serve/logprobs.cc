#include "serve/logprobs.h"

#include <algorithm>
#include <cmath>

#include "text/detok.h"

namespace quire {
namespace {

constexpr double kLowestLogprob = -9999.0;  // what OpenAI shows for "impossible"; JSON has no infinity

void append_bytes_array(std::string& out, std::string_view bytes) {
  out += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

void append_entry(std::string& out, Token id, float logprob, const Tokenizer& tokenizer) {
  std::string bytes;
  if (id < tokenizer.n_vocab()) tokenizer.append_bytes(id, true, bytes);
  out += "{\"token\":";
  append_json_string(out, token_name(tokenizer, id));
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":";
  append_bytes_array(out, bytes);
}

void append_top_map(std::string& out, const TokenText& token, const Tokenizer& tokenizer) {
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
  for (const TopLogprob& top : token.top) add(top.id, top.logprob);
  out += '}';
}

}  // namespace

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
    append_entry(out, tokens[i].id, tokens[i].logprob, tokenizer);
    out += ",\"top_logprobs\":[";
    for (size_t k = 0; k < tokens[i].top.size(); ++k) {
      if (k > 0) out += ',';
      append_entry(out, tokens[i].top[k].id, tokens[i].top[k].logprob, tokenizer);
      out += '}';
    }
    out += "]}";
  }
  out += ']';
}

void append_chat_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer) {
  out += "{\"content\":";
  append_logprob_list(out, tokens, tokenizer);
  out += ",\"refusal\":null}";
}

void append_completion_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer) {
  std::string names, logprobs, tops, offsets;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0)
      for (std::string* s : {&names, &logprobs, &tops, &offsets}) *s += ',';
    append_json_string(names, token_name(tokenizer, tokens[i].id));
    append_logprob(logprobs, tokens[i].logprob);
    append_top_map(tops, tokens[i], tokenizer);
    offsets += std::to_string(tokens[i].text_at);
  }
  out += "{\"tokens\":[" + names + "],\"token_logprobs\":[" + logprobs + "],\"top_logprobs\":[" + tops +
         "],\"text_offset\":[" + offsets + "]}";
}

void append_prompt_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer) {
  out += '[';
  for (const TokenText& token : tokens) {
    if (&token != tokens.data()) out += ',';
    if (std::isnan(token.logprob)) {
      out += "null";
      continue;
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
    for (const TopLogprob& top : token.top) {
      if (top.id == token.id) continue;
      out += ',';
      add(top.id, top.logprob);
    }
    out += '}';
  }
  out += ']';
}

}  // namespace quire
