// What a matcher works with besides the grammar: the automaton as far as it is made, and masks by configuration. Left
// to the next matcher of the same grammar; all of it is cache.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"
#include "text/grammar/token_trie.h"

namespace quire::grammar {

// The masks of the configurations asked for last. A mask found here is the one that would be worked out again.
class MaskCache {
 public:
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  const std::vector<uint32_t>* find(Config c);
  void put(Config c, std::span<const uint32_t> words);
  void clear();
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    Config config;
    std::vector<uint32_t> words;
  };
  std::list<Entry> entries_;  // the one used last first
  std::unordered_map<Config, std::list<Entry>::iterator> where_;
  size_t bytes_ = 0;
};

struct Workspace {
  explicit Workspace(std::shared_ptr<const Program> program) : automaton(std::move(program)) {}

  // Sets the bits of all tokens that may follow `c`, no end tokens. False when it took more than `fuel` steps or the
  // automaton failed; what counts as a step does not depend on what is cached.
  bool mask(Config c, const TokenTrie& trie, std::span<uint32_t> words, uint64_t fuel);
  // Whether one of the tokens that begin with `held` and are longer may come, where `c` is what `held` led to. True
  // where it takes more than kLongerFuel steps or the automaton failed.
  bool may_be_longer(Config c, const TokenTrie& trie, std::string_view held);
  static constexpr size_t kLongerFuel = 20'000;
  void clear() {
    automaton.clear();
    masks.clear();
    seen_in.clear();
  }
  size_t bytes() const { return automaton.bytes() + masks.bytes(); }

  Automaton automaton;
  MaskCache masks;
  const TokenTrie* masks_of = nullptr;  // the vocabulary of the masks, for comparison only
  std::vector<uint32_t> seen_in;        // by configuration: the last mask that came by
  uint32_t mask_serial = 0;

 private:
  bool walk(Config c,
            const TokenTrie& trie,
            std::span<const TokenTrie::Node> nodes,
            std::span<uint32_t> words,
            uint64_t fuel);
  uint64_t charge(Config c);
  std::vector<Config> path_;
};

}  // namespace quire::grammar
