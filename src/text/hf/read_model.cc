// The section "model" of tokenizer.json: BPE, Unigram, WordPiece, WordLevel.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/byte_bpe.h"
#include "text/byte_chars.h"
#include "text/char_bpe.h"
#include "text/hf/parts.h"
#include "text/spm_pieces.h"
#include "text/unigram.h"
#include "text/utf8.h"
#include "text/word_level.h"
#include "text/wordpiece.h"

namespace quire {

namespace {

constexpr std::string_view kWhere = "model";

// Old files leave the type out.
Result<std::string> model_type(const Json& model) {
  const Json* vocab = field(model, "vocab");
  const bool list = vocab != nullptr && vocab->as_array() != nullptr;
  const bool prefix = field(model, "continuing_subword_prefix") != nullptr && field(model, "merges") == nullptr;
  return string_field(model, kWhere, "type", list ? "Unigram" : prefix ? "WordPiece" : "BPE");
}

Result<Token> token_named(const Json& model, std::string_view key, const TokenIndex& names) {
  QR_TRY(const std::string name, string_field(model, kWhere, key, ""));
  return name.empty() ? Token{-1} : names.find(name);
}

// A merge is "left right" or ["left", "right"].
bool split_merge(const Json& merge, std::string_view& left, std::string_view& right) {
  if (const std::string* line = merge.as_string()) {
    const size_t space = line->find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == line->size()) return false;
    left = std::string_view(*line).substr(0, space);
    right = std::string_view(*line).substr(space + 1);
    return right.find(' ') == std::string_view::npos;
  }
  const Json::Array* pair = merge.as_array();
  if (pair == nullptr || pair->size() != 2) return false;
  const std::string *a = (*pair)[0].as_string(), *b = (*pair)[1].as_string();
  if (a == nullptr || b == nullptr || a->empty() || b->empty()) return false;
  left = *a;
  right = *b;
  return true;
}

Result<std::vector<MergeRule>> read_merges(const Json& model, const TokenIndex& names, size_t prefix_size) {
  std::vector<MergeRule> rules;
  const Json* merges = field(model, "merges");
  if (merges == nullptr || merges->as_array() == nullptr) return bad_field(kWhere, "merges", "a list");
  rules.reserve(merges->as_array()->size());
  std::string joined;
  for (const Json& merge : *merges->as_array()) {
    const auto rank = static_cast<uint32_t>(rules.size());
    std::string_view left, right;
    const std::string where = "merges[" + std::to_string(rank) + "]";
    if (!split_merge(merge, left, right)) return bad_field(kWhere, where, "a pair of tokens");
    joined.assign(left).append(right.substr(std::min(prefix_size, right.size())));
    const MergeRule rule{names.find(left), names.find(right), {rank, names.find(joined)}};
    if (rule.left < 0 || rule.right < 0 || rule.merge.result < 0) {
      return bad_field(kWhere, where, "made of tokens of the vocabulary");
    }
    rules.push_back(rule);
  }
  return rules;
}

TokenIndex index_of(const HfVocab& vocab) {
  TokenIndex index;
  index.build(vocab.texts, vocab.in_model);
  return index;
}

Result<std::unique_ptr<SubwordModel>> read_byte_bpe(const Json& model, const HfVocab& vocab, const TokenIndex& names) {
  ByteBpeSpec spec;
  QR_TRY(spec.rules, read_merges(model, names, 0));
  QR_TRY(spec.whole_word, bool_field(model, kWhere, "ignore_merges", false));
  QR_TRY(spec.unk, token_named(model, "unk_token", names));
  for (size_t id = 0; id < vocab.texts.size(); ++id) {
    auto bytes = vocab.in_model[id] ? chars_to_bytes(vocab.texts[id]) : std::nullopt;
    spec.mergeable.push_back(bytes.has_value());
    spec.tokens.push_back(bytes ? std::move(*bytes) : std::string());
  }
  return std::make_unique<ByteBpe>(spec);
}

Result<std::unique_ptr<SubwordModel>> read_bpe(const Json& model, const HfVocab& vocab, bool byte_level) {
  const TokenIndex names = index_of(vocab);
  if (byte_level) return read_byte_bpe(model, vocab, names);
  CharBpeSpec spec;
  QR_TRY(spec.word_prefix, string_field(model, kWhere, "continuing_subword_prefix", ""));
  QR_TRY(spec.word_suffix, string_field(model, kWhere, "end_of_word_suffix", ""));
  QR_TRY(spec.rules, read_merges(model, names, spec.word_prefix.size()));
  QR_TRY(spec.whole_word, bool_field(model, kWhere, "ignore_merges", false));
  QR_TRY(spec.fuse_unk, bool_field(model, kWhere, "fuse_unk", false));
  QR_TRY(spec.unk, token_named(model, "unk_token", names));
  QR_TRY(const bool byte_fallback, bool_field(model, kWhere, "byte_fallback", false));
  spec.byte_tokens.fill(-1);
  if (byte_fallback) spec.byte_tokens = byte_tokens_of(vocab.texts, vocab.in_model);
  spec.tokens = vocab.texts;
  spec.mergeable = vocab.in_model;
  return std::make_unique<CharBpe>(std::move(spec));
}

// The score as the reference reads it: its JSON parser turns the digits into an integer, rounds that to a double and
// divides by a power of ten, which misses the nearest double by one bit now and then; ties between segmentations hang
// on that bit. The digits are the shortest that give `value`, which is how such files are written.
double as_reference_reads(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, std::abs(value), std::chars_format::scientific).ptr;
  const std::string_view digits(text, static_cast<size_t>(end - text));
  const size_t e = digits.find('e');
  if (e == std::string_view::npos) return value;  // infinite
  uint64_t significand = 0;
  int exponent = 0, n_decimals = 0;
  for (const char c : digits.substr(0, e)) {
    if (c == '.') continue;
    significand = significand * 10 + static_cast<uint64_t>(c - '0');
    ++n_decimals;
  }
  const bool negative_exponent = digits[e + 1] == '-';
  std::from_chars(digits.data() + e + 2, end, exponent);
  exponent = (negative_exponent ? -exponent : exponent) - (n_decimals - 1);
  if (exponent < -22 || exponent > 22) return value;  // beyond the exact powers of ten: no score looks like this
  double power = 1;
  for (int i = 0; i < std::abs(exponent); ++i) power *= 10;
  const auto whole = static_cast<double>(significand);
  return std::copysign(exponent < 0 ? whole / power : whole * power, value);
}

