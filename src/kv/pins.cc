#include "kv/pins.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace quire {

Pins::Pins(KvCache& cache, const PinLimits& limits) : cache_(cache), limits_(limits) {
  if (limits.n_pins == 0) return;
  pins_.reserve(static_cast<size_t>(limits.n_pins));
  for (int g = 0; g < cache.n_groups(); ++g) holders_.emplace_back(static_cast<size_t>(cache.pool(g).n_blocks()));
}

Pins::~Pins() {
  for (Pin& pin : pins_) cache_.release(pin.kv);
}

Result<const Pins::Pin*> Pins::add(uint64_t id, const Prefix& prefix) {
  QR_DCHECK(std::ranges::find(pins_, id, &Pin::id) == pins_.end());
  if (std::ssize(pins_) >= limits_.n_pins)
    return fail(Code::exhausted, "there are " + std::to_string(pins_.size()) + " pins, which is the limit");
  const int n_wanted = whole_tokens(static_cast<int>(prefix.tokens.size()));
  const int n_there = cache_.peek(prefix);
  if (n_there < n_wanted) {
    return fail(Code::exhausted, "others needed the room: of the " + std::to_string(n_wanted) +
                                     " tokens to be pinned the cache still has " + std::to_string(n_there));
  }
  Pin pin{id, n_wanted, 0, {}};
  QR_CHECK(cache_.match(pin.kv, prefix) == n_wanted);
  if (const Status fits = check_room(pin.kv); !fits) {
    cache_.release(pin.kv);
    return tl::make_unexpected(fits.error());
  }
  pin.bytes = count(pin.kv, 1);
  pins_.push_back(std::move(pin));
  return &pins_.back();
}

bool Pins::remove(uint64_t id) {
  const auto at = std::ranges::find(pins_, id, &Pin::id);
  if (at == pins_.end()) return false;
  count(at->kv, -1);
  cache_.release(at->kv);
  pins_.erase(at);
  return true;
}

std::string Pins::never_fits(int n_tokens) const {
  const int n = n_tokens / cache_.block_tokens();
  const int64_t bytes = n * cache_.pool(0).block_bytes();
  if (n <= limits_.n_blocks[0] && bytes <= limits_.bytes) return "";
  return std::to_string(n_tokens) + " tokens take " + std::to_string(n) + " blocks of " +
         std::to_string(cache_.pool(0).block_bytes()) + " bytes; pins may hold " + std::to_string(limits_.n_blocks[0]) +
         " blocks and " + std::to_string(limits_.bytes) + " bytes";
}

// Beside what is pinned already.
Status Pins::check_room(const SeqKv& kv) const {
  int64_t bytes = bytes_;
  if (const int64_t n = n_named_ + std::ssize(kv.table); n > limits_.n_named)
    return fail(Code::exhausted, "with it all pins together would name " + std::to_string(n) +
                                     " blocks, shared ones each time; the limit is " + std::to_string(limits_.n_named));
  for (size_t g = 0; g < holders_.size(); ++g) {
    int n = n_held_[g];
    for (const GroupBlocks& blocks : kv.table) {
      n += blocks[g] && holders_[g][static_cast<size_t>(blocks[g].id())] == 0 ? 1 : 0;
    }
    bytes += (n - n_held_[g]) * cache_.pool(static_cast<int>(g)).block_bytes();
    if (n > limits_.n_blocks[g])
      return fail(Code::exhausted, "with it pins would hold " + std::to_string(n) + " blocks; " +
                                       std::to_string(limits_.n_blocks[g]) + " may be pinned");
  }
  if (bytes <= limits_.bytes) return {};
  return fail(Code::exhausted, "with it pins would hold " + std::to_string(bytes) + " bytes; " +
                                   std::to_string(limits_.bytes) + " may be pinned");
}

// A pin comes or goes; returns the bytes of its blocks.
int64_t Pins::count(const SeqKv& kv, int sign) {
  int64_t bytes = 0;
  n_named_ += sign * std::ssize(kv.table);
  for (size_t g = 0; g < holders_.size(); ++g) {
    const int64_t block_bytes = cache_.pool(static_cast<int>(g)).block_bytes();
    for (const GroupBlocks& blocks : kv.table) {
      if (!blocks[g]) continue;
      int32_t& n = holders_[g][static_cast<size_t>(blocks[g].id())];
      const bool alone = n + sign == (sign > 0 ? 1 : 0);  // the first that comes, the last that goes
      n += sign;
      n_held_[g] += alone ? sign : 0;
      bytes_ += alone ? sign * block_bytes : 0;
      bytes += block_bytes;
    }
  }
  return bytes;
}

}  // namespace quire
