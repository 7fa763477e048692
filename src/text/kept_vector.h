// Working memory that a thread keeps from one call to the next, because calls come by the thousand and are short: a
// vector that is empty at first. What a large text made of it is given back at the end, so that no thread holds for
// ever what its largest text took.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

// What encoding a text takes beside its tokens, at most for each byte of the text as the tokenizer's rules left it.
inline constexpr int64_t kEncodeBytes = 128;

inline constexpr size_t kKeptBytes = 64 << 10;  // of one such vector, between calls

template <class T>
class KeptVector {
 public:
  // `kept` is this thread's own and outlives it.
  explicit KeptVector(std::vector<T>& kept) : kept_(kept) { kept_.clear(); }
  ~KeptVector() {
    if (kept_.capacity() * sizeof(T) > kKeptBytes) std::vector<T>().swap(kept_);
  }
  KeptVector(const KeptVector&) = delete;
  KeptVector& operator=(const KeptVector&) = delete;
  std::vector<T>& operator*() const { return kept_; }

 private:
  std::vector<T>& kept_;
};

}  // namespace quire