Result<std::unique_ptr<SubwordModel>> read_unigram(const Json& model, const HfVocab& vocab) {
  UnigramSpec spec;
  spec.in_double = true;
  spec.min_score = std::numeric_limits<double>::infinity();
  const Json::Array& list = *field(model, "vocab")->as_array();  // read_model_vocab has checked it
  spec.scores.assign(vocab.texts.size(), 0);
  for (size_t id = 0; id < list.size(); ++id) {
    spec.scores[id] = as_reference_reads((*list[id].as_array())[1].number());
    spec.min_score = std::min(spec.min_score, spec.scores[id]);
  }
  QR_TRY(const int64_t unk, int_field(model, kWhere, "unk_id", -1));
  if (unk < -1 || unk >= static_cast<int64_t>(list.size())) return bad_field(kWhere, "unk_id", "in the vocabulary");
  spec.unk = static_cast<Token>(unk);
  QR_TRY(const bool byte_fallback, bool_field(model, kWhere, "byte_fallback", false));
  spec.byte_tokens.fill(-1);
  if (byte_fallback) spec.byte_tokens = byte_tokens_of(vocab.texts, vocab.in_model);
  spec.pieces = vocab.texts;
  spec.usable = vocab.in_model;
  return std::make_unique<Unigram>(std::move(spec));
}

Result<std::unique_ptr<SubwordModel>> read_word_piece(const Json& model, const HfVocab& vocab) {
  WordPieceSpec spec;
  QR_TRY(const std::string prefix, string_field(model, kWhere, "continuing_subword_prefix", "##"));
  QR_TRY(const int64_t max_chars, int_field(model, kWhere, "max_input_chars_per_word", 100));
  QR_TRY(const std::string unk, string_field(model, kWhere, "unk_token", "[UNK]"));
  spec.unk = index_of(vocab).find(unk);
  spec.max_chars = static_cast<size_t>(std::max<int64_t>(max_chars, 0));
  for (size_t id = 0; id < vocab.texts.size(); ++id) {
    const std::string& text = vocab.texts[id];
    if (!vocab.in_model[id]) continue;
    spec.starts.emplace_back(text, static_cast<Token>(id));
    if (text.starts_with(prefix)) spec.continues.emplace_back(text.substr(prefix.size()), static_cast<Token>(id));
  }
  return std::make_unique<WordPiece>(spec);
}

Result<std::unique_ptr<SubwordModel>> read_word_level(const Json& model, const HfVocab& vocab) {
  TokenIndex names = index_of(vocab);
  QR_TRY(const Token unk, token_named(model, "unk_token", names));
  return std::make_unique<WordLevel>(std::move(names), unk);
}

Status read_unigram_vocab(const Json::Array& list, HfVocab& vocab) {
  for (size_t id = 0; id < list.size(); ++id) {
    const Json::Array* pair = list[id].as_array();
    if (pair == nullptr || pair->size() != 2 || (*pair)[0].as_string() == nullptr || !(*pair)[1].is_number()) {
      return bad_field(kWhere, "vocab", "pairs of a piece and its score");
    }
    QR_TRY_VOID(vocab.put(static_cast<int64_t>(id), *(*pair)[0].as_string(), true));
  }
  return {};
}

}  // namespace

Status read_model_vocab(const Json& model, HfVocab& vocab) {
  const Json* section = field(model, "vocab");
  if (section == nullptr) return bad_field(kWhere, "vocab", "there");
  if (const Json::Array* list = section->as_array()) return read_unigram_vocab(*list, vocab);
  if (section->as_object() == nullptr) return bad_field(kWhere, "vocab", "an object or a list");
  for (const auto& [text, id] : *section->as_object()) {
    if (id.as_int() == nullptr) return bad_field(kWhere, "vocab", "token ids by text");
    QR_TRY_VOID(vocab.put(*id.as_int(), text, true));
  }
  return {};
}

Result<std::unique_ptr<SubwordModel>> read_model(const Json& model, const HfVocab& vocab, bool byte_level) {
  QR_TRY(const std::string type, model_type(model));
  const bool list = field(model, "vocab")->as_array() != nullptr;
  if (list != (type == "Unigram")) return bad_field(kWhere, "vocab", "of the form that its type asks for");
  if (type == "BPE") return read_bpe(model, vocab, byte_level);
  if (byte_level) return fail(Code::unsupported, "tokenizer.json: ByteLevel with a model that is no BPE");
  if (type == "Unigram") return read_unigram(model, vocab);
  if (type == "WordPiece") return read_word_piece(model, vocab);
  if (type == "WordLevel") return read_word_level(model, vocab);
  return fail(Code::unsupported, "tokenizer.json: model \"" + type + "\" is not known");
}

}  // namespace quire
