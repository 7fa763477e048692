// Hash-consing: short runs of 32-bit numbers in one pool, equal runs once. Ids count from 0 in order of first sight,
// so the same sequence of calls gives the same ids everywhere. One thread at a time.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire::grammar {

inline uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 32);
}

class Intern {
 public:
  Intern() : slots_(64, kFree) {}

  // The id of `run`; a new one is size() − 1.
  uint32_t add(std::span<const uint32_t> run) {
    uint64_t h = run.size();
    for (const uint32_t v : run) h = mix(h, v);
    size_t i = h & (slots_.size() - 1);
    for (; slots_[i] != kFree; i = (i + 1) & (slots_.size() - 1)) {
      const std::span<const uint32_t> known = (*this)[slots_[i]];
      if (std::equal(known.begin(), known.end(), run.begin(), run.end())) return slots_[i];
    }
    const auto id = static_cast<uint32_t>(ends_.size());
    slots_[i] = id;
    pool_.insert(pool_.end(), run.begin(), run.end());
    ends_.push_back(pool_.size());
    hashes_.push_back(h);
    if (ends_.size() * 2 > slots_.size()) rehash(slots_.size() * 2);
    return id;
  }
  std::span<const uint32_t> operator[](uint32_t id) const {
    const size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::span(pool_).subspan(begin, ends_[id] - begin);
  }
  size_t size() const { return ends_.size(); }
  size_t bytes() const { return pool_.size() * 4 + ends_.size() * 16 + slots_.size() * 4; }
  // Forgets all ids from n on.
  void truncate(size_t n) {
    ends_.resize(n);
    hashes_.resize(n);
    pool_.resize(n == 0 ? 0 : ends_[n - 1]);
    rehash(slots_.size());
  }

 private:
  static constexpr uint32_t kFree = ~uint32_t{0};
  void rehash(size_t n) {
    slots_.assign(n, kFree);
    for (size_t id = 0; id < hashes_.size(); ++id) {
      size_t i = hashes_[id] & (n - 1);
      while (slots_[i] != kFree) i = (i + 1) & (n - 1);
      slots_[i] = static_cast<uint32_t>(id);
    }
  }

  std::vector<uint32_t> pool_;
  std::vector<size_t> ends_;
  std::vector<uint64_t> hashes_;
  std::vector<uint32_t> slots_;
};

}  // namespace quire::grammar
