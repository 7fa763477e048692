// Row kernels: norms, activations, quantising activations, the sums that sampling needs. Reductions run over 16 lanes
// (element i belongs to lane i mod 16) and fold as a fixed tree (V::sum). One row at a time: no result depends on
// another row.
#pragma once
#include <type_traits>

#include "backend/cpu/kernels/exp.h"
#include "backend/cpu/kernels/linear_tiles.h"
#include "backend/cpu/kernels/tables.h"
#include "backend/cpu/kernels/unrolled.h"

namespace quire {
namespace {

template <class V>
struct Elementwise {
  using F = typename V::F;

  static void quantize_row(const float* x, int64_t n, const QuantRows& out, int64_t row) {
    if (out.rounded != nullptr) {
      float* to = out.rounded + row * out.rounded_stride;
      int64_t i = 0;
      for (; i + 16 <= n; i += 16) V::store_bf16(to + i / V::kBf16PerFloat, V::load(x + i));
      if (i < n) V::store_bf16(to + i / V::kBf16PerFloat, V::load_n(x + i, static_cast<int>(n - i)));
    }
    const int64_t tile_row = out.first_row + row;
    QuantTile* tiles = out.tiles != nullptr ? out.tile_of(row) : nullptr;
    const int64_t r = tile_row % QuantTile::kRows;
    const bool only_tiles = tile_row < out.only_tiles;
    const auto some = [&]<int N>(int64_t g, std::integral_constant<int, N>) __attribute__((always_inline)) {
      ActivationGroup* to = out.activations + row * out.n_activation_groups + g;
      int8_t* q[N];
      for (int i = 0; i < N; ++i) q[i] = only_tiles ? tiles[g + i].q[r] : to[i].q;
      ActivationScale of[N];
      quantize_activations<N>(x + g * kPanelDepth, q, of);
      for (int i = 0; i < N; ++i) {
        const auto& [scale, sums] = of[i];
        const int32_t sum = sums.first + sums.last;
        const float scaled_sum = scale * static_cast<float>(sum);
        if (only_tiles) {
          tiles[g + i].scale[r] = scale;
          tiles[g + i].scaled_sum[r] = scaled_sum;
          continue;
        }
        to[i].scale = scale;
        to[i].sum = sum;
        to[i].first_sum = sums.first;
        to[i].scaled_sum = scaled_sum;
        if (tiles != nullptr) tiles[g + i].put(r, to[i]);
      }
    };
    constexpr int kSome = V::kSideBySide;
    int64_t g = 0;
    for (; g + kSome <= out.n_activation_groups; g += kSome) some(g, std::integral_constant<int, kSome>());
    for (; g < out.n_activation_groups; ++g) some(g, std::integral_constant<int, 1>());
  }

  struct ActivationScale {
    float scale;
    typename V::Sums sums;
  };

  // N activation groups that lie one behind the other, operation after operation (see exp_some).
  template <int N>
  static QR_INLINE void quantize_activations(const float* x, int8_t* const* q, ActivationScale* out) {
    F lo[N], hi[N], most[N];
    float inverse[N];
    for (int i = 0; i < N; ++i) {
      lo[i] = V::load(x + i * kPanelDepth);
      hi[i] = V::load(x + i * kPanelDepth + 16);
      most[i] = V::max(V::abs(lo[i]), V::abs(hi[i]));
    }
    for (int i = 0; i < N; ++i) {
      const float amax = V::max_of(most[i]);
      const bool counts = amax >= 0x1p-120F;  // below, 127 / amax may be infinite
      inverse[i] = counts ? 127.0F / amax : 0.0F;
      out[i].scale = counts ? amax / 127.0F : 0.0F;
    }
    for (int i = 0; i < N; ++i) {
      // 0·x is NaN where x is infinite or NaN: the scale then carries it on instead of hiding it.
      if (V::has_nan(V::fma(hi[i], V::zero(), V::mul(lo[i], V::zero())))) {
        lo[i] = hi[i] = V::zero();
        inverse[i] = 0.0F;
        out[i].scale = __builtin_nanf("");
      }
    }
    for (int i = 0; i < N; ++i) {
      const F factor = V::set1(inverse[i]);
      out[i].sums = V::round_store(V::mul(lo[i], factor), V::mul(hi[i], factor), q[i]);
    }
  }

