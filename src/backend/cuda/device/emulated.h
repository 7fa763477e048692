// The door's body on the host (door.h has the contracts): each call is the emulator's, which checks it.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backend/cuda/emulated/emulator.h"
#include "quant/f16.h"

#define QR_DEVICE inline
#define QR_UNROLL

namespace quire::dev {

using Site = std::source_location;

inline int thread() { return emulated::machine().thread(); }
inline int block_x() { return emulated::machine().block(0); }
inline int block_y() { return emulated::machine().block(1); }
inline int block_z() { return emulated::machine().block(2); }
inline void sync(Site site = Site::current()) { emulated::machine().sync(site); }

inline void wait_for_previous() {}
inline void sync_warp(Site site = Site::current()) { emulated::machine().sync_warp(site); }

// An index that knows the line it stands in.
struct Index {
  Index(int index, Site from = Site::current()) : i(index), site(from) {}
  int i;
  Site site;
};

template <class T>
struct SharedElement {
  int at;
  Site site;
  operator T() const {
    T x;
    std::memcpy(&x, emulated::machine().touch_shared(at, sizeof(T), emulated::Access::read, site), sizeof x);
    return x;
  }
  void operator=(T x) const {
    std::memcpy(emulated::machine().touch_shared(at, sizeof(T), emulated::Access::write, site), &x, sizeof x);
  }
};

template <class T>
struct Shared {
  int base;
  explicit Shared(int from) : base(from) {}
  SharedElement<T> operator[](Index index) const { return {address(index.i), index.site}; }
  int address(int i) const { return base + i * static_cast<int>(sizeof(T)); }
};

inline uint32_t add_to(Shared<uint32_t> to, int i, uint32_t x, Site site = Site::current()) {
  std::byte* at = emulated::machine().touch_shared(to.address(i), sizeof x, emulated::Access::add, site);
  uint32_t before = 0;
  std::memcpy(&before, at, sizeof before);
  x += before;
  std::memcpy(at, &x, sizeof x);
  return before;
}

template <class T>
T load(const T* p, Site site = Site::current()) {
  emulated::machine().touch_device(p, sizeof(T), alignof(T), site);
  return *p;
}
template <class T>
void store(T* p, std::type_identity_t<T> x, Site site = Site::current()) {
  emulated::machine().touch_device(p, sizeof(T), alignof(T), site);
  *p = x;
}

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float add(float a, float b) { return a + b; }
inline float sub(float a, float b) { return a - b; }
inline float mul(float a, float b) { return a * b; }
inline float div(float a, float b) { return a / b; }
inline double add(double a, double b) { return a + b; }
inline double mul(double a, double b) { return a * b; }
inline double widened(float x) { return static_cast<double>(x); }
inline double widened(uint64_t x) { return static_cast<double>(x); }
inline float narrowed(double x) { return static_cast<float>(x); }
inline uint64_t truncated(double x) { return static_cast<uint64_t>(x); }
inline double as_double(uint32_t low, uint32_t high) { return std::bit_cast<double>(uint64_t{high} << 32 | low); }
inline float root(float a) { return std::sqrt(a); }
inline int fresh(int x) { return x; }
inline float as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t as_bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float whole(int32_t x) { return static_cast<float>(x); }
inline float to_float(uint16_t half) { return f16_to_f32(half); }
inline uint16_t to_half(float x) { return f32_to_f16(x); }

inline uint32_t shuffle_xor(uint32_t x, int n, Site site = Site::current()) {
  return emulated::machine().shuffle_xor(x, n, site);
}
inline float shuffle_xor(float x, int n, Site site = Site::current()) {
  return as_float(emulated::machine().shuffle_xor(as_bits(x), n, site));
}

template <class T>
void copy16(Shared<T> to, int i, const void* from, bool is_in, Site site = Site::current()) {
  emulated::machine().copy(to.address(i), from, 16, is_in, site);
}
template <class T>
void copy4(Shared<T> to, int i, const void* from, bool is_in, Site site = Site::current()) {
  emulated::machine().copy(to.address(i), from, 4, is_in, site);
}
inline void copy_commit() { emulated::machine().copy_commit(); }
template <int kLeft>
void copy_wait() {
  emulated::machine().copy_wait(kLeft);
}
template <class T>
void load_matrix(uint32_t (&r)[4], Shared<T> from, int i, Site site = Site::current()) {
  emulated::machine().load_matrix(r, from.address(i), site);
}
inline void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Site site = Site::current()) {
  emulated::machine().mma_s8(d, a, b, site);
}
inline void mma_s8(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1], Site site = Site::current()) {
  const uint32_t left[4] = {a[0], a[1], 0, 0}, right[2] = {b[0], 0};
  emulated::machine().mma_s8(d, left, right, site);
}

template <class A, class B>
void mma_s8_from(int32_t c, int32_t (&d)[4], const A& a, const B& b, Site site = Site::current()) {
  for (int32_t& each : d) each = c;
  mma_s8(d, a, b, site);
}

inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Site site = Site::current()) {
  emulated::machine().mma_bf16(d, a, b, site);
}

inline constexpr bool kHasWgmma = true;

inline void barrier_init(Shared<uint64_t> barrier, int n, Site site = Site::current()) {
  emulated::machine().barrier_init(barrier.address(0), n, site);
}
inline void barrier_arrive(Shared<uint64_t> barrier, Site site = Site::current()) {
  emulated::machine().barrier_arrive(barrier.address(0), 0, site);
}
inline void barrier_expect(Shared<uint64_t> barrier, int bytes, Site site = Site::current()) {
  emulated::machine().barrier_arrive(barrier.address(0), bytes, site);
}
inline void barrier_wait(Shared<uint64_t> barrier, int parity, Site site = Site::current()) {
  emulated::machine().barrier_wait(barrier.address(0), parity, site);
}
template <class T>
void bulk_copy(Shared<T> to, const void* from, int bytes, Shared<uint64_t> barrier, Site site = Site::current()) {
  emulated::machine().bulk_copy(to.address(0), from, bytes, barrier.address(0), site);
}
inline void async_fence(Site site = Site::current()) { emulated::machine().async_fence(site); }

struct WgmmaSums {
  float floats[64] = {};
  int fences = emulated::machine().wgmma_fences();
  int last = 0;  // the wgmma that adds to it last
  float operator[](Index index) const {
    emulated::machine().read_sums(last, index.site);
    return floats[index.i];
  }
};
inline void wgmma_fence(Site site = Site::current()) { emulated::machine().wgmma_fence(site); }
inline void wgmma(WgmmaSums& d, uint64_t a, uint64_t b, Site site = Site::current()) {
  d.last = emulated::machine().wgmma(d.floats, d.fences, a, b, site);
}
inline void wgmma_commit() { emulated::machine().wgmma_commit(); }
template <int kLeft, size_t kN>
void wgmma_wait(WgmmaSums (&)[kN]) {
  emulated::machine().wgmma_wait(kLeft);
}

inline uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which) {
  const uint64_t all = uint64_t{b} << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    out |= static_cast<uint32_t>(all >> (8 * (which >> (4 * i) & 7U)) & 0xffU) << (8 * i);
  }
  return out;
}

}  // namespace quire::dev
