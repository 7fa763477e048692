#include "io/tokenizer_meta.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr uint64_t kMaxTokens = uint64_t{1} << 24;

struct Defaults {
  std::string_view model;
  Token bos = -1, eos = -1, unk = -1, sep = -1, pad = -1, cls = -1, mask = -1;
  bool add_bos = false, add_eos = false, add_space_prefix = false;
};

constexpr Defaults kDefaults[] = {
    {.model = "llama", .bos = 1, .eos = 2, .unk = 0, .add_bos = true, .add_space_prefix = true},
    {.model = "bert", .bos = 101, .unk = 100, .sep = 102, .pad = 0, .cls = 101, .mask = 103, .add_bos = true},
    {.model = "t5", .eos = 1, .unk = 2, .pad = 0, .add_eos = true},
};

// In order of preference.
constexpr std::string_view kEndOfTurn[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<end_of_utterance>",
                                           "<EOT>",      "_<EOT>",     "[EOT]",   "<|call|>"};

Defaults defaults_of(const TokenizerSpec& spec) {
  for (const Defaults& d : kDefaults) {
    if (d.model == spec.model) return d;
  }
  return {.model = spec.model};
}

// Takes the array out of `meta`; nothing when the key is absent.
template <class T>
Result<std::optional<std::vector<T>>> take_array(Metadata& meta, std::string_view key, const char* wanted) {
  const auto it = meta.values.find(key);
  if (it == meta.values.end()) return std::nullopt;
  auto* values = std::get_if<std::vector<T>>(&it->second);
  if (values == nullptr) return fail(Code::corrupt, "key " + in_quotes(key) + ": must be an array of " + wanted);
  std::optional<std::vector<T>> out(std::move(*values));
  meta.values.erase(it);
  return out;
}

tl::unexpected<Error> wrong_length(std::string_view key, size_t found, size_t wanted) {
  return fail(Code::corrupt, "key " + in_quotes(key) + ": has " + std::to_string(found) + " elements, there are " +
                                 std::to_string(wanted) + " tokens");
}

Status read_tokens(Metadata& meta, TokenizerSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  QR_TRY(auto tokens, take_array<std::string>(meta, kKey, "strings"));
  if (!tokens) return fail(Code::not_found, "key " + in_quotes(kKey) + ": is missing");
  if (tokens->empty() || tokens->size() > kMaxTokens) {
    return fail(Code::corrupt, "key " + in_quotes(kKey) + ": must have 1 to " + std::to_string(kMaxTokens) +
                                   " tokens, has " + std::to_string(tokens->size()));
  }
  spec.tokens = std::move(*tokens);
  return {};
}

Status read_scores(Metadata& meta, TokenizerSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  const auto it = meta.values.find(kKey);
  if (it != meta.values.end()) {  // some files score with whole numbers
    if (const auto* whole = std::get_if<std::vector<int64_t>>(&it->second)) {
      it->second = std::vector<double>(whole->begin(), whole->end());
    }
  }
  QR_TRY(const auto scores, take_array<double>(meta, kKey, "numbers"));
  if (!scores) return {};
  if (scores->size() != spec.tokens.size()) return wrong_length(kKey, scores->size(), spec.tokens.size());
  spec.scores.reserve(scores->size());
  for (const double score : *scores) {
    if (std::isnan(score)) {
      return fail(Code::corrupt,
                  "key " + in_quotes(kKey) + ": the score of token " + std::to_string(spec.scores.size()) + " is NaN");
    }
    spec.scores.push_back(static_cast<float>(score));
  }
  return {};
}

Status read_types(Metadata& meta, TokenizerSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  QR_TRY(const auto types, take_array<int64_t>(meta, kKey, "integers"));
  if (!types) return {};
  if (types->size() != spec.tokens.size()) return wrong_length(kKey, types->size(), spec.tokens.size());
  spec.types.reserve(types->size());
  for (const int64_t type : *types) {
    if (type < 0 || type > int64_t{static_cast<uint8_t>(TokenType::byte)}) {
      return fail(Code::corrupt, "key " + in_quotes(kKey) + ": token " + std::to_string(spec.types.size()) +
                                     " has type " + std::to_string(type) + ", must be in [0, 6]");
    }
    spec.types.push_back(type == 0 ? TokenType::unused : static_cast<TokenType>(type));  // 0: "undefined" in old files
  }
  return {};
}

Status read_merges(Metadata& meta, TokenizerSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  QR_TRY(auto merges, take_array<std::string>(meta, kKey, "strings"));
  if (!merges) return {};
  spec.merges = std::move(*merges);
  for (const std::string& merge : spec.merges) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos || space + 1 == merge.size()) {
      return fail(Code::corrupt, "key " + in_quotes(kKey) + ": merge " + std::to_string(&merge - spec.merges.data()) +
                                     " " + in_quotes(merge) + " is not two pieces with a space between");
    }
  }
  return {};
}

