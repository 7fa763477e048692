// Between two tokenizers: what one model has read or written, in the tokens of another, so that a draft model may have
// a vocabulary of its own. Tokens become text and text becomes tokens; control tokens go over by their text or by what
// they are for. The idea is known as universal assisted generation (Timor et al. 2025, "Accelerating LLM Inference with
// Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies").
//
// The tokens of a text that grows change near its end alone. So all but the last words of a text are settled and never
// looked at again, and what comes is cut together with those words: work and scratch for a token do not depend on how
// long the text is. What is made here is for guesses: where a tokenizer does not give back the text that it was given,
// the tokens are others than it would make of the whole text, and guesses are worse.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace quire {

// Immutable: any thread. Both tokenizers outlive it.
class TokenBridge {
 public:
  // One of a model's sides: its tokenizer and how many ids its embedding and its logits know, which may be more.
  struct Side {
    const Tokenizer* tokenizer = nullptr;
    int n_ids = 0;
  };
  // Code::invalid where no token of a side has text, or where the draft has not all ids of its tokenizer.
  static Result<std::unique_ptr<TokenBridge>> make(Side target, Side draft);

  // Whether the two have the same tokens under the same ids, but for one in 64, and control tokens at the end: then
  // each token is one token.
  bool by_id() const { return by_id_; }
  // The draft's token for the target's, −1 where it goes by its text. By id never −1: where the draft has not this
  // token, something else stands in for it.
  Token to_draft(Token id) const { return at(to_draft_, id); }
  // The target's token for the draft's; −1: its text says it, or, by id, the target has none.
  Token to_target(Token id) const { return at(to_target_, id); }
  // What the draft's texts begin with, −1: nothing.
  Token draft_bos() const { return draft_bos_; }

  const Tokenizer& target() const { return *target_.tokenizer; }
  const Tokenizer& draft() const { return *draft_.tokenizer; }
  int n_target() const { return target_.n_ids; }

 private:
  TokenBridge(Side target, Side draft);
  void match_ids();
  void match_controls();

  static Token at(const std::vector<Token>& table, Token id) {
    return id < 0 || static_cast<size_t>(id) >= table.size() ? -1 : table[static_cast<size_t>(id)];
  }

  const Side target_, draft_;
  std::vector<Token> to_draft_, to_target_;
  Token draft_bos_ = -1;
  bool by_id_ = false;
};

// One sequence on its way over a bridge. One thread.
class BridgedText {
 public:
  // Takes in up to n_most tokens of what `context`, the target's tokens, has beyond what it had. Whether that is all of
  // it now. The first n_public of them are such that others may know them. Of no use behind what it throws
  // (std::bad_alloc). REQUIRES it to begin with what it was.
  bool take(const TokenBridge& bridge, std::span<const Token> context, size_t n_public, size_t n_most);
  size_t n_taken() const { return n_taken_; }

  // The draft's tokens for what was taken in, but for a code point at the end that is not whole yet.
  std::span<const Token> ids() const { return ids_; }
  size_t n_settled() const { return n_settled_; }  // leading ids that stay what they are
  size_t n_public() const { return n_public_; }    // leading ids that came of nothing but the first n_public tokens
  // Leading ids that are what they were at the last mark(); none without one.
  size_t n_same() const { return n_same_; }
  void mark() { n_same_ = ids_.size(); }

  // The target's tokens for what the draft goes on with: `said`, its tokens behind ids(). Replaces what is in `out`.
  // Whether the draft may go on: not behind a control token, nor where it contradicts a code point that has begun.
  // REQUIRES all of `context` to be taken in.
  bool answer(const TokenBridge& bridge,
              std::span<const Token> context,
              std::span<const Token> said,
              std::vector<Token>& out) const;

 private:
  void put(const TokenBridge& bridge, Token id);
  void put_control(const TokenBridge& bridge, Token id);
  void cut_tail(const TokenBridge& bridge);
  std::vector<Token> cut(const TokenBridge& bridge, std::string_view before, std::string_view text) const;
  void settle(const TokenBridge& bridge);
  std::string before(const TokenBridge& bridge, size_t n_ids, size_t end) const;

  std::vector<Token> ids_;
  size_t n_taken_ = 0, n_settled_ = 0, n_public_ = 0, n_same_ = 0;
  std::string tail_;          // text behind the settled ids
  std::string before_;        // the last text of these, from the start of a token on
  size_t n_held_ = 0;         // last bytes of tail_ that no id stands for yet
  bool begins_ = true;        // nothing but a control token, or nothing, stands before tail_
  bool strips_space_ = true;  // the next text is the first of all
};

}  // namespace quire
