// The door of constrained decoding: what an answer may be, and which tokens may come next. A Grammar is made once by a
// front end (json_schema.h, regex_grammar.h, …) and shared; a Matcher follows one answer through it. Every text that a
// matcher lets through belongs to the grammar, every text of the grammar is let through, however its bytes are cut into
// tokens; no state is reached from which no end can be. The idea is llguidance's (lexemes by derivatives below, Earley
// above); here a lexeme may end wherever it can, so that nothing depends on which match is the longest (decision 013).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/grammar/token_trie.h"

namespace quire {

namespace grammar {
struct Program;
struct Workspace;
}  // namespace grammar

// What a grammar may cost to compile. Counted in steps, so the same source has the same answer on every machine.
struct GrammarLimits {
  size_t source_bytes = 256 << 10;
  size_t fuel = 400'000;           // steps of a front end: schemas looked at, branches, states
  size_t derivatives = 100'000;    // to see which expressions match anything
  size_t memory_bytes = 64 << 20;  // expressions and states
};

// A compiled grammar. Immutable for its users; any thread. Matchers that end leave what they worked out to the next
// ones (which changes how fast they are and nothing else).
class Grammar {
 public:
  explicit Grammar(grammar::Program program);
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  // Memory that this grammar holds now, what ended matchers left (two at most, 8 MiB each) included.
  size_t bytes() const;
  // What the source says that has no effect here, such as unknown formats, each naming where.
  const std::vector<std::string>& warnings() const;
  // What it was compiled to, for tests and tools.
  const grammar::Program& program() const;

 private:
  friend class Matcher;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// One answer's way through a grammar. One thread at a time.
class Matcher {
 public:
  // Steps that one mask may take: far more than real grammars need (their worst is a twentieth), some 30 ms.
  static constexpr uint64_t kMaskFuel = 4'000'000;

  Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> vocabulary);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // Bit i of word i / 32 says whether token i may come next, end tokens where may_end(). Words beyond n_logits are left
  // alone. REQUIRES words.size() ≥ n_words(). Code::exhausted where the grammar is too ambiguous to tell within
  // kMaskFuel; the words are all zero then. All zero without an error: nothing may come (after the end, or because the
  // vocabulary lacks what the grammar wants).
  Status mask(std::span<uint32_t> words);
  size_t n_words() const { return vocabulary_->n_words(); }

  // Goes one token further. Code::invalid, and nothing changed, when it may not come next.
  Status accept(Token id);
  // As one accept of a token of these bytes; for text that no token stands for, such as the start of an answer that was
  // given.
  Status accept_text(std::string_view bytes);
  // Undoes the last n accepts. REQUIRES n ≤ accepted().
  void rollback(size_t n);
  size_t accepted() const { return steps_.size(); }

  bool may_end() const;  // what came so far is a whole text of the grammar
  bool ended() const;    // an end token came
  // The bytes that must come next, as far as there is no choice; at most `max_bytes`.
  std::string forced_bytes(size_t max_bytes);
  // The control token that must come next, −1 where there is a choice, where text may come or the end.
  Token forced_control();
  // Whether a longer token may come that begins with `held`, which is the end of what was accepted. True where telling
  // takes more than a bounded number of steps.
  bool may_be_longer(std::string_view held);

 private:
  struct Step {
    Token token;       // −1: text_ from `text_from` on
    size_t text_from;  // length of text_ before this step
    uint32_t config;   // after it; kEnded behind an end token
  };
  static constexpr uint32_t kEnded = ~uint32_t{0};
  uint32_t now() const;
  Result<uint32_t> walk(uint32_t from, Token id, std::string_view bytes);
  Status make_room();
  Result<uint32_t> walk_again(Token id, std::string_view bytes);
  Status replay();
  Status fill(std::span<uint32_t> words);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrie> vocabulary_;
  std::unique_ptr<grammar::Workspace> work_;
  std::vector<Step> steps_;
  std::string text_;  // of steps without a token
  size_t room_;       // bytes that the automaton may have before it is emptied
};

}  // namespace quire
