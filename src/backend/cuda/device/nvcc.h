// The door's body on a device (door.h has the contracts). Compiled with -fmad=false.
#pragma once
#include <cstdint>
#include <type_traits>

#define QR_DEVICE __device__ __forceinline__
#define QR_UNROLL _Pragma("unroll")

namespace quire::dev {

QR_DEVICE int thread() { return static_cast<int>(threadIdx.x); }
QR_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
QR_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
QR_DEVICE int block_z() { return static_cast<int>(blockIdx.z); }
QR_DEVICE void sync() { __syncthreads(); }
QR_DEVICE void sync_warp() { __syncwarp(); }

QR_DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
QR_DEVICE void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern __shared__ __align__(16) unsigned char shared_bytes[];

template <class T>
struct Shared {
  int base;
  QR_DEVICE explicit Shared(int from) : base(from) {}
  QR_DEVICE T& operator[](int i) const { return reinterpret_cast<T*>(shared_bytes + base)[i]; }
  QR_DEVICE uint32_t address(int i) const { return static_cast<uint32_t>(__cvta_generic_to_shared(&(*this)[i])); }
};

template <class T>
QR_DEVICE T load(const T* p) {
  __builtin_assume(__isGlobal(p));
  return *p;
}
template <class T>
QR_DEVICE void store(T* p, std::type_identity_t<T> x) {
  __builtin_assume(__isGlobal(p));
  *p = x;
}

QR_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
QR_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
QR_DEVICE float sub(float a, float b) { return __fsub_rn(a, b); }
QR_DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
QR_DEVICE float div(float a, float b) { return __fdiv_rn(a, b); }
QR_DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
QR_DEVICE double mul(double a, double b) { return __dmul_rn(a, b); }
QR_DEVICE double widened(float x) { return static_cast<double>(x); }
QR_DEVICE double as_double(uint32_t low, uint32_t high) {
  return __hiloint2double(static_cast<int>(high), static_cast<int>(low));
}
QR_DEVICE float root(float a) { return __fsqrt_rn(a); }
QR_DEVICE int fresh(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
QR_DEVICE float as_float(uint32_t bits) { return __uint_as_float(bits); }
QR_DEVICE uint32_t as_bits(float x) { return __float_as_uint(x); }
QR_DEVICE float whole(int32_t x) { return __int2float_rn(x); }
QR_DEVICE float to_float(uint16_t half) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
  return x;
}
QR_DEVICE uint16_t to_half(float x) {
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return half;
}

QR_DEVICE float shuffle_xor(float x, int n) { return __shfl_xor_sync(~0U, x, n); }
QR_DEVICE uint32_t shuffle_xor(uint32_t x, int n) { return __shfl_xor_sync(~0U, x, n); }

template <class T>
QR_DEVICE void copy16(Shared<T> to, int i, const void* from, bool is_in) {
  const int n = is_in ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to.address(i)), "l"(from), "r"(n) : "memory");
}
template <class T>
QR_DEVICE void copy4(Shared<T> to, int i, const void* from, bool is_in) {
  const int n = is_in ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to.address(i)), "l"(from), "r"(n) : "memory");
}
QR_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
QR_DEVICE void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

template <class T>
QR_DEVICE void load_matrix(uint32_t (&r)[4], Shared<T> from, int i) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from.address(i))
               : "memory");
}
QR_DEVICE void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
QR_DEVICE void mma_s8(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

QR_DEVICE void mma_s8_from(int32_t c, int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c));
}
QR_DEVICE void mma_s8_from(int32_t c, int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c));
}

QR_DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

QR_DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which) { return __byte_perm(a, b, which); }

}  // namespace quire::dev