  static void rms_norm_row(float* y, const float* x, const float* w, int64_t n, float eps) {
    F acc = V::zero();
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      const F v = V::load(x + i);
      acc = V::fma(v, v, acc);
    }
    const int tail = static_cast<int>(n - i);
    if (tail > 0) {
      const F v = V::load_n(x + i, tail);
      acc = V::fma(v, v, acc);
    }
    const float mean = V::sum(acc) / static_cast<float>(n);
    const F factor = V::set1(1.0F / __builtin_sqrtf(mean + eps));
    for (i = 0; i + 16 <= n; i += 16) V::store(y + i, V::mul(V::mul(V::load(x + i), factor), V::load(w + i)));
    if (tail > 0) {
      V::store_n(y + i, V::mul(V::mul(V::load_n(x + i, tail), factor), V::load_n(w + i, tail)), tail);
    }
  }

  static void layer_norm_row(float* y, const float* x, int64_t n, const NormRow& norm) {
    const int64_t whole = n / 16 * 16;
    const int tail = static_cast<int>(n - whole);
    F acc = V::zero();
    for (int64_t i = 0; i < whole; i += 16) acc = V::add(acc, V::load(x + i));
    if (tail > 0) acc = V::add(acc, V::load_n(x + whole, tail));
    const F mean = V::set1(V::sum(acc) / static_cast<float>(n));
    acc = V::zero();
    for (int64_t i = 0; i < whole; i += 16) {
      const F v = V::sub(V::load(x + i), mean);
      acc = V::fma(v, v, acc);
    }
    if (tail > 0) {
      const F v = V::inside(0, tail, V::sub(V::load_n(x + whole, tail), mean), V::zero());
      acc = V::fma(v, v, acc);
    }
    const F factor = V::set1(1.0F / __builtin_sqrtf(V::sum(acc) / static_cast<float>(n) + norm.eps));
    const auto normed = [&](F v, F w)
                            __attribute__((always_inline)) { return V::mul(V::mul(V::sub(v, mean), factor), w); };
    for (int64_t i = 0; i < whole; i += 16) {
      const F v = normed(V::load(x + i), V::load(norm.w + i));
      V::store(y + i, norm.b == nullptr ? v : V::add(v, V::load(norm.b + i)));
    }
    if (tail == 0) return;
    const F v = normed(V::load_n(x + whole, tail), V::load_n(norm.w + whole, tail));
    V::store_n(y + whole, norm.b == nullptr ? v : V::add(v, V::load_n(norm.b + whole, tail)), tail);
  }

  static void add_row(float* x, const float* delta, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) V::store(x + i, V::add(V::load(x + i), V::load(delta + i)));
    for (; i < n; ++i) x[i] += delta[i];
  }

