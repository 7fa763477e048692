// See spm.h. SentencePiece BPE: pieces with scores; a merge of two pieces exists where their concatenation is a piece,
// and the highest score merges first. The scores become ranks, the merges a table, once.
#include "text/spm.h"

#include <algorithm>
#include <limits>
#include <map>

#include "text/char_bpe.h"
#include "text/charsmap.h"
#include "text/spm_pieces.h"
#include "text/unigram.h"
#include "text/utf8.h"

namespace quire {

namespace {

constexpr std::string_view kUnkSurface = " \xE2\x81\x87 ";  // how SentencePiece prints the unknown token

TokenType type_of(const TokenizerSpec& spec, size_t id) {
  const TokenType t = spec.types.empty() ? TokenType::normal : spec.types[id];
  return static_cast<uint8_t>(t) == 0 ? TokenType::normal : t;  // 0 means "undefined" in old files
}

Result<std::array<Token, 256>> byte_table(const TokenizerSpec& spec) {
  std::array<Token, 256> table;
  table.fill(-1);
  int n_found = 0;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (type_of(spec, id) != TokenType::byte) continue;
    const int b = byte_of_piece(spec.tokens[id]);
    if (b < 0) {
      return fail(Code::corrupt, "tokenizer: token " + std::to_string(id) + " has type byte but is not named <0xXX>");
    }
    Token& slot = table[static_cast<size_t>(b)];
    if (slot < 0) ++n_found;
    if (slot < 0) slot = static_cast<Token>(id);
  }
  if (n_found != 0 && n_found != 256) {
    return fail(Code::corrupt, "tokenizer: " + std::to_string(n_found) + " of 256 byte tokens are there");
  }
  return table;
}

// Every way to cut a piece into two symbols becomes a merge rule with the rank of the piece's score.
class RuleBuilder {
 public:
  RuleBuilder(const TokenizerSpec& spec, CharBpeSpec& out) : spec_(spec), out_(out) {
    index_.build(out.tokens, out.mergeable);
    scores_ = spec.scores;
    std::sort(scores_.begin(), scores_.end(), std::greater<>());
    scores_.erase(std::unique(scores_.begin(), scores_.end()), scores_.end());
  }

  void run() {
    for (size_t id = 0; id < out_.tokens.size(); ++id) {
      const std::string& text = out_.tokens[id];
      if (out_.mergeable[id] && index_.find(text) == static_cast<Token>(id)) cut(static_cast<Token>(id), text);
    }
  }

 private:
  void cut(Token id, std::string_view text) {
    const auto place =
        std::lower_bound(scores_.begin(), scores_.end(), spec_.scores[static_cast<size_t>(id)], std::greater<>());
    const auto rank = static_cast<uint32_t>(place - scores_.begin());
    for (size_t at = static_cast<size_t>(utf8_at(text, 0).len); at < text.size();) {
      const Symbol left = symbol(text.substr(0, at)), right = symbol(text.substr(at));
      if (left >= 0 && right >= 0) out_.rules.push_back({left, right, {rank, id}});
      at += static_cast<size_t>(utf8_at(text, at).len);
    }
  }

  // A piece, or a single character that is none but starts merges all the same.
  Symbol symbol(std::string_view text) {
    const Token id = index_.find(text);
    const CodePoint first = utf8_at(text, 0);
    if (id >= 0 || !first.valid || static_cast<size_t>(first.len) != text.size()) return id;
    const auto next = static_cast<Symbol>(out_.tokens.size() + out_.extra_symbols.size());
    const auto [it, fresh] = extra_.try_emplace(first.value, next);
    if (fresh) out_.extra_symbols.emplace_back(text);
    return it->second;
  }

  const TokenizerSpec& spec_;
  CharBpeSpec& out_;
  TokenIndex index_;
  std::vector<float> scores_;  // distinct, descending
  std::map<char32_t, Symbol> extra_;
};

std::string surface(const TokenizerSpec& spec, size_t id) {
  const std::string& text = spec.tokens[id];
  switch (type_of(spec, id)) {
    case TokenType::byte: return std::string(1, static_cast<char>(byte_of_piece(text)));
    case TokenType::unknown: return std::string(spec.unk_surface.empty() ? kUnkSurface : spec.unk_surface);
    case TokenType::control: return text;
    default: break;
  }
  return with_spaces(text);
}

bool is_searchable(TokenType type) {
  return type == TokenType::normal || type == TokenType::user_defined || type == TokenType::unused;
}

ByteTrie user_defined_trie(const TokenizerSpec& spec) {
  std::vector<ByteTrie::Entry> entries;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (type_of(spec, id) == TokenType::user_defined) entries.emplace_back(spec.tokens[id], static_cast<int32_t>(id));
  }
  return ByteTrie(std::move(entries));
}

