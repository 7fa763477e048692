// For tests that show that nothing is taken from the heap: replaces the program's operator new by one that counts, on
// all threads. To be included by one file of a program.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef QR_DEBUG           // a build with sanitizers (base/sanitized.h)
#define QR_COUNTS_NEWS 0  // the sanitizer's own operators stay: they check what every test here allocates
#else
#define QR_COUNTS_NEWS 1
#endif

namespace {
std::atomic<int64_t> n_news = 0;
// Above 0: the so many-th from now on throws, and where news_stay_failed is set all that follow. On the threads that
// are not spared.
std::atomic<int64_t> news_until_failure = 0;
std::atomic<bool> news_stay_failed = false;
thread_local int news_spared = 0;

// What is allocated while it lives is not what a test fails.
struct [[maybe_unused]] SpareNews {
  SpareNews() { ++news_spared; }
  ~SpareNews() { --news_spared; }
  SpareNews(const SpareNews&) = delete;
  SpareNews& operator=(const SpareNews&) = delete;
};

#if QR_COUNTS_NEWS
bool fails_now() {
  if (news_spared > 0) return false;
  int64_t left = news_until_failure.load(std::memory_order_relaxed);
  while (left > 0) {
    if (left == 1 && news_stay_failed) return true;
    if (news_until_failure.compare_exchange_weak(left, left - 1)) return left == 1;
  }
  return false;
}

void* counted(std::size_t bytes, std::size_t align) {
  n_news.fetch_add(1, std::memory_order_relaxed);
  if (fails_now()) throw std::bad_alloc();
  void* out = align <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                 : std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (out == nullptr) std::abort();
  return out;
}
#endif
}  // namespace

#if QR_COUNTS_NEWS
// NOLINTBEGIN(misc-definitions-in-headers): what replaces the library's may not be inline
void* operator new(std::size_t bytes) { return counted(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<std::size_t>(align));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
// NOLINTEND(misc-definitions-in-headers)
#endif
