// What is in memory, by what news said: for whoever has missed too much of them. Whatever it cannot write down for want
// of memory makes it useless, and it says so. One thread at a time.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "events/kv_news.h"

namespace quire {

class KvMirror {
 public:
  explicit KvMirror(int block_tokens) : block_tokens_(static_cast<size_t>(block_tokens)) {}

  void apply(const KvNews& news);
  // Some news are not known.
  void miss() { missed_ = true; }
  // As news that begin with nothing, parents before their children. nullopt: some were missed. Throws std::bad_alloc.
  std::optional<KvNews> all() const;
  size_t n_blocks() const { return blocks_.size(); }

 private:
  struct Stored {
    KvNews::Block block;
    uint64_t order = 0;  // no child comes before its parent
    std::vector<Token> tokens;
  };
  struct ByLow {
    size_t operator()(const Hash128& name) const { return name.lo; }
  };

  void take(const KvNews& news);

  const size_t block_tokens_;
  std::unordered_map<Hash128, Stored, ByLow> blocks_;
  uint64_t n_stored_ = 0;
  bool missed_ = false;
};

}  // namespace quire
