#include "app/tokenizer_hash.h"

#include <string>
#include <type_traits>
#include <vector>

namespace quire {
namespace {

// Texts and lists with their lengths in front, so that no two run into the same bytes.
class Bytes {
 public:
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T value) {
    const auto* from = reinterpret_cast<const char*>(&value);
    bytes_.append(from, sizeof value);
  }
  void add(const std::string& text) {
    add(text.size());
    bytes_ += text;
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& value : list) add(value);
  }
  Hash128 hash(std::span<const Token> ends) {
    for (const Token end : ends) add(end);
    return hash128(bytes_.data(), bytes_.size(), 0);
  }

 private:
  std::string bytes_;
};

}  // namespace

Hash128 tokenizer_hash(const TokenizerSpec& spec, std::span<const Token> ends) {
  // Every field by name: one that is added does not compile here.
  const auto& [model, pre, tokens, scores, types, merges, bos, eos, eot, unk, sep, pad, cls, mask, add_bos, add_eos,
               bos_by_name, add_space_prefix, remove_extra_whitespaces, precompiled_charsmap, unk_surface,
               chat_template] = spec;
  Bytes bytes;
  const auto all = [&bytes](const auto&... fields) { (bytes.add(fields), ...); };
  all(model, pre, tokens, scores, types, merges, bos, eos, eot, unk, sep, pad, cls, mask, add_bos, add_eos);
  all(bos_by_name, add_space_prefix, remove_extra_whitespaces, precompiled_charsmap, unk_surface, chat_template);
  return bytes.hash(ends);
}

Hash128 tokenizer_hash(const TokenizerFiles& files, std::span<const Token> ends) {
  Bytes bytes;
  for (const auto& [name, content] : files) {
    bytes.add(name);
    bytes.add(content);
  }
  return bytes.hash(ends);
}

}  // namespace quire
