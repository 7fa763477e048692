// Compiled grammars, so that a schema that many requests send is compiled once: whoever asks for one that is being
// compiled waits for it. What cannot be compiled is remembered as well. Bounded by bytes, the one used last stays
// longest; a request keeps what it has. Never on disk. Any thread.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "text/grammar/source.h"

namespace quire {

class GrammarCache {
 public:
  static constexpr size_t kMaxEntries = 1024;

  // `tokenizer` outlives it.
  GrammarCache(const Tokenizer& tokenizer, int64_t max_bytes) : tokenizer_(tokenizer), max_bytes_(max_bytes) {}

  // Errors as compile_grammar's, under its limits.
  Result<std::shared_ptr<const Grammar>> get(const GrammarSource& source);
  // Whether it can be compiled, under other limits; nothing is kept.
  Status check(const GrammarSource& source, const GrammarLimits& limits) const;
  // The tokenizer's vocabulary as grammars see it; made when it is first asked for.
  std::shared_ptr<const TokenTrie> vocabulary();

  struct Stats {
    int64_t n_compiled = 0, n_found = 0;  // found: also those that waited
    int64_t n_entries = 0, bytes = 0;
  };
  Stats stats() const;

 private:
  struct Entry {
    std::string source;  // as written
    bool done = false;   // otherwise somebody compiles it
    Result<std::shared_ptr<const Grammar>> grammar = fail(Code::internal, "");
  };
  using Entries = std::list<std::shared_ptr<Entry>>;

  std::shared_ptr<Entry> find(const std::string& source);
  void finish(Entry& entry, Result<std::shared_ptr<const Grammar>> made);
  void forget(const Entry& entry);
  void trim();
  static int64_t bytes_of(const Entry& entry);
  int64_t bytes() const;

  const Tokenizer& tokenizer_;
  const int64_t max_bytes_;
  mutable std::mutex mu_;
  std::condition_variable done_;
  Entries entries_;                                                    // the one used last first
  std::unordered_map<std::string_view, Entries::iterator> by_source_;  // views the entries' own
  int64_t n_compiled_ = 0, n_found_ = 0;
  std::once_flag vocabulary_made_;
  std::shared_ptr<const TokenTrie> vocabulary_;
};

}  // namespace quire
