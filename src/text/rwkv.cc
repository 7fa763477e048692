// RWKV's tokenizer from a spec ("rwkv"): at each place of the text the longest token that fits, whatever comes behind
// it. GGUF has tokens as Python writes bytes, with escapes.
#include <optional>

#include "text/pipeline.h"

namespace quire {

namespace {

class LongestMatch final : public SubwordModel {
 public:
  LongestMatch(ByteTrie tokens, Token unk) : tokens_(std::move(tokens)), unk_(unk) {}
  // A byte that no token begins with is the unknown token, or vanishes where there is none.
  void encode(std::string_view word, std::vector<Token>& out) const override {
    while (!word.empty()) {
      const ByteTrie::Match match = tokens_.longest(word);
      const Token id = match.len > 0 ? match.value : unk_;
      if (id >= 0) out.push_back(id);
      word.remove_prefix(std::max<size_t>(match.len, 1));
    }
  }

 private:
  ByteTrie tokens_;
  Token unk_;
};

// Some files have this name in place of a template: turns begin with who speaks and end with an empty line.
constexpr std::string_view kNamedTemplate = "rwkv-world";
constexpr std::string_view kTurns =
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content | trim }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The bytes that an escaped text stands for; nothing where an escape has no end.
std::optional<std::string> unescaped(std::string_view text) {
  constexpr std::string_view kNames = "tnr", kBytes = "\t\n\r";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    const size_t named = kNames.find(text[i]);
    if (named != std::string_view::npos) {
      out += kBytes[named];
    } else if (text[i] == 'x') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];  // the backslash and quotes
    }
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_longest_match(TokenizerSpec spec) {
  if (spec.chat_template == kNamedTemplate) spec.chat_template = kTurns;
  PipelineSpec parts;
  std::vector<AddedToken> added;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = spec.types.empty() ? TokenType::normal : spec.types[id];
    const std::string& text = spec.tokens[id];
    const bool special = type == TokenType::control || type == TokenType::unknown;
    const bool is_plain = type == TokenType::normal || type == TokenType::byte;
    parts.hidden.push_back(special);
    if ((special || type == TokenType::user_defined) && !text.empty()) {
      added.push_back({text, static_cast<Token>(id), special});
    }
    std::optional<std::string> bytes = is_plain ? unescaped(text) : text;
    if (!bytes) {
      return fail(Code::corrupt, "tokenizer: token " + std::to_string(id) + " \"" + text + "\" has a broken escape");
    }
    parts.token_bytes.push_back(std::move(*bytes));
  }
  std::vector<ByteTrie::Entry> entries;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = spec.types.empty() ? TokenType::normal : spec.types[id];
    if (type == TokenType::normal || type == TokenType::byte) {
      entries.emplace_back(parts.token_bytes[id], static_cast<int32_t>(id));
    }
  }
  parts.model = std::make_unique<LongestMatch>(ByteTrie(std::move(entries)), spec.unk);
  parts.added = AddedTokens(std::move(added));
  if (spec.add_bos && spec.bos >= 0) parts.prefix.push_back(spec.bos);
  if (spec.add_eos && spec.eos >= 0) parts.suffix.push_back(spec.eos);
  return std::make_unique<Pipeline>(std::move(spec), std::move(parts));
}

}  // namespace quire
