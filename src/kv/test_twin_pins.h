// What test_twin.h does with pins. Whatever is asked of the cache, a pinned prefix is found whole and holds what it
// held; the model says which pins are refused, and what all of them hold.
#pragma once
#include "kv/test_twin.h"

namespace quire {

inline void Twin::use_pins() {
  if (!pinned_.empty() && rng_.between(0, 2) == 0) {
    unpin(static_cast<size_t>(rng_.between(0, static_cast<int64_t>(pinned_.size()) - 1)));
  } else if (!seqs_.empty()) {
    pin(*any());
  }
}

// Blocks of a group that pins hold, each once.
inline int Twin::n_pinned_blocks(size_t group) const {
  std::set<std::string> held;
  for (const auto& pin : pinned_) {
    for (size_t b = 0; b < pin->paths.size(); ++b) {
      if (group == 0 || holds(*pin, b)) held.insert(pin->paths[b]);
    }
  }
  return static_cast<int>(held.size());
}

inline bool Twin::pins_fit() const {
  const int n = n_pinned_blocks(0);
  const int n_window = knobs_.window > 0 ? n_pinned_blocks(1) : 0;
  return n <= knobs_.pins.n_blocks[0] && n_window <= knobs_.pins.n_blocks[1] &&
         int64_t{8} * knobs_.block_tokens * (n + n_window) <= knobs_.pins.bytes;
}

inline void Twin::pin(Seq& of) {
  index(of);
  auto pin = std::make_unique<Seq>();
  pin->key = of.key;
  pin->tokens = of.tokens;
  pin->extras = of.extras;
  pin->n_base = of.n_base;
  const int n = (static_cast<int>(of.tokens.size()) - 1) / knobs_.block_tokens;
  const bool there = cache_->peek(pin->prefix()) == n * knobs_.block_tokens;
  if (exact()) {
    ASSERT_EQ(there, expected_hit(*pin) == n);
  }
  const bool tried = there && std::ssize(pinned_) < knobs_.pins.n_pins;
  const auto added = pins_->add(++n_pin_ids_, pin->prefix());
  if (!tried) {
    ASSERT_FALSE(added);
    ++n_pins_refused;
    return;
  }
  if (exact()) touch(*pin, n);
  pin->first_held = std::min(first_block(n * knobs_.block_tokens), static_cast<size_t>(n));
  for (int b = 1; b <= n; ++b) {
    pin->paths.push_back(pin->path(b, knobs_.block_tokens));
    if (holds(*pin, static_cast<size_t>(b) - 1)) std::erase(idle_, pin->paths.back());
  }
  pinned_.push_back(std::move(pin));
  ASSERT_EQ(static_cast<bool>(added), pins_fit());
  if (added) {
    ASSERT_EQ((*added)->n_tokens, n * knobs_.block_tokens);
    n_pinned += n > 0 ? 1 : 0;
    return;
  }
  ASSERT_EQ(added.error().code, Code::exhausted);
  give_back_from(*pinned_.back(), 0);
  pinned_.pop_back();
  ++n_pins_refused;
}

inline void Twin::unpin(size_t i) {
  const uint64_t id = pins_->pins()[i].id;
  give_back_from(*pinned_[i], 0);
  pinned_.erase(pinned_.begin() + static_cast<std::ptrdiff_t>(i));
  ASSERT_TRUE(pins_->remove(id));
  ASSERT_FALSE(pins_->remove(id));
}

// Adds the pins' holds to n_held.
inline void Twin::check_pins(int64_t& n_held) {
  if (pins_ == nullptr) return;
  ASSERT_EQ(pins_->pins().size(), pinned_.size());
  int64_t bytes = 0;
  for (size_t g = 0; g < (knobs_.window > 0 ? 2U : 1U); ++g) {
    ASSERT_EQ(pins_->n_blocks(static_cast<int>(g)), n_pinned_blocks(g));
    bytes += int64_t{8} * knobs_.block_tokens * n_pinned_blocks(g);
  }
  ASSERT_EQ(pins_->bytes(), bytes);
  ASSERT_LE(bytes, knobs_.pins.bytes);
  for (size_t i = 0; i < pinned_.size(); ++i) {
    const Pins::Pin& pin = pins_->pins()[i];
    n_held += static_cast<int64_t>(pin.kv.table.size());
    ASSERT_EQ(cache_->peek(pinned_[i]->prefix()), pin.n_tokens) << "a pinned block is gone";
    for (int p = 0; p < pin.n_tokens; ++p) {
      const GroupBlocks& blocks = pin.kv.table[static_cast<size_t>(p / knobs_.block_tokens)];
      for (size_t g = 0; g < blocks.size(); ++g) {
        if (!blocks[g]) continue;
        const KvGroupView view = cache_->view().groups[g];
        const std::byte* at = view.base + blocks[g].id() * view.block_bytes;
        ASSERT_EQ(reinterpret_cast<const uint64_t*>(at)[p % knobs_.block_tokens], pinned_[i]->content(p));
      }
    }
  }
}

}  // namespace quire
