// Memory of one rendering (or of one template's constants): bump allocation, freed at once. Values are plain data in
// it, so shared and even cyclic lists need no reference counts and nothing is destroyed recursively. One thread at a
// time. The limit is enforced by Context::step and Context::room, not here.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace quire::jinja {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* alloc(size_t bytes) {
    bytes = (bytes + 7) & ~size_t{7};
    used_ += bytes;
    if (bytes > left_) grow(bytes);
    std::byte* at = next_;
    next_ += bytes;
    left_ -= bytes;
    return at;
  }

  template <class T, class... A>
  T* make(A&&... args) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
    return new (alloc(sizeof(T))) T{std::forward<A>(args)...};
  }

  // n default-made elements.
  template <class T>
  T* make_array(size_t n) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
    T* items = static_cast<T*>(alloc(n * sizeof(T)));
    for (size_t i = 0; i < n; ++i) new (items + i) T{};
    return items;
  }

  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* at = static_cast<char*>(alloc(text.size()));
    std::memcpy(at, text.data(), text.size());
    return {at, text.size()};
  }

  size_t used() const { return used_; }

 private:
  // Chunks double from 16 KiB to 1 MiB; a larger piece gets a chunk of its own and the current one is kept.
  void grow(size_t bytes) {
    const size_t size = std::max(bytes, chunk_bytes_);
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    next_ = chunks_.back().get();
    left_ = size;
    chunk_bytes_ = std::min<size_t>(chunk_bytes_ * 2, 1 << 20);
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
  size_t used_ = 0;
  size_t chunk_bytes_ = 16 << 10;
};

}  // namespace quire::jinja
