// See bert_pipeline.h.
#include "text/bert_pipeline.h"

#include <array>

#include "text/bert_sets.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace quire {

namespace {

// Code points of a set, one by one.
class PointMatcher final : public RegexMatcher {
 public:
  explicit PointMatcher(bool (*member)(char32_t)) : member_(member) {}
  bool find_all(std::string_view text, std::vector<ByteRange>& out) const override {
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = utf8_at(text, i);
      const size_t end = i + static_cast<size_t>(c.len);
      if (member_(c.value)) out.push_back({i, end});
      i = end;
    }
    return true;
  }

 private:
  bool (*member_)(char32_t);
};

}  // namespace

std::unique_ptr<PreTokenStep> make_set_split(bool (*member)(char32_t), SplitBehavior behavior) {
  return make_split(std::make_unique<PointMatcher>(member), behavior, false);
}

void add_bert_pre_tokenizer(PreTokenizer& steps) {
  steps.push_back(make_set_split([](char32_t cp) { return is_space(cp); }, SplitBehavior::removed));
  steps.push_back(make_set_split([](char32_t cp) { return is_bert_punctuation(cp); }, SplitBehavior::isolated));
}

std::string clean_up_spaces(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kRules = {{{" .", "."},
                                                                                     {" ?", "?"},
                                                                                     {" !", "!"},
                                                                                     {" ,", ","},
                                                                                     {" ' ", "'"},
                                                                                     {" n't", "n't"},
                                                                                     {" 'm", "'m"},
                                                                                     {" 's", "'s"},
                                                                                     {" 've", "'ve"},
                                                                                     {" 're", "'re"}}};
  std::string out;
  for (const auto& [from, to] : kRules) {
    if (text.find(from) == std::string::npos) continue;
    make_replace(std::string(from), std::string(to))->apply(text, std::string::npos, out);
    text.swap(out);
  }
  return text;
}

std::string word_piece_surface(std::string_view text, bool continues) {
  std::string out(text);
  if (!continues && !out.empty()) out.insert(out.begin(), ' ');
  return clean_up_spaces(std::move(out));
}

}  // namespace quire
