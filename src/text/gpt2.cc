// BPE with listed merges from a spec ("gpt2"): a named pre-tokenizer, and a vocabulary in GPT-2's byte characters or,
// where the name says so, of characters.
#include "text/byte_bpe.h"
#include "text/byte_chars.h"
#include "text/char_bpe.h"
#include "text/pipeline.h"
#include "text/pretoken_names.h"
#include "text/spm_pieces.h"
#include "text/unicode_form.h"

namespace quire {

namespace {

TokenType type_of(const TokenizerSpec& spec, size_t id) {
  return spec.types.empty() ? TokenType::normal : spec.types[id];
}

bool is_added(TokenType type) {
  return type == TokenType::control || type == TokenType::unknown || type == TokenType::user_defined;
}

std::string in_quotes(std::string_view text) { return std::string(1, '"').append(text).append(1, '"'); }

// "left right" → two tokens and the one that they make. A merge of unknown tokens is refused, as the reference does.
Result<std::vector<MergeRule>> parse_merges(const TokenizerSpec& spec, const TokenIndex& names) {
  std::vector<MergeRule> rules;
  rules.reserve(spec.merges.size());
  std::string joined;
  for (const std::string& line : spec.merges) {
    const auto rank = static_cast<uint32_t>(rules.size());
    const size_t space = line.find(' ', 1);
    if (space == std::string::npos || space + 1 == line.size()) {
      return fail(Code::corrupt, "tokenizer: merge " + std::to_string(rank) + " " + in_quotes(line) + " is not a pair");
    }
    const std::string_view left = std::string_view(line).substr(0, space),
                           right = std::string_view(line).substr(space + 1);
    joined.assign(left).append(right);
    const MergeRule rule{names.find(left), names.find(right), {rank, names.find(joined)}};
    if (rule.left < 0 || rule.right < 0 || rule.merge.result < 0) {
      return fail(Code::corrupt, "tokenizer: merge " + std::to_string(rank) + " " + in_quotes(line) +
                                     " names or makes a token that does not exist");
    }
    rules.push_back(rule);
  }
  return rules;
}

// What is the same for both kinds of symbols: added tokens, hidden ones, the frame.
void add_tokens(const TokenizerSpec& spec, PipelineSpec& parts) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = type_of(spec, id);
    const std::string& text = spec.tokens[id];
    parts.hidden.push_back(type == TokenType::control || type == TokenType::unknown);
    if (is_added(type) && !text.empty()) {
      added.push_back({text, static_cast<Token>(id), type != TokenType::user_defined});
    }
  }
  parts.added = AddedTokens(std::move(added));
  if (spec.add_bos && spec.bos >= 0) parts.prefix.push_back(spec.bos);
  if (spec.add_eos && spec.eos >= 0) parts.suffix.push_back(spec.eos);
}

// Merges from bytes, which the vocabulary writes in GPT-2's byte characters.
void use_bytes(const TokenizerSpec& spec, std::vector<MergeRule> rules, bool whole_word, PipelineSpec& parts) {
  ByteBpeSpec bpe;
  bpe.rules = std::move(rules);
  bpe.whole_word = whole_word;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& text = spec.tokens[id];
    auto bytes = is_added(type_of(spec, id)) ? std::nullopt : chars_to_bytes(text);
    bpe.mergeable.push_back(bytes.has_value());
    bpe.tokens.push_back(bytes ? std::move(*bytes) : text);
  }
  parts.token_bytes = bpe.tokens;
  parts.model = std::make_unique<ByteBpe>(bpe);
}

// Merges from characters, as SentencePiece writes them; characters outside the vocabulary fall back to byte tokens.
void use_characters(const TokenizerSpec& spec, std::vector<MergeRule> rules, bool whole_word, PipelineSpec& parts) {
  CharBpeSpec bpe;
  bpe.rules = std::move(rules);
  bpe.whole_word = whole_word;
  bpe.unk = spec.unk;
  bpe.tokens = spec.tokens;
  for (size_t id = 0; id < spec.tokens.size(); ++id) bpe.mergeable.push_back(!is_added(type_of(spec, id)));
  bpe.byte_tokens = byte_tokens_of(spec.tokens, bpe.mergeable);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& text = spec.tokens[id];
    const int byte = bpe.mergeable[id] ? byte_of_piece(text) : -1;
    if (byte >= 0) {
      bpe.mergeable[id] = false;
      parts.token_bytes.emplace_back(1, static_cast<char>(byte));
    } else {
      parts.token_bytes.push_back(is_added(type_of(spec, id)) ? text : with_spaces(text));
    }
  }
  parts.normalizers.push_back(make_replace(" ", std::string(kSpaceSymbol)));
  parts.model = std::make_unique<CharBpe>(std::move(bpe));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_listed_bpe(TokenizerSpec spec) {
  QR_TRY(const NamedPreTokenizer* named, find_pre_tokenizer(spec.pre));
  if (spec.bos_by_name) spec.add_bos = named->adds_bos;
  PipelineSpec parts;
  QR_TRY(parts.pre_tokenizer, make_pre_tokenizer(*named));
  if (named->nfc) parts.normalizers.push_back(make_unicode_form(UnicodeForm::nfc));
  TokenIndex names;
  names.build(spec.tokens, std::vector<bool>(spec.tokens.size(), true));
  QR_TRY(std::vector<MergeRule> rules, parse_merges(spec, names));
  (named->characters ? use_characters : use_bytes)(spec, std::move(rules), named->whole_word, parts);
  add_tokens(spec, parts);
  spec.merges = {};  // 280 000 strings that nobody reads again
  return std::make_unique<Pipeline>(std::move(spec), std::move(parts));
}

}  // namespace quire