  static void scale_row(float* x, int64_t n, float factor) {
    const F by = V::set1(factor);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) V::store(x + i, V::mul(V::load(x + i), by));
    for (; i < n; ++i) x[i] *= factor;
  }

  static void mix_row(float* y, int64_t n, const WeighedRows& in) {
    const auto sum = [&](auto load) __attribute__((always_inline)) {
      F acc = V::zero();
      for (int j = 0; j < in.n; ++j) {
        acc = V::add(acc, V::mul(V::set1(in.shares[j]), load(in.rows + in.places[j] * in.stride)));
      }
      return acc;
    };
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      V::store(y + i, sum([i](const float* row) __attribute__((always_inline)) { return V::load(row + i); }));
    }
    const int tail = static_cast<int>(n - i);
    if (tail == 0) return;
    const auto some = [=](const float* row) __attribute__((always_inline)) { return V::load_n(row + i, tail); };
    V::store_n(y + i, sum(some), tail);
  }

  static void soft_cap_row(float* x, int64_t n, float cap) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) V::store(x + i, soft_cap_lanes<V>(V::load(x + i), cap));
    const int tail = static_cast<int>(n - i);
    if (tail > 0) V::store_n(x + i, soft_cap_lanes<V>(V::load_n(x + i, tail), cap), tail);
  }

  // 0.5·x·(1 + tanh(u)) = x / (1 + exp(−2u)) with u = √(2/π)·(x + 0.044715·x³).
  static F gelu_tanh(F x) {
    const F cubic = V::fma(V::mul(V::mul(x, x), V::set1(0.044715F)), x, x);
    const F e = exp_lanes<V>(V::mul(cubic, V::set1(-1.5957691F)));
    return V::div(x, V::add(V::set1(1.0F), e));
  }

  // x · Φ(x). Φ(−|x|) = ½·erfc(|x| / √2) by Abramowitz and Stegun 7.1.26, of which the absolute error is below 1e-7.
  static F gelu_erf(F x) {
    const F one = V::set1(1.0F);
    const F t = V::div(one, V::fma(V::abs(x), V::set1(0.23164189F), one));  // 0.3275911 / √2
    F p = V::set1(0.5307027F);                                              // half of their constants
    for (const float c : {-0.72657601F, 0.71070687F, -0.14224837F, 0.1274148F}) p = V::fma(p, t, V::set1(c));
    const F e = exp_lanes<V>(V::mul(V::mul(x, x), V::set1(-0.5F)));
    const F below = V::mul(V::mul(p, t), e);
    return V::mul(x, V::select_lt(x, V::zero(), below, V::sub(one, below)));
  }

  static F silu(F x) { return V::div(x, V::add(V::set1(1.0F), exp_lanes<V>(V::sub(V::zero(), x)))); }

  static F sigmoid(F x) { return V::div(V::set1(1.0F), V::add(V::set1(1.0F), exp_lanes<V>(V::sub(V::zero(), x)))); }

  template <Activation kAct>
  static F activated(F x) {
    if constexpr (kAct == Activation::silu) return silu(x);
    if constexpr (kAct == Activation::gelu_tanh) return gelu_tanh(x);
    if constexpr (kAct == Activation::gelu_erf) return gelu_erf(x);
    if constexpr (kAct == Activation::relu2) {
      const F above = V::max(V::zero(), x);  // the second where x is NaN
      return V::mul(above, above);
    }
    if constexpr (kAct == Activation::sigmoid) return sigmoid(x);
    if constexpr (kAct == Activation::none) return x;
    if constexpr (kAct == Activation::below_zero) {
      const F below = V::min(V::zero(), x);  // the second where x is NaN
      return V::sub(V::sub(exp_lanes<V>(below), V::set1(1.0F)), below);
    }
    if constexpr (kAct == Activation::clamped_silu) {
      const F gate = V::min(V::set1(7.0F), x);
      return V::div(gate, V::add(V::set1(1.0F), exp_lanes<V>(V::mul(gate, V::set1(-1.702F)))));
    }
  }

  template <Activation kAct>
  static F gated(F gate, F up) {
    if constexpr (kAct == Activation::clamped_silu) {
      up = V::add(V::max(V::set1(-7.0F), V::min(V::set1(7.0F), up)), V::set1(1.0F));
    }
    return V::mul(activated<kAct>(gate), up);
  }

  template <Activation kAct>
  static void gated_row(float* y, const float* gate, const float* up, int64_t n) {
    int64_t i = 0;
    if (up == nullptr) {
      for (; i + 16 <= n; i += 16) V::store(y + i, activated<kAct>(V::load(gate + i)));
      const int tail = static_cast<int>(n - i);
      if (tail > 0) V::store_n(y + i, activated<kAct>(V::load_n(gate + i, tail)), tail);
      return;
    }
    for (; i + 16 <= n; i += 16) V::store(y + i, gated<kAct>(V::load(gate + i), V::load(up + i)));
    const int tail = static_cast<int>(n - i);
    if (tail > 0) V::store_n(y + i, gated<kAct>(V::load_n(gate + i, tail), V::load_n(up + i, tail)), tail);
  }

  static void rotate_head(float* x, const float* rotation, int64_t n, bool interleaved) {
    const int64_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : n;
    int64_t f = 0;
    for (; f + 16 <= n; f += 16) {
      F at[2], by[2];
      if (interleaved) {
        V::load_pairs(x + 2 * f, at);
      } else {
        at[0] = V::load(x + f);
        at[1] = V::load(x + f + n);
      }
      V::load_pairs(rotation + 2 * f, by);
      const F rotated[2] = {V::sub(V::mul(at[0], by[0]), V::mul(at[1], by[1])),
                            V::add(V::mul(at[0], by[1]), V::mul(at[1], by[0]))};
      if (interleaved) {
        V::store_pairs(x + 2 * f, rotated);
      } else {
        V::store(x + f, rotated[0]);
        V::store(x + f + n, rotated[1]);
      }
    }
    for (; f < n; ++f) {
      const float a = x[f * step], b = x[f * step + apart];
      x[f * step] = a * rotation[2 * f] - b * rotation[2 * f + 1];
      x[f * step + apart] = a * rotation[2 * f + 1] + b * rotation[2 * f];
    }
  }

  static bool block_max(float* out, const float* x, int64_t n) {
    const F none = V::set1(-__builtin_inff()), top = V::set1(__builtin_inff());
    const F one = V::set1(1.0F);
    F bad = V::zero();  // 1 where a value was not below infinity: that is, infinite or NaN
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
      const F a = V::load(x + i), b = V::load(x + i + 16), c = V::load(x + i + 32), d = V::load(x + i + 48);
      bad = V::select_lt(a, top, V::select_lt(b, top, bad, one), one);
      bad = V::select_lt(c, top, V::select_lt(d, top, bad, one), one);
      *out++ = V::max_of(V::max(V::max(a, b), V::max(c, d)));
    }
    if (i < n) {
      F m = none;
      for (; i < n; i += 16) {
        const int tail = n - i < 16 ? static_cast<int>(n - i) : 16;
        const F v = V::inside(0, tail, V::load_n(x + i, tail), none);
        bad = V::select_lt(v, top, bad, one);
        m = V::max(v, m);
      }
      *out = V::max_of(m);
    }
    return V::max_of(bad) == 0.0F;
  }

  static float exp_row(float* out, const float* x, int64_t n, float max, float factor) {
    const F shift = V::set1(max);
    const F scale = V::set1(factor);
    F acc = V::zero();
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      const F p = exp_lanes<V>(V::mul(V::sub(V::load(x + i), shift), scale));
      if (out != nullptr) V::store(out + i, p);
      acc = V::add(acc, p);
    }
    const int tail = static_cast<int>(n - i);
    if (tail > 0) {
      const F p = exp_lanes<V>(V::mul(V::sub(V::load_n(x + i, tail), shift), scale));
      if (out != nullptr) V::store_n(out + i, p, tail);
      acc = V::add(acc, V::inside(0, tail, p, V::zero()));
    }
    return V::sum(acc);
  }

  // Independent sums: ten registers hide the latency (4 to 5 cycles at one or two instructions a cycle), and have to be
  // registers, or it is the stack that is probed.
  static constexpr int kChains = V::kChains;

  static int64_t spin_int8(int64_t rounds) {
    if constexpr (kHasTiles<V>) {
      return V::template Tiles<kPanelDepth, false>::spin(rounds);
    } else {
      return spin_dot(rounds);
    }
  }

  static int64_t spin_dot(int64_t rounds) {
    std::byte ones[sizeof(typename V::U)];
    __builtin_memset(ones, 1, sizeof ones);
    const typename V::U w = V::load_bytes(ones);
    typename V::template Dot<0, 127> acc[kChains];
    int32_t quads[kChains];
    for (int32_t& quad : quads) quad = 0x01010101;
    unrolled<0, kChains>([&](auto c) __attribute__((always_inline)) {
      acc[c.kValue].start(0);
      acc[c.kValue].template add<0, 2>(w, 0);
    });
    for (int64_t r = 0; r < rounds; ++r) {
      asm volatile("" : "+m"(quads));  // not known to the compiler, so no product is shared or leaves the loop
      unrolled<0, kChains>(
          [&](auto c) __attribute__((always_inline)) { acc[c.kValue].template add<1, 2>(w, quads[c.kValue]); });
    }
    unrolled<0, kChains>([&](auto c) __attribute__((always_inline)) {
      auto keep = acc[c.kValue].total(0);
      asm volatile("" : : "m"(keep));
    });
    return rounds * kChains * static_cast<int64_t>(sizeof ones) * 2;
  }

  // kSums independent sums that go through `add` again and again; returns how many numbers were added.
  template <int kSums, class Add>
  static QR_INLINE int64_t spin_floats(int64_t rounds, Add add) {
    F acc[kSums];
    for (auto& a : acc) a = V::zero();
    for (int64_t r = 0; r < rounds; ++r) {
      unrolled<0, kSums>([&](auto c) __attribute__((always_inline)) { acc[c.kValue] = add(acc[c.kValue]); });
    }
    float keep = 0;
    for (auto& a : acc) keep += V::sum(a);
    asm volatile("" : : "r"(keep));
    return rounds * kSums * 16;
  }

  static int64_t spin_f32(int64_t rounds) {
    const F w = V::set1(0.5F);
    return 2 * spin_floats<kChains>(rounds, [&](F sum) __attribute__((always_inline)) { return V::fma(sum, w, w); });
  }

  static int64_t spin_bf16(int64_t rounds) {
    const F x = V::set1(0.5F);
    const auto w = V::load_bytes(reinterpret_cast<const std::byte*>(&x));
    const auto add = [&](F sum) __attribute__((always_inline)) { return V::dot_bf16(w, x, sum); };
    return 4 * spin_floats<2 * kChains>(rounds, add);  // more sums: its latency is longer
  }
};

