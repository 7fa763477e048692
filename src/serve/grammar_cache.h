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
#include <vector>

#include "text/grammar/source.h"

namespace quire {

class GrammarCache {
 public:
  static constexpr size_t kMaxEntries = 1024;
  // What requests hold of grammars that are not kept any more may take so many times as much as what is kept.
  static constexpr int64_t kElsewhere = 4;

  // `tokenizer` outlives it.
  GrammarCache(const Tokenizer& tokenizer, int64_t max_bytes) : tokenizer_(tokenizer), max_bytes_(max_bytes) {}

  // Errors as compile_grammar's, under its limits. Out of memory is a std::bad_alloc, also for those who wait.
  Result<std::shared_ptr<const Grammar>> get(const GrammarSource& source);
  // Whether this one would have to be compiled while requests hold as much as they may.
  bool no_room_for(const GrammarSource& source);
  int64_t most_elsewhere() const { return kElsewhere * max_bytes_; }
  int64_t max_bytes() const { return max_bytes_; }
  // Lets go of what is beyond its bytes since answers ended and left to their grammars what they had worked out, and of
  // one that is larger than all that may be kept; to be called now and then. Never throws.
  void sweep();
  // Whether it can be compiled, under other limits; nothing is kept.
  Status check(const GrammarSource& source, const GrammarLimits& limits) const;
  // The tokenizer's vocabulary as grammars see it; made when it is first asked for.
  std::shared_ptr<const TokenTrie> vocabulary();

  struct Stats {
    int64_t n_compiled = 0, n_found = 0;  // found: also those that waited
    int64_t n_entries = 0, bytes = 0;
    int64_t bytes_elsewhere = 0;  // of those that requests alone hold
  };
  Stats stats();

 private:
  struct Entry {
    std::string source;      // as written
    bool done = false;       // otherwise somebody compiles it
    bool no_memory = false;  // whoever compiled it ran out of memory
    Result<std::shared_ptr<const Grammar>> grammar = fail(Code::internal, "");
  };
  using Entries = std::list<std::shared_ptr<Entry>>;

  std::shared_ptr<Entry> find(const std::string& source);
  void finish(Entry& entry, Result<std::shared_ptr<const Grammar>> made);
  void forget(const Entry& entry);
  void trim(bool keep_last = true);
  static int64_t bytes_of(const Entry& entry);
  int64_t bytes() const;
  int64_t bytes_elsewhere();

  const Tokenizer& tokenizer_;
  const int64_t max_bytes_;
  mutable std::mutex mu_;
  std::condition_variable done_;
  Entries entries_;                                                    // the one used last first
  std::unordered_map<std::string_view, Entries::iterator> by_source_;  // views the entries' own
  std::vector<std::weak_ptr<const Grammar>> elsewhere_;                // left the cache while requests held them
  int64_t n_compiled_ = 0, n_found_ = 0;
  std::once_flag vocabulary_made_;
  std::shared_ptr<const TokenTrie> vocabulary_;
};

}  // namespace quire
