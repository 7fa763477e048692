// What every source of a BERT tokenizer shares.
#pragma once
#include <algorithm>
#include <string>

#include "text/pipeline.h"

namespace quire {

// Cuts at white space (dropped) and at punctuation (pieces of their own).
void add_bert_pre_tokenizer(PreTokenizer& steps);
std::unique_ptr<PreTokenStep> make_set_split(bool (*member)(char32_t), SplitBehavior behavior);

// A piece in running text: a space in front unless it continues a word, cleaned up as the reference's decoder does
// (no space before punctuation).
std::string word_piece_surface(std::string_view text, bool continues);
std::string clean_up_spaces(std::string text);

}  // namespace quire
