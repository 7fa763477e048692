// See charsmap.h. The layout of a unit is darts-clone's: label in the low byte and bit 31, leaf flag in bit 8, offset
// in bits 10.. (scaled by 256 when bit 9 is set); a leaf's value is its low 31 bits.
#include "text/charsmap.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "text/spm_pieces.h"
#include "text/utf8.h"

namespace quire {

namespace {

bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label_of(uint32_t unit) { return unit & (uint32_t{1} << 31 | 0xFF); }
uint32_t value_of(uint32_t unit) { return unit & ((uint32_t{1} << 31) - 1); }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & (1u << 9)) >> 6); }

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(CharsMap map) : map_(std::move(map)) {}

  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    out.clear();
    for (size_t i = 0; i < in.size() && out.size() <= max_bytes;) {
      const std::string_view cluster = in.substr(i, cluster_length(in, i));
      i += cluster.size();
      if (cluster.size() < 6) {
        if (const CharsMap::Match m = map_.shortest(cluster); m.len > 0) {
          out += m.replacement;
          continue;
        }
      }
      for (size_t k = 0; k < cluster.size() && out.size() <= max_bytes;) {
        const std::string_view one = cluster.substr(k, static_cast<size_t>(utf8_at(cluster, k).len));
        const CharsMap::Match m = map_.shortest(one);
        out += m.len > 0 ? m.replacement : one;
        k += one.size();
      }
    }
    return out.size() <= max_bytes;
  }

 private:
  static size_t cluster_length(std::string_view text, size_t from) {
    CodePoint c = utf8_at(text, from);
    size_t end = from + static_cast<size_t>(c.len);
    utf8proc_int32_t state = 0;
    while (end < text.size()) {
      const CodePoint next = utf8_at(text, end);
      if (!c.valid || !next.valid) break;
      if (c.value < 0x80 && next.value < 0x80 && c.value != '\r') break;
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.value),
                                           static_cast<utf8proc_int32_t>(next.value), &state)) {
        break;
      }
      c = next;
      end += static_cast<size_t>(c.len);
    }
    return end - from;
  }

  CharsMap map_;
};

class SentencePiece final : public Normalizer {
 public:
  explicit SentencePiece(SentencePieceRules rules) : rules_(std::move(rules)) {}

  bool apply(std::string_view in, size_t max_bytes, std::string& out) const override {
    out.clear();
    const bool squeeze = rules_.remove_extra_whitespaces;
    size_t i = 0;
    while (squeeze && i < in.size()) {
      size_t len = 0;
      if (unit_at(in.substr(i), len) != " ") break;
      i += len;
    }
    if (i == in.size()) return true;
    if (rules_.add_dummy_prefix && !rules_.prefix_is_suffix) add_space(out);
    bool after_space = squeeze;
    while (i < in.size() && out.size() <= max_bytes) {
      size_t len = 0;
      std::string_view unit = unit_at(in.substr(i), len);
      i += len;
      while (after_space && unit.starts_with(' ')) unit.remove_prefix(1);
      if (unit.empty()) continue;
      for (const char c : unit) {
        if (c == ' ') {
          add_space(out);
        } else {
          out.push_back(c);
        }
      }
      after_space = squeeze && unit.ends_with(' ');
    }
    const std::string_view space = rules_.escape_whitespaces ? kSpaceSymbol : " ";
    while (squeeze && std::string_view(out).ends_with(space)) out.resize(out.size() - space.size());
    if (rules_.add_dummy_prefix && rules_.prefix_is_suffix) add_space(out);
    return i == in.size() && out.size() <= max_bytes;
  }

 private:
  void add_space(std::string& out) const {
    if (rules_.escape_whitespaces) {
      out += kSpaceSymbol;
    } else {
      out.push_back(' ');
    }
  }

  // What the text begins with, normalised; `len` bytes of it are consumed.
  std::string_view unit_at(std::string_view text, size_t& len) const {
    if (rules_.user_defined.may_start(text[0])) {
      len = rules_.user_defined.longest(text).len;
      if (len > 0) return text.substr(0, len);
    }
    if (!rules_.map.empty()) {
      const CharsMap::Match m = rules_.map.longest(text);
      len = m.len;
      if (len > 0) return m.replacement;
    }
    len = static_cast<size_t>(utf8_at(text, 0).len);
    return text.substr(0, len);
  }

  SentencePieceRules rules_;
};

}  // namespace

Result<CharsMap> CharsMap::parse(std::string_view blob) {
  CharsMap map;
  if (blob.empty()) return map;
  uint32_t trie_bytes = 0;
  if (blob.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  const size_t rest = blob.size() - std::min(blob.size(), sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes >= rest || blob.back() != '\0') {
    return fail(Code::corrupt, "tokenizer: precompiled_charsmap of " + std::to_string(blob.size()) +
                                   " bytes announces a table of " + std::to_string(trie_bytes) +
                                   " bytes and must end in a NUL");
  }
  map.units_.resize(trie_bytes / 4);
  std::memcpy(map.units_.data(), blob.data() + 4, trie_bytes);
  map.replacements_.assign(blob, 4 + trie_bytes);
  return map;
}

CharsMap::Match CharsMap::find(std::string_view text, bool longest) const {
  Match best;
  if (units_.empty()) return best;
  size_t node = offset_of(units_[0]);
  const size_t n_at_most = std::min(text.size(), kMaxKeyBytes);
  for (size_t i = 0; i < n_at_most; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const size_t at = value_of(units_[node]);
    if (at >= replacements_.size()) break;
    best.len = i + 1;
    best.replacement = std::string_view(replacements_.c_str() + at);  // ends at a NUL: the last byte is one
    if (!longest) break;
  }
  return best;
}

std::unique_ptr<Normalizer> make_precompiled(CharsMap map) { return std::make_unique<Precompiled>(std::move(map)); }

std::unique_ptr<Normalizer> make_sentencepiece(SentencePieceRules rules) {
  return std::make_unique<SentencePiece>(std::move(rules));
}

}  // namespace quire
