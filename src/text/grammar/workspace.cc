// See workspace.h.
#include "text/grammar/workspace.h"

#include <algorithm>
#include <optional>

namespace quire::grammar {

const std::vector<uint32_t>* MaskCache::find(Config c) {
  const auto it = where_.find(c);
  if (it == where_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return &it->second->words;
}

void MaskCache::put(Config c, std::span<const uint32_t> words) {
  const size_t size = words.size_bytes() + 128;
  while (!entries_.empty() && bytes_ + size > kMaxBytes) {
    where_.erase(entries_.back().config);
    entries_.pop_back();
    bytes_ -= size;
  }
  entries_.push_front({c, {words.begin(), words.end()}});
  where_[c] = entries_.begin();
  bytes_ += size;
}

void MaskCache::clear() {
  entries_.clear();
  where_.clear();
  bytes_ = 0;
}

// What a configuration counts when this mask comes to it first.
uint64_t Workspace::charge(Config c) {
  if (c >= seen_in.size()) seen_in.resize(automaton.n_configs() + automaton.n_configs() / 2 + 16, 0);
  if (seen_in[c] == mask_serial) return 0;
  seen_in[c] = mask_serial;
  return automaton.cost(c);
}

bool Workspace::walk(
    Config c, const TokenTrie& trie, std::span<const TokenTrie::Node> nodes, std::span<uint32_t> words, uint64_t fuel) {
  path_.resize(trie.longest() + 1);
  path_[0] = c;
  const uint8_t* class_of = automaton.program().classes.of_byte.data();
  uint64_t used = charge(c);
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Config to = automaton.step(path_[node.depth - 1u], class_of[node.byte]);
    if (to == Automaton::kDead) {
      i = node.skip;
      ++used;
      continue;
    }
    used += 1 + charge(to);
    if (used > fuel || automaton.failed()) return false;
    path_[node.depth] = to;
    for (Token t = node.token; t >= 0; t = trie.same_as(t)) {
      words[static_cast<size_t>(t) / 32] |= 1u << (static_cast<uint32_t>(t) % 32);
    }
    ++i;
  }
  return used <= fuel && !automaton.failed();
}

bool Workspace::may_be_longer(Config c, const TokenTrie& trie, std::string_view held) {
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  const std::optional<size_t> at = trie.find(held);
  if (!at) return false;
  path_.resize(trie.longest() + 1);
  path_[held.size()] = c;
  const uint8_t* class_of = automaton.program().classes.of_byte.data();
  size_t used = 0;
  for (size_t i = *at + 1; i < nodes[*at].skip;) {
    const TokenTrie::Node& node = nodes[i];
    const Config to = automaton.step(path_[node.depth - 1u], class_of[node.byte]);
    if (automaton.failed() || ++used > kLongerFuel) return true;
    if (to != Automaton::kDead && node.token >= 0) return true;
    path_[node.depth] = to;
    i = to == Automaton::kDead ? node.skip : i + 1;
  }
  return false;
}

bool Workspace::mask(Config c, const TokenTrie& trie, std::span<uint32_t> words, uint64_t fuel) {
  if (++mask_serial == 0) {
    std::fill(seen_in.begin(), seen_in.end(), 0);
    mask_serial = 1;
  }
  const int chars = automaton.free_chars(c);
  const TokenTrie::Slice* slice = nullptr;
  for (const TokenTrie::Slice& s : trie.slices()) {
    if (s.max_chars <= chars) slice = &s;
  }
  if (slice != nullptr) std::copy(slice->mask.begin(), slice->mask.end(), words.begin());
  if (!walk(c, trie, slice != nullptr ? std::span(slice->rest) : trie.nodes(), words, fuel)) return false;
  if (!automaton.has_controls(c)) return true;
  const std::vector<Token>& controls = automaton.program().net.controls;
  for (uint32_t i = 0; i < controls.size(); ++i) {
    const auto t = static_cast<size_t>(controls[i]);
    if (t >= trie.n_logits() || automaton.step_control(c, i) == Automaton::kDead) continue;
    words[t / 32] |= 1u << (t % 32);
  }
  return !automaton.failed();
}

}  // namespace quire::grammar
