#include "text/fill_tokens.h"

#include <array>

namespace quire {

// The names that families of models give them: Qwen, StarCoder, SantaCoder, CodeGemma, CodeLlama, DeepSeek, Granite.
FillTokens find_fill_tokens(const Tokenizer& tokenizer) {
  using Names = std::array<std::string_view, 5>;
  static constexpr Names kPrefix{"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "\u2581<PRE>", "<｜fim▁begin｜>"};
  static constexpr Names kSuffix{"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "\u2581<SUF>", "<｜fim▁hole｜>"};
  static constexpr Names kMiddle{"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "\u2581<MID>", "<｜fim▁end｜>"};
  static constexpr std::array<std::string_view, 2> kFile{"<|file_sep|>", "<file_sep>"};
  FillTokens out;
  const auto& tokens = tokenizer.spec().tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& text = tokens[i];
    const auto id = static_cast<Token>(i);
    for (size_t k = 0; k < kPrefix.size(); ++k) {
      if (text == kPrefix[k]) out.prefix = id;
      if (text == kSuffix[k]) out.suffix = id;
      if (text == kMiddle[k]) out.middle = id;
    }
    for (const std::string_view name : kFile)
      if (text == name) out.file = id;
  }
  return out;
}

}  // namespace quire
