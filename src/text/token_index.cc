// See token_index.h.
#include "text/token_index.h"

#include <algorithm>
#include <bit>

namespace quire {

void TokenIndex::build(const std::vector<std::string>& texts, const std::vector<bool>& searchable) {
  offsets_.assign(1, 0);
  bytes_.clear();
  max_len_ = 0;
  for (const std::string& t : texts) {
    bytes_ += t;
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  const size_t capacity = std::bit_ceil(std::max<size_t>(texts.size() * 2, 16));
  slots_.assign(capacity, Slot{});
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
  for (size_t id = 0; id < texts.size(); ++id) {
    if (texts[id].empty() || !searchable[id]) continue;
    max_len_ = std::max(max_len_, texts[id].size());
    if (find(texts[id]) >= 0) continue;
    const uint64_t h = mix_bytes(texts[id]);
    auto i = static_cast<size_t>(h >> shift_);
    while (slots_[i].id >= 0) i = (i + 1) & mask_;
    slots_[i] = {static_cast<uint32_t>(h), static_cast<Token>(id)};
  }
}

}  // namespace quire
