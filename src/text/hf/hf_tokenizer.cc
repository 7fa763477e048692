// See hf_tokenizer.h. The order of work is the reference's: added tokens in the raw text, normaliser, added tokens in
// the normalised text, pre-tokeniser, model, post-processor.
#include "text/hf/hf_tokenizer.h"

#include <algorithm>

#include "text/hf/parts.h"

namespace quire {

namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxGaps = size_t{1} << 16;  // ids that no token has: a small file must not ask for much memory

size_t entries_of(const Json* list) {
  if (list == nullptr) return 0;
  if (const auto* array = list->as_array()) return array->size();
  const auto* object = list->as_object();
  return object == nullptr ? 0 : object->size();
}

// Added tokens, those of the raw text apart from those that are looked for in normalised text.
struct AddedLists {
  std::vector<AddedToken> raw, normalized;
};

Result<AddedLists> read_added_tokens(const Json* section, const NormalizerChain& normalizer, HfVocab& vocab) {
  AddedLists out;
  if (section == nullptr) return out;
  if (section->as_array() == nullptr) return bad_field("root", "added_tokens", "a list");
  constexpr std::string_view kWhere = "added_tokens";
  for (const Json& item : *section->as_array()) {
    AddedToken token;
    QR_TRY(const int64_t id, int_field(item, kWhere, "id", -1));
    QR_TRY(token.text, string_field(item, kWhere, "content", ""));
    QR_TRY(token.special, bool_field(item, kWhere, "special", false));
    QR_TRY(token.normalized, bool_field(item, kWhere, "normalized", !token.special));
    QR_TRY(token.strip_left, bool_field(item, kWhere, "lstrip", false));
    QR_TRY(token.strip_right, bool_field(item, kWhere, "rstrip", false));
    QR_TRY(token.single_word, bool_field(item, kWhere, "single_word", false));
    QR_TRY_VOID(check_token_lengths({token.text}));
    QR_TRY_VOID(vocab.put(id, token.text, false));
    if (token.text.empty()) continue;
    token.id = static_cast<Token>(id);
    vocab.special[static_cast<size_t>(id)] = token.special;
    if (token.normalized) {
      std::string scratch;
      TextBudget budget(token.text.size());
      const auto normal = normalize(normalizer, token.text, budget, scratch);
      if (!normal) return budget.exceeded();
      token.text = std::string(*normal);
      QR_TRY_VOID(check_token_lengths({token.text}));
      vocab.shown[static_cast<size_t>(id)] = token.text;
    }
    if (!token.text.empty()) (token.normalized ? out.normalized : out.raw).push_back(std::move(token));
  }
  return out;
}

Status check_ids(const std::vector<Token>& ids, size_t n_vocab) {
  for (const Token id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= n_vocab) {
      return fail(Code::corrupt, "tokenizer.json: post_processor names token " + std::to_string(id) + " of " +
                                     std::to_string(n_vocab));
    }
  }
  return {};
}

Token find_text(const TokenizerSpec& spec, const std::string& text) {
  if (text.empty()) return -1;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id] == text) return static_cast<Token>(id);
  }
  return -1;
}

TokenizerSpec make_spec(const HfVocab& vocab, const AddedLists& added, const HfContext& context) {
  TokenizerSpec spec;
  spec.model = "tokenizer.json";
  spec.tokens = vocab.texts;
  spec.types.assign(vocab.texts.size(), TokenType::normal);
  for (size_t id = 0; id < vocab.texts.size(); ++id) {
    if (vocab.texts[id].empty()) spec.types[id] = TokenType::unused;
  }
  for (const auto* list : {&added.raw, &added.normalized}) {
    for (const AddedToken& t : *list) {
      spec.types[static_cast<size_t>(t.id)] = t.special ? TokenType::control : TokenType::user_defined;
    }
  }
  spec.bos = find_text(spec, context.bos);
  spec.eos = find_text(spec, context.eos);
  spec.unk = find_text(spec, context.unk);
  spec.pad = find_text(spec, context.pad);
  spec.sep = find_text(spec, context.sep);
  spec.cls = find_text(spec, context.cls);
  spec.mask = find_text(spec, context.mask);
  spec.chat_template = context.chat_template;
  return spec;
}

void apply_frame(int add, Token id, std::vector<Token>& ids) {
  if (add < 0) return;
  ids.clear();
  if (add == 1 && id >= 0) ids.push_back(id);
}

}  // namespace

Status HfVocab::put(int64_t id, const std::string& text, bool from_model) {
  if (id < 0 || static_cast<uint64_t>(id) >= limit) {
    return fail(Code::corrupt, "tokenizer.json: token id " + std::to_string(id) + " must be in [0, " +
                                   std::to_string(limit - 1) + "]");
  }
  const auto i = static_cast<size_t>(id);
  if (i >= texts.size()) {
    texts.resize(i + 1);
    shown.resize(i + 1);
    in_model.resize(i + 1, false);
    special.resize(i + 1, false);
  }
  if (from_model || !in_model[i]) texts[i] = text;
  in_model[i] = in_model[i] || from_model;
  return {};
}

Result<std::unique_ptr<Tokenizer>> make_hf_tokenizer(const Json& root, const HfContext& context) {
  const Json* model = field(root, "model");
  if (model == nullptr) return bad_field("root", "model", "there");
  HfVocab vocab;
  vocab.limit =
      std::min(entries_of(field(*model, "vocab")) + entries_of(field(root, "added_tokens")) + kMaxGaps, kMaxTokens);
  QR_TRY_VOID(read_model_vocab(*model, vocab));
  QR_TRY_VOID(check_token_lengths(vocab.texts));
  QR_TRY(HfNormalizer normalizer, read_normalizer(field(root, "normalizer")));
  QR_TRY(const AddedLists added, read_added_tokens(field(root, "added_tokens"), normalizer.chain, vocab));
  QR_TRY(HfPreTokenizer pre, read_pre_tokenizer(field(root, "pre_tokenizer")));
  PipelineSpec parts;
  QR_TRY(parts.model, read_model(*model, vocab, pre.byte_level || normalizer.to_byte_chars));
  QR_TRY_VOID(read_post_processor(field(root, "post_processor"), parts.prefix, parts.suffix));
  TokenizerSpec spec = make_spec(vocab, added, context);
  apply_frame(context.add_bos, spec.bos, parts.prefix);
  apply_frame(context.add_eos, spec.eos, parts.suffix);
  QR_TRY_VOID(check_ids(parts.prefix, vocab.texts.size()));
  QR_TRY_VOID(check_ids(parts.suffix, vocab.texts.size()));
  QR_TRY_VOID(read_decoder(field(root, "decoder"), vocab, parts));
  parts.added = AddedTokens(added.raw);
  parts.added_normalized = AddedTokens(added.normalized);
  parts.normalizers = std::move(normalizer.chain);
  parts.normalized_to_byte_chars = normalizer.to_byte_chars;
  parts.pre_tokenizer = std::move(pre.steps);
  return std::make_unique<Pipeline>(std::move(spec), std::move(parts));
}

}  // namespace quire
