// Units of a fork's result to which several of its tasks contribute (a head's columns, a tile of attention). Whichever
// task brings the last of a unit goes on with it at once: what follows needs no fork of its own, and nobody waits.
// Owner: the backend's caller, who resets before the fork; tasks count.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

namespace quire {

class UnitCounts {
 public:
  void reset(int64_t n_units) {
    if (n_units > room_) {
      counts_ = std::make_unique<std::atomic<int64_t>[]>(static_cast<size_t>(n_units));
      room_ = n_units;
    }
    for (int64_t u = 0; u < n_units; ++u) counts_[static_cast<size_t>(u)].store(0, std::memory_order_relaxed);
  }

  // Adds what a task brought to a unit. True for the one whose addition makes it `whole`, who sees all that was
  // written.
  bool completes(int64_t unit, int64_t amount, int64_t whole) {
    if (amount == whole) return true;
    return counts_[static_cast<size_t>(unit)].fetch_add(amount, std::memory_order_acq_rel) + amount == whole;
  }

 private:
  std::unique_ptr<std::atomic<int64_t>[]> counts_;
  int64_t room_ = 0;
};

}  // namespace quire
