// Strings to tokens and back. A Tokenizer is immutable after it is made: any thread may call it.
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/byte_range.h"
#include "text/tokenizer_spec.h"

namespace quire {

struct EncodeOptions {
  bool add_special = false;    // add BOS/EOS as the model's files say
  bool parse_special = false;  // turn the text of control tokens into their ids; otherwise it is plain text
  // Where control tokens are plain text all the same: what a user wrote inside a rendered chat template. In order,
  // disjoint; a control token's text that touches one of them is not turned into its id.
  std::span<const ByteRange> plain{};
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Appends the ids of `text` to `out`: any bytes, valid UTF-8 or not. Linear time in text.size(). Fails
  // (Code::invalid, naming the limit) only where the rules of a hostile file make the text larger than TextBudget
  // allows.
  virtual Status encode(std::string_view text, EncodeOptions, std::vector<Token>& out) const = 0;
  // Appends the bytes that `id` stands for in running text (may be part of a code point; empty for control tokens
  // unless `special`, and for ids from n_vocab() on, which models have whose embedding is padded). REQUIRES id ≥ 0.
  virtual void append_bytes(Token id, bool special, std::string& out) const = 0;
  // The text of whole sequences as the reference decodes it (a leading space that encoding added is dropped).
  virtual std::string decode(std::span<const Token> ids, bool special) const = 0;
  // True where decode() drops one leading space of the first token's bytes.
  virtual bool strips_leading_space() const = 0;
  const TokenizerSpec& spec() const { return spec_; }
  int n_vocab() const { return static_cast<int>(spec_.tokens.size()); }
  // Whether a model ends its turn with `id`.
  bool is_end(Token id) const {
    return id >= 0 && (id == spec_.eos || id == spec_.eot || std::find(ends_.begin(), ends_.end(), id) != ends_.end());
  }
  // Further ids that do, as a file beside the tokenizer's own names them. To be called before the tokenizer is shared.
  void add_ends(std::span<const Token> ids) { ends_.insert(ends_.end(), ids.begin(), ids.end()); }

 protected:
  explicit Tokenizer(TokenizerSpec spec) : spec_(std::move(spec)) {}

 private:
  TokenizerSpec spec_;
  std::vector<Token> ends_;
};

// Checks the spec (Code::corrupt names what is wrong) and builds the tables. Code::unsupported names an unknown model
// or pre-tokenizer.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(TokenizerSpec spec);

}  // namespace quire
