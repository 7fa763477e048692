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

extern __shared__ __align__(1024) unsigned char shared_bytes[];  // where the 128-byte swizzle begins anew

template <class T>
struct Shared {
  int base;
  QR_DEVICE explicit Shared(int from) : base(from) {}
  QR_DEVICE T& operator[](int i) const { return reinterpret_cast<T*>(shared_bytes + base)[i]; }
  QR_DEVICE uint32_t address(int i) const { return static_cast<uint32_t>(__cvta_generic_to_shared(&(*this)[i])); }
};

QR_DEVICE uint32_t add_to(Shared<uint32_t> to, int i, uint32_t x) { return atomicAdd(&to[i], x); }

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
QR_DEVICE double widened(uint64_t x) { return __ull2double_rn(x); }
QR_DEVICE float narrowed(double x) { return __double2float_rn(x); }
QR_DEVICE uint64_t truncated(double x) { return __double2ull_rz(x); }
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

// Instructions of 9.0 alone, and not of what is compatible with it.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kHasWgmma = true;
#else
inline constexpr bool kHasWgmma = false;
#endif

QR_DEVICE void barrier_init(Shared<uint64_t> barrier, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.address(0)), "r"(n) : "memory");
}
QR_DEVICE void barrier_arrive(Shared<uint64_t> barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier.address(0)) : "memory");
}
QR_DEVICE void barrier_expect(Shared<uint64_t> barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier.address(0)), "r"(bytes)
               : "memory");
}
QR_DEVICE void barrier_wait(Shared<uint64_t> barrier, int parity) {
  uint32_t is_over;
  do {
    asm volatile(
        "{\n.reg .pred over;\nmbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\nselp.u32 %0, 1, 0, over;\n}"
        : "=r"(is_over)
        : "r"(barrier.address(0)), "r"(parity)
        : "memory");
  } while (is_over == 0);
}
template <class T>
QR_DEVICE void bulk_copy(Shared<T> to, const void* from, int bytes, Shared<uint64_t> barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to.address(0)),
      "l"(from), "r"(bytes), "r"(barrier.address(0))
      : "memory");
}
QR_DEVICE void async_fence() { asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory"); }

struct WgmmaSums {
  float floats[64];
  QR_DEVICE WgmmaSums() {
    QR_UNROLL
    for (int i = 0; i < 64; ++i) floats[i] = 0.0F;
  }
  QR_DEVICE float operator[](int i) const { return floats[i]; }
};
QR_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
QR_DEVICE void wgmma(WgmmaSums& d, uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds, 1, 1, 0, 0;\n}"
      : "+f"(d.floats[0]), "+f"(d.floats[1]), "+f"(d.floats[2]), "+f"(d.floats[3]), "+f"(d.floats[4]),
        "+f"(d.floats[5]), "+f"(d.floats[6]), "+f"(d.floats[7]), "+f"(d.floats[8]), "+f"(d.floats[9]),
        "+f"(d.floats[10]), "+f"(d.floats[11]), "+f"(d.floats[12]), "+f"(d.floats[13]), "+f"(d.floats[14]),
        "+f"(d.floats[15]), "+f"(d.floats[16]), "+f"(d.floats[17]), "+f"(d.floats[18]), "+f"(d.floats[19]),
        "+f"(d.floats[20]), "+f"(d.floats[21]), "+f"(d.floats[22]), "+f"(d.floats[23]), "+f"(d.floats[24]),
        "+f"(d.floats[25]), "+f"(d.floats[26]), "+f"(d.floats[27]), "+f"(d.floats[28]), "+f"(d.floats[29]),
        "+f"(d.floats[30]), "+f"(d.floats[31]), "+f"(d.floats[32]), "+f"(d.floats[33]), "+f"(d.floats[34]),
        "+f"(d.floats[35]), "+f"(d.floats[36]), "+f"(d.floats[37]), "+f"(d.floats[38]), "+f"(d.floats[39]),
        "+f"(d.floats[40]), "+f"(d.floats[41]), "+f"(d.floats[42]), "+f"(d.floats[43]), "+f"(d.floats[44]),
        "+f"(d.floats[45]), "+f"(d.floats[46]), "+f"(d.floats[47]), "+f"(d.floats[48]), "+f"(d.floats[49]),
        "+f"(d.floats[50]), "+f"(d.floats[51]), "+f"(d.floats[52]), "+f"(d.floats[53]), "+f"(d.floats[54]),
        "+f"(d.floats[55]), "+f"(d.floats[56]), "+f"(d.floats[57]), "+f"(d.floats[58]), "+f"(d.floats[59]),
        "+f"(d.floats[60]), "+f"(d.floats[61]), "+f"(d.floats[62]), "+f"(d.floats[63])
      : "l"(a), "l"(b));
}
QR_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft, size_t kN>
QR_DEVICE void wgmma_wait(WgmmaSums (&sums)[kN]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
  if constexpr (kLeft == 0) {  // what reads them stays behind it
    QR_UNROLL
    for (size_t s = 0; s < kN; ++s) {
      QR_UNROLL
      for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(sums[s].floats[i])::"memory");
    }
  }
}

QR_DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which) { return __byte_perm(a, b, which); }

}  // namespace quire::dev
