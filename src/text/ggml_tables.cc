#include "text/ggml_tables.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/json.h"
#include "text/hf/json_fields.h"
#include "text/pretoken_names.h"
#include "text/spm_pieces.h"

namespace quire {
namespace {

// What pre-tokenizers disagree on: contractions, digits, spaces, line ends, marks, scripts, forms of Unicode.
constexpr std::string_view kProbe =
    "Hello, World! I'm sure they'LL say we've 1 22 333 4444 55555 1234567.89\n\n  two  spaces\tand\ttabs \r\n\r\n   \n "
    "end"
    "  {\"key_name\": [1, -2.5e10, null]}; for (int i=0;i<10;++i) x->y[i] += a_b::c(\"\\n\"); // $100 <b>~^`|</b> 50% "
    "#tag"
    " Grüße, straße, ÇA VA? cafe\u0301 naïve œuvre ﬁ ½ ² \u00a0\u3000x "
    "Привет мир ΑΒΓ αβγ שלום مرحبا हिन्दी नमस्ते ไทย ภาษาไทย 日本語テキスト 漢字 한국어 中文，标点。１２３ ٣٤٥ "
    "😀👩‍👩‍👧 ∑∫√ → … — ‘a’ “b” don’t CamelCaseWord HTTPServer x² mixed123abc "
    "3.14e-5 "
    "www.example.com "
    "a@b.c "
    "...!!??";
constexpr size_t kMostNames = 16;  // added tokens whose texts are probed

std::vector<Token> ids_of(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  std::vector<Token> out;
  if (!tokenizer.encode(text, options, out)) out.clear();
  return out;
}

// On the probe, and on the added tokens' texts. Spaces beside those are the known disagreement of programs.
bool agree(const Tokenizer& a, const Tokenizer& b) {
  if (ids_of(a, kProbe, {}) != ids_of(b, kProbe, {})) return false;
  const EncodeOptions special{.add_special = true, .parse_special = true};
  const TokenizerSpec& spec = a.spec();
  size_t n = 0;
  for (size_t id = 0; id < spec.types.size() && n < kMostNames; ++id) {
    if (spec.types[id] != TokenType::control && spec.types[id] != TokenType::user_defined) continue;
    if (ids_of(a, spec.tokens[id], special) != ids_of(b, spec.tokens[id], special)) return false;
    ++n;
  }
  return true;
}

// "left right" each, in the order of their ranks.
Result<std::vector<std::string>> merges_of(const Json& model) {
  std::vector<std::string> out;
  const Json* list = field(model, "merges");
  if (list == nullptr || list->as_array() == nullptr) return bad_field("model", "merges", "a list");
  for (const Json& merge : *list->as_array()) {
    const std::string* line = merge.as_string();
    const Json::Array* pair = merge.as_array();
    if (line != nullptr) {
      out.push_back(*line);
    } else if (pair != nullptr && pair->size() == 2 && (*pair)[0].as_string() && (*pair)[1].as_string()) {
      out.push_back(*(*pair)[0].as_string() + " " + *(*pair)[1].as_string());
    } else {
      return bad_field("model", "merges", "pairs of tokens");
    }
  }
  return out;
}

// SentencePiece's BPE joins the pair whose result has the best score: the rank of the first merge that makes it.
void score_by_rank(const std::vector<std::string>& merges, TokenizerSpec& spec) {
  std::unordered_map<std::string, float> scores;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    std::string joined = merges[rank];
    joined.erase(std::min(joined.find(' '), joined.size()), 1);
    scores.try_emplace(std::move(joined), -static_cast<float>(rank));
  }
  const float last = -static_cast<float>(merges.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto it = scores.find(spec.tokens[id]);
    spec.scores.push_back(it != scores.end() ? it->second : last);
    if (byte_of_piece(spec.tokens[id]) >= 0 && spec.types[id] == TokenType::normal) spec.types[id] = TokenType::byte;
  }
  if (spec.unk >= 0) spec.types[static_cast<size_t>(spec.unk)] = TokenType::unknown;
}

Result<TokenizerSpec> common_tables(const Tokenizer& known, int n_vocab) {
  TokenizerSpec spec = known.spec();
  if (known.n_vocab() > n_vocab) {
    return fail(Code::unsupported, "the tokenizer has " + std::to_string(known.n_vocab()) + " tokens, the model " +
                                       std::to_string(n_vocab));
  }
  spec.tokens.resize(static_cast<size_t>(n_vocab));
  spec.types.resize(spec.tokens.size(), TokenType::unused);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].empty()) spec.tokens[id] = "[PAD" + std::to_string(id) + "]";
  }
  const std::vector<Token> frame = ids_of(known, "", {.add_special = true});
  if (spec.bos < 0 && frame.size() == 1) spec.bos = frame.front();  // put in front, but not named
  spec.add_bos = !frame.empty() && spec.bos >= 0 && frame.front() == spec.bos;
  spec.add_eos =
      !frame.empty() && spec.eos >= 0 && frame.back() == spec.eos && (spec.add_bos ? frame.size() > 1 : true);
  return spec;
}

// The first of the specs that encodes as `known` does.
Result<TokenizerSpec> first_that_agrees(const std::vector<TokenizerSpec>& specs, const Tokenizer& known) {
  for (const TokenizerSpec& spec : specs) {
    const auto made = make_tokenizer(spec);
    if (made && agree(known, **made)) return spec;
  }
  return fail(Code::unsupported, "no tables of GGUF cut a text as this tokenizer does");
}

std::vector<TokenizerSpec> byte_specs(const TokenizerSpec& common, std::vector<std::string> merges, bool whole_word) {
  std::vector<TokenizerSpec> out;
  TokenizerSpec spec = common;
  spec.model = "gpt2";
  spec.merges = std::move(merges);
  for (const NamedPreTokenizer& named : all_pre_tokenizers()) {
    if (named.whole_word != whole_word || named.characters) continue;
    spec.pre = named.names.substr(0, named.names.find(' '));
    out.push_back(spec);
  }
  return out;
}

}  // namespace

Result<TokenizerSpec> ggml_tables(const TokenizerFiles& files, const Tokenizer& known, int n_vocab) {
  QR_TRY(TokenizerSpec common, common_tables(known, n_vocab));
  const auto file = files.find("tokenizer.json");
  if (file == files.end()) {
    common.scores.resize(common.scores.empty() ? 0 : common.tokens.size(), std::numeric_limits<float>::lowest());
    return first_that_agrees({common}, known);
  }
  QR_TRY(const Json root, Json::parse(file->second));
  const Json* model = field(root, "model");
  if (model == nullptr || field(*model, "vocab") == nullptr || field(*model, "vocab")->as_object() == nullptr) {
    return fail(Code::unsupported, "the tokenizer is no BPE");
  }
  QR_TRY(std::vector<std::string> merges, merges_of(*model));
  QR_TRY(const bool byte_fallback, bool_field(*model, "model", "byte_fallback", false));
  QR_TRY(const bool whole_word, bool_field(*model, "model", "ignore_merges", false));
  if (!byte_fallback) return first_that_agrees(byte_specs(common, std::move(merges), whole_word), known);
  common.model = "llama";
  score_by_rank(merges, common);
  TokenizerSpec without_space = common;
  without_space.add_space_prefix = false;
  return first_that_agrees({common, without_space}, known);
}

}  // namespace quire