// Phi-3's files do not say that its control tokens swallow the white space behind them (its tokenizer.json does, and it
// was trained so): the vocabulary is known by its placeholders.
bool is_phi3(const TokenizerSpec& spec) {
  const auto has = [&spec](std::string_view text) {
    return std::find(spec.tokens.begin(), spec.tokens.end(), text) != spec.tokens.end();
  };
  return has("<|placeholder1|>") && has("<|placeholder6|>") && has("<|assistant|>");
}

bool phi3_strips_after(std::string_view text) {
  return text == "</s>" || (text.starts_with("<|") && text.ends_with("|>") && text != "<|endoftext|>");
}

// Everything but the model.
Result<PipelineSpec> make_parts(const TokenizerSpec& spec, const SpmStyle& style) {
  PipelineSpec parts;
  std::vector<AddedToken> added;
  const bool phi3 = !style.own_normalizer && is_phi3(spec);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = type_of(spec, id);
    const bool special = type == TokenType::control || type == TokenType::unknown;
    const bool cuts = special || (type == TokenType::user_defined && !style.own_normalizer);
    parts.hidden.push_back(type == TokenType::control);
    parts.token_bytes.push_back(surface(spec, id));
    if (!cuts || spec.tokens[id].empty()) continue;
    added.push_back({.text = spec.tokens[id],
                     .id = static_cast<Token>(id),
                     .special = special,
                     .strip_right = phi3 && phi3_strips_after(spec.tokens[id])});
  }
  parts.added = AddedTokens(std::move(added));
  if (style.own_normalizer) {
    QR_TRY(CharsMap map, CharsMap::parse(spec.precompiled_charsmap));
    parts.normalizers.push_back(
        make_sentencepiece({std::move(map), spec.add_space_prefix, spec.remove_extra_whitespaces,
                            style.escape_whitespaces, style.prefix_is_suffix, user_defined_trie(spec)}));
  } else {
    if (spec.add_space_prefix) parts.normalizers.push_back(make_prepend(" "));
    parts.normalizers.push_back(make_replace(" ", std::string(kSpaceSymbol)));
  }
  if (spec.add_bos && spec.bos >= 0) parts.prefix.push_back(spec.bos);
  if (spec.add_eos && spec.eos >= 0) parts.suffix.push_back(spec.eos);
  parts.strips_leading_space = spec.add_space_prefix && !style.prefix_is_suffix;
  return parts;
}

Status check_fallback(const TokenizerSpec& spec, const std::array<Token, 256>& byte_tokens) {
  if (spec.scores.empty()) return fail(Code::corrupt, "tokenizer: model \"" + spec.model + "\" has no scores");
  if (byte_tokens[0] >= 0 || spec.unk >= 0) return {};
  return fail(Code::corrupt, "tokenizer: there are neither byte tokens nor an unknown token");
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_spm_bpe(TokenizerSpec spec, const SpmStyle& style) {
  CharBpeSpec bpe;
  QR_TRY(bpe.byte_tokens, byte_table(spec));
  QR_TRY_VOID(check_fallback(spec, bpe.byte_tokens));
  bpe.unk = spec.unk;
  bpe.tokens = spec.tokens;
  for (size_t id = 0; id < spec.tokens.size(); ++id) bpe.mergeable.push_back(is_searchable(type_of(spec, id)));
  RuleBuilder(spec, bpe).run();
  if (style.own_normalizer) bpe.user_defined = user_defined_trie(spec);
  QR_TRY(PipelineSpec parts, make_parts(spec, style));
  parts.model = std::make_unique<CharBpe>(std::move(bpe));
  return std::make_unique<Pipeline>(std::move(spec), std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> make_spm_unigram(TokenizerSpec spec, const SpmStyle& style) {
  UnigramSpec unigram;
  QR_TRY(unigram.byte_tokens, byte_table(spec));
  QR_TRY_VOID(check_fallback(spec, unigram.byte_tokens));
  unigram.unk = spec.unk;
  unigram.pieces = spec.tokens;
  unigram.scores.assign(spec.scores.begin(), spec.scores.end());
  unigram.min_score = std::numeric_limits<float>::max();
  unigram.max_score = std::numeric_limits<float>::lowest();
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = type_of(spec, id);
    unigram.usable.push_back(type == TokenType::normal || type == TokenType::user_defined);
    unigram.user_defined.push_back(type == TokenType::user_defined);
    if (type != TokenType::normal) continue;
    unigram.min_score = std::min(unigram.min_score, unigram.scores[id]);
    unigram.max_score = std::max(unigram.max_score, unigram.scores[id]);
  }
  QR_TRY(PipelineSpec parts, make_parts(spec, style));
  parts.model = std::make_unique<Unigram>(std::move(unigram));
  return std::make_unique<Pipeline>(std::move(spec), std::move(parts));
}

}  // namespace quire