template <class V>
constexpr ElementwiseKernels make_elementwise_kernels() {
  using E = Elementwise<V>;
  int64_t (*spin_bf16)(int64_t) = &E::spin_f32;
  if constexpr (V::kBf16PerFloat == 2) spin_bf16 = &E::spin_bf16;
  return {.bf16_per_float = V::kBf16PerFloat,
          .quantize_row = &E::quantize_row,
          .rms_norm_row = &E::rms_norm_row,
          .layer_norm_row = &E::layer_norm_row,
          .add_row = &E::add_row,
          .scale_row = &E::scale_row,
          .mix_row = &E::mix_row,
          .soft_cap_row = &E::soft_cap_row,
          .gated_row = {&E::template gated_row<Activation::silu>, &E::template gated_row<Activation::gelu_tanh>,
                        &E::template gated_row<Activation::gelu_erf>, &E::template gated_row<Activation::relu2>,
                        &E::template gated_row<Activation::clamped_silu>, &E::template gated_row<Activation::sigmoid>,
                        &E::template gated_row<Activation::none>, &E::template gated_row<Activation::below_zero>},
          .rotate_head = &E::rotate_head,
          .block_max = &E::block_max,
          .exp_row = &E::exp_row,
          .spin_int8 = &E::spin_int8,
          .spin_f32 = &E::spin_f32,
          .spin_bf16 = spin_bf16};
}

}  // namespace
}  // namespace quire
