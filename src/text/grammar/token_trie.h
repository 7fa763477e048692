// A vocabulary as grammars see it: the bytes of every token in one trie, and slices of it. A slice is the tokens of at
// most n characters that a JSON string holds unescaped; its mask is made once, and where a grammar lets any such text
// follow, only the other tokens are walked. Control tokens have no bytes here: they count by id. Immutable; any thread.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace quire {

class Tokenizer;

class TokenTrie {
 public:
  struct Node {
    uint32_t skip;   // the next node that is not below this one
    int32_t token;   // the token that ends here, −1 none; others of the same bytes follow in same_as()
    uint16_t depth;  // bytes up to here, 1 for the first
    uint8_t byte;
  };
  struct Slice {
    int max_chars = 0;
    std::vector<uint32_t> mask;
    std::vector<Node> rest;  // in order of a walk: a node's children follow it
  };
  static constexpr size_t kMaxTokenBytes = 4096;  // longer tokens are never allowed

  // `bytes[id]` is what token id stands for in running text, empty for those that have no text; `ends` are the tokens
  // that end an answer; the width of masks is n_logits ≥ bytes.size().
  TokenTrie(std::vector<std::string> bytes, std::vector<Token> ends, size_t n_logits);
  static std::shared_ptr<const TokenTrie> of(const Tokenizer& tokenizer, size_t n_logits);

  size_t n_logits() const { return n_logits_; }
  size_t n_words() const { return (n_logits_ + 31) / 32; }
  // Empty where the token has no text.
  const std::string& bytes(Token id) const { return bytes_[static_cast<size_t>(id)]; }
  bool known(Token id) const { return id >= 0 && static_cast<size_t>(id) < bytes_.size(); }
  std::span<const Token> ends() const { return ends_; }
  bool is_end(Token id) const;

  std::span<const Node> nodes() const { return nodes_; }
  // The node that these bytes lead to; nothing where no token begins with them.
  std::optional<size_t> find(std::string_view bytes) const;
  std::span<const Slice> slices() const { return slices_; }  // ascending in max_chars
  // The next token with the same bytes, −1 none.
  Token same_as(Token id) const { return same_as_.empty() ? -1 : same_as_[static_cast<size_t>(id)]; }
  size_t longest() const { return longest_; }
  size_t memory_bytes() const;

 private:
  std::vector<Node> build(const std::vector<Token>& sorted) const;

  std::vector<std::string> bytes_;
  std::vector<Token> ends_;
  std::vector<Token> same_as_;
  size_t n_logits_ = 0, longest_ = 0;
  std::vector<Node> nodes_;
  std::vector<Slice> slices_;
};

}  // namespace quire
