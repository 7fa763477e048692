#include "engine/swaps.h"

#include <new>
#include <utility>

namespace quire {

void Swaps::out(Sequence& seq) {
  drop(seq, false);
  if (most_bytes_ == 0 || !cache_.parts_with_past(seq.kv, seq.n_computed)) return;
  Counters& counts = accounts_.counters();
  const int64_t n = cache_.image_bytes(seq.kv, seq.n_computed);
  if (n > most_bytes_ - bytes_) {
    ++counts.n_swaps_refused;
    return;
  }
  try {
    std::optional<KvImage> image = cache_.copy_out(seq.kv, seq.n_computed);
    if (image) seq.swapped = std::make_unique<KvImage>(std::move(*image));
  } catch (const std::bad_alloc&) {
    seq.swapped = nullptr;
  }
  if (seq.swapped == nullptr) {
    ++counts.n_swaps_refused;
    return;
  }
  bytes_ += n;
  ++counts.n_swaps_out;
}

bool Swaps::in(Sequence& seq) {
  if (!cache_.put_back(seq.kv, *seq.swapped)) return false;
  seq.n_computed = seq.n_restored = seq.swapped->n_tokens;
  return true;
}

void Swaps::drop(Sequence& seq, bool restored) {
  const std::unique_ptr<KvImage> image = std::exchange(seq.swapped, nullptr);
  if (image == nullptr) return;
  bytes_ -= image->n_bytes;
  if (!restored) return;
  ++accounts_.counters().n_swaps_in;
  accounts_.counters().n_swapped_tokens += image->n_tokens;
}

}  // namespace quire