Status read_charsmap(Metadata& meta, TokenizerSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
  QR_TRY(const auto bytes, take_array<int64_t>(meta, kKey, "bytes"));
  if (!bytes) return {};
  spec.precompiled_charsmap.reserve(bytes->size());
  for (const int64_t byte : *bytes) {
    if (byte < -128 || byte > 255)
      return fail(Code::corrupt, "key " + in_quotes(kKey) + ": " + std::to_string(byte) + " is no byte");
    spec.precompiled_charsmap += static_cast<char>(byte);
  }
  return {};
}

// The id a key names, -1 where the file says none (−1, also as 2³² − 1), the default where the key is absent.
Result<Token> read_id(const Metadata& meta, const std::string& name, const TokenizerSpec& spec, Token fallback) {
  const std::string key = "tokenizer.ggml." + name + "_token_id";
  const auto n_tokens = static_cast<int64_t>(spec.tokens.size());
  if (meta.find(key) == nullptr) return fallback < n_tokens ? fallback : Token{-1};
  QR_TRY(const int64_t id, meta.get_int(key, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  if (id == -1 || id == int64_t{std::numeric_limits<uint32_t>::max()}) return Token{-1};
  if (id >= 0 && id < n_tokens) return static_cast<Token>(id);
  return fail(Code::corrupt, "key " + in_quotes(key) + ": token " + std::to_string(id) + " is not among the " +
                                 std::to_string(n_tokens) + " tokens");
}

Token find_token(const TokenizerSpec& spec, std::string_view text) {
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  return it == spec.tokens.end() ? Token{-1} : static_cast<Token>(it - spec.tokens.begin());
}

Token find_end_of_turn(const TokenizerSpec& spec) {
  const bool harmony = find_token(spec, "<|return|>") >= 0;
  for (const std::string_view text : kEndOfTurn) {
    if (text == "<|end|>" && harmony) continue;    // ends a message, not the turn
    if (text == "<|call|>" && !harmony) continue;  // there it is a call that the client is to make
    if (const Token id = find_token(spec, text); id >= 0) return id;
  }
  return -1;
}

Status read_ids(const Metadata& meta, const Defaults& defaults, TokenizerSpec& spec) {
  QR_TRY(spec.bos, read_id(meta, "bos", spec, defaults.bos));
  QR_TRY(spec.eos, read_id(meta, "eos", spec, defaults.eos));
  QR_TRY(spec.unk, read_id(meta, "unknown", spec, defaults.unk));
  QR_TRY(spec.sep, read_id(meta, "separator", spec, defaults.sep));
  QR_TRY(spec.sep, read_id(meta, "seperator", spec, spec.sep));  // GGUF's own spelling
  QR_TRY(spec.pad, read_id(meta, "padding", spec, defaults.pad));
  QR_TRY(spec.cls, read_id(meta, "cls", spec, defaults.cls));
  QR_TRY(spec.mask, read_id(meta, "mask", spec, defaults.mask));
  QR_TRY(spec.eot, read_id(meta, "eot", spec, find_end_of_turn(spec)));
  return {};
}

}  // namespace

Result<TokenizerSpec> read_tokenizer(Metadata& meta) {
  TokenizerSpec spec;
  QR_TRY(spec.model, meta.get_string("tokenizer.ggml.model"));
  QR_TRY(spec.pre, meta.get_string_or("tokenizer.ggml.pre", ""));
  QR_TRY_VOID(read_tokens(meta, spec));
  QR_TRY_VOID(read_scores(meta, spec));
  QR_TRY_VOID(read_types(meta, spec));
  QR_TRY_VOID(read_merges(meta, spec));
  QR_TRY_VOID(read_charsmap(meta, spec));
  if (spec.model == "gemma4") {  // its files name the pre-tokenizer so
    spec.model = "gpt2";
    spec.pre = "gemma4";
  }
  const Defaults defaults = defaults_of(spec);
  QR_TRY_VOID(read_ids(meta, defaults, spec));
  constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
  QR_TRY(spec.add_bos, meta.get_bool_or(kAddBos, defaults.add_bos));
  spec.bos_by_name = spec.model == "gpt2" && meta.find(kAddBos) == nullptr;
  QR_TRY(spec.add_eos, meta.get_bool_or("tokenizer.ggml.add_eos_token", defaults.add_eos));
  QR_TRY(spec.add_space_prefix, meta.get_bool_or("tokenizer.ggml.add_space_prefix", defaults.add_space_prefix));
  QR_TRY(spec.remove_extra_whitespaces, meta.get_bool_or("tokenizer.ggml.remove_extra_whitespaces", false));
  QR_TRY(spec.chat_template, meta.get_string_or("tokenizer.chat_template", ""));
  return spec;
}

}  // namespace quire
