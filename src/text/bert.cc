// WordPiece from a spec ("bert"), in GGUF's spelling: "▁word" begins a word, "word" goes on (the original has "word"
// and
// "##word"). The pipeline around it is BERT's: clean, space Chinese characters, strip accents, lower case, cut at white
// space and punctuation, [CLS] and [SEP].
#include "text/bert_pipeline.h"
#include "text/spm_pieces.h"
#include "text/wordpiece.h"

namespace quire {

Result<std::unique_ptr<Tokenizer>> make_word_piece(TokenizerSpec spec) {
  WordPieceSpec model;
  PipelineSpec parts;
  std::vector<AddedToken> added;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto token = static_cast<Token>(id);
    const TokenType type = spec.types.empty() ? TokenType::normal : spec.types[id];
    const std::string& text = spec.tokens[id];
    const bool special = type == TokenType::control || type == TokenType::unknown;
    parts.hidden.push_back(special);
    if (special || type == TokenType::user_defined) {
      if (!text.empty()) added.push_back({text, token, special});
      parts.token_bytes.push_back(word_piece_surface(text, false));
    } else if (text.starts_with(kSpaceSymbol)) {
      model.starts.emplace_back(text.substr(kSpaceSymbol.size()), token);
      parts.token_bytes.push_back(word_piece_surface(model.starts.back().first, false));
    } else {
      model.continues.emplace_back(text, token);
      parts.token_bytes.push_back(word_piece_surface(text, true));
    }
  }
  if (spec.unk < 0) return fail(Code::corrupt, "tokenizer: model \"bert\" has no unknown token");
  model.unk = spec.unk;
  // A vocabulary with capitals was trained without lower-casing.
  const bool cased = std::any_of(model.starts.begin(), model.starts.end(), [](const auto& piece) {
    return !piece.first.empty() && piece.first[0] >= 'A' && piece.first[0] <= 'Z';
  });
  parts.normalizers.push_back(make_bert({true, true, !cased, !cased}));
  add_bert_pre_tokenizer(parts.pre_tokenizer);
  parts.model = std::make_unique<WordPiece>(model);
  parts.added = AddedTokens(std::move(added));
  const Token cls = spec.cls >= 0 ? spec.cls : spec.bos;
  if (spec.add_bos && cls >= 0) parts.prefix.push_back(cls);
  if (spec.sep >= 0) parts.suffix.push_back(spec.sep);
  parts.strips_leading_space = true;
  parts.clean_up_spaces = true;
  return std::make_unique<Pipeline>(std::move(spec), std::move(parts));
}

}  // namespace quire
