// SentencePiece's normaliser table ("precompiled_charsmap"): a double-array trie from byte strings to their
// replacements. The blob comes from a file: every index is checked where it is used, so a hostile blob gives wrong
// text, never a read outside it. Format: u32 size of the trie in bytes, its u32 units (darts-clone), then replacements,
// each ended by NUL.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_trie.h"
#include "text/normalizer.h"

namespace quire {

class CharsMap {
 public:
  // Code::corrupt where the sizes do not fit or the replacements have no final NUL. An empty blob is an empty map.
  static Result<CharsMap> parse(std::string_view blob);

  struct Match {
    size_t len = 0;  // of the key, 0: nothing found
    std::string_view replacement;
  };
  // Real keys are a handful of characters. A table from a file may lead round and round in itself.
  static constexpr size_t kMaxKeyBytes = 256;
  // The longest key (or the shortest) that `text` starts with, of kMaxKeyBytes at most.
  Match longest(std::string_view text) const { return find(text, true); }
  Match shortest(std::string_view text) const { return find(text, false); }
  bool empty() const { return units_.empty(); }

 private:
  Match find(std::string_view text, bool longest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

// What Hugging Face's normaliser "Precompiled" does: whole grapheme clusters below six bytes, else code points, each
// replaced by the shortest key it starts with.
std::unique_ptr<Normalizer> make_precompiled(CharsMap map);

// SentencePiece's own normaliser.
struct SentencePieceRules {
  CharsMap map{};
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;  // spaces become U+2581
  bool prefix_is_suffix = false;   // the dummy goes to the end ("treat whitespace as suffix")
  ByteTrie user_defined{};         // texts that the map must not touch
};
std::unique_ptr<Normalizer> make_sentencepiece(SentencePieceRules rules);

}  // namespace quire
