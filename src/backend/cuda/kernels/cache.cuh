// The paged cache as its codecs store it (quant/kv_codec.h), and rows on their way into it. Strips of 16 tokens: keys
// by component, values token by token; codecs with scales have 16 of them, floats, in front of a strip.
#pragma once
#include "backend/cuda/kernels/elementwise.cuh"

namespace quire::cuda {

inline constexpr int kMaxHead = 576;  // components

// A form is how the numbers of keys, or of values, lie in a strip. Of keys kTogether components of a token make a word
// of kWord bytes: [dim / kTogether][16] words. Values have value_bytes(dim) a token; its component d is number
// value_part() of the word at value_at(). `read` decodes number `part` of each of kN words that lie together, kN a
// power of two up to 8, from a byte of shared memory on that is a multiple of theirs. Of keys the first of them is at
// key_at(token) of a run, the 16 words of some components.
template <int kBytes>
struct Form {
  using Arithmetic = Plain;
  static constexpr int kWord = kBytes, kTogether = 1;
  static constexpr bool kIsScaled = false, kRotatesKeys = false, kRotatesValues = false;
  static constexpr int value_bytes(int dim) { return dim * kBytes; }
  QR_DEVICE int key_at(int token) const { return token * kBytes; }
  QR_DEVICE int value_at(int token, int d, int bytes) const { return token * bytes + d * kBytes; }
  QR_DEVICE int value_part(int, int) const { return 0; }
};

template <class Word, int kN>
QR_DEVICE void read_words(int at, Word (&out)[kN]) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(Word)), kEach = kN < kMost ? kN : kMost;
  QR_UNROLL
  for (int i = 0; i < kN / kEach; ++i) {
    const Pack<Word, kEach> pack = dev::Shared<Pack<Word, kEach>>(at)[i];
    QR_UNROLL
    for (int j = 0; j < kEach; ++j) out[i * kEach + j] = pack.x[j];
  }
}

// Bytes as many as fit into one word at a time.
template <int kN>
struct SomeBytes {
  using Word = uint32_t;
};
template <>
struct SomeBytes<1> {
  using Word = uint8_t;
};
template <>
struct SomeBytes<2> {
  using Word = uint16_t;
};
// Calls with(word, i) for each of the words that kN bytes make, i the first byte's number.
template <int kN, class With>
QR_DEVICE void read_bytes(int at, const With& with) {
  constexpr int kEach = kN < 4 ? kN : 4;
  typename SomeBytes<kEach>::Word words[kN / kEach];
  read_words(at, words);
  QR_UNROLL
  for (int i = 0; i < kN / kEach; ++i) {
    QR_UNROLL
    for (int j = 0; j < kEach; ++j) with(uint32_t{words[i]}, i * kEach + j, static_cast<uint32_t>(j));
  }
}
// Byte j of a word, less `zero`: 2²³ plus a byte, exact, has it in its low byte.
QR_DEVICE float whole_byte(uint32_t word, uint32_t j, float zero) {
  return dev::sub(dev::as_float(dev::pick_bytes(word, 0x4b000000U, 0x7440U + j)), 8388608.0F + zero);
}

struct FormF32 : Form<4> {
  using Number = float;
  QR_DEVICE float encoded(float x) const { return x; }
  template <int kN>
  QR_DEVICE void read(int at, int, float (&out)[kN]) const {
    read_words(at, out);
  }
};
struct FormF16 : Form<2> {
  using Number = uint16_t;
  QR_DEVICE uint16_t encoded(float x) const { return dev::to_half(x); }
  template <int kN>
  QR_DEVICE void read(int at, int, float (&out)[kN]) const {
    uint16_t halves[kN];
    read_words(at, halves);
    QR_UNROLL
    for (int j = 0; j < kN; ++j) out[j] = dev::to_float(halves[j]);
  }
};
// Two side by side: components of a key, tokens of values. They are multiplied as pairs, the second first.
struct FormBF16 : Form<4> {
  using Number = uint16_t;
  using Arithmetic = Flushing;
  static constexpr int kTogether = 2;
  static constexpr int value_bytes(int dim) { return dim * 2; }
  QR_DEVICE int value_at(int token, int d, int bytes) const { return token / 2 * 2 * bytes + d * 4; }
  QR_DEVICE int value_part(int token, int) const { return token % 2; }
  QR_DEVICE uint16_t encoded(float x) const { return static_cast<uint16_t>(nearest_bf16(dev::as_bits(x)) >> 16); }
  template <int kN>
  QR_DEVICE void read(int at, int part, float (&out)[kN]) const {
    uint32_t pairs[kN];
    read_words(at, pairs);
    QR_UNROLL
    for (int j = 0; j < kN; ++j) {
      out[j] = Flushing().operand(dev::as_float(part == 1 ? pairs[j] & 0xffff0000U : pairs[j] << 16));
    }
  }
};

// Rows that are kept as bytes, n_words of them: word(i, number) of what number(d) says of a component.
struct ByteForm : Form<1> {
  static constexpr bool kRotatesKeys = true;
  QR_DEVICE int n_words(int dim, bool) const { return dim; }
  template <class Number>
  QR_DEVICE uint32_t word(int i, int, bool, const Number& number) const {
    return number(i);
  }
};
// A scale a row, by which the component farthest from zero becomes kMost.
struct FormQ8 : ByteForm {
  static constexpr bool kIsScaled = true, kIsSigned = false;
  static constexpr float kMost = 127.0F;
  QR_DEVICE uint32_t encoded(float x) const { return dev::as_bits(dev::add(x, 12582912.0F)) & 0xffU; }
  template <int kN>
  QR_DEVICE void read(int at, int, float (&out)[kN]) const {
    read_bytes<kN>(at, [&](uint32_t word, int i, uint32_t j) { out[i] = whole_byte(word ^ 0x80808080U, j, 128.0F); });
  }
};
struct FormF8 : ByteForm {
  QR_DEVICE uint32_t encoded(float x) const { return nearest_e4m3(x); }
  template <int kN>
  QR_DEVICE void read(int at, int, float (&out)[kN]) const {
    read_bytes<kN>(at, [&](uint32_t word, int i, uint32_t j) { out[i] = float_of_e4m3(word >> 8 * j & 0xffU); });
  }
};
// Two numbers a byte, plus 8: of keys components d and d + 1, of values d and d + 16.
struct FormQ4 : ByteForm {
  static constexpr int kTogether = 2;
  static constexpr bool kIsScaled = true, kIsSigned = true, kRotatesValues = true;
  static constexpr float kMost = -8.0F;
  static constexpr int value_bytes(int dim) { return (dim + 31) / 32 * 16; }
  QR_DEVICE int value_at(int token, int d, int bytes) const { return token * bytes + d / 32 * 16 + d % 16; }
  QR_DEVICE int value_part(int, int d) const { return d / 16 % 2; }
  QR_DEVICE int n_words(int dim, bool is_key) const { return is_key ? (dim + 1) / 2 : (dim + 31) / 32 * 16; }
  template <class Number>
  QR_DEVICE uint32_t word(int i, int dim, bool is_key, const Number& number) const {
    const int low = is_key ? 2 * i : i / 16 * 32 + i % 16, high = low + (is_key ? 1 : 16);
    return (low < dim ? number(low) : 0U) | (high < dim ? number(high) : 0U) << 4;
  }
  QR_DEVICE uint32_t encoded(float x) const {
    const float kept = x > 7.0F ? 7.0F : x;
    return (dev::as_bits(dev::add(kept, 12582912.0F)) + 8U) & 15U;
  }
  template <int kN>
  QR_DEVICE void read(int at, int part, float (&out)[kN]) const {
    read_bytes<kN>(
        at, [&](uint32_t word, int i, uint32_t j) { out[i] = whole_byte(word >> 4 * part & 0x0f0f0f0fU, j, 8.0F); });
  }
};

// Two bits a number, of which some have a step and a least one together, a pair of BF16 (quant/kv/kivi2.h): a pair is
// behind a strip of 16 keys' components, or of 32 components of a value.
QR_DEVICE float step_of(uint32_t pair) { return dev::as_float(pair & 0xffff0000U); }
QR_DEVICE float least_of(uint32_t pair) { return dev::as_float(pair << 16); }
// kN numbers at bits `shift` of bytes, and the pair that they have.
template <int kN>
QR_DEVICE void read_two_bits(int at, int shift, uint32_t pair, float (&out)[kN]) {
  read_bytes<kN>(at, [&](uint32_t word, int i, uint32_t j) {
    out[i] = dev::fma(whole_byte(word >> shift & 0x03030303U, j, 0.0F), step_of(pair), least_of(pair));
  });
}
// Runs of four components: their pairs, then a byte of each key. A run begins at a multiple of its 32 bytes.
struct FormKIVI2Keys : Form<2> {
  static constexpr int kTogether = 4;
  QR_DEVICE int key_at(int token) const { return 16 + token; }
  template <int kN>
  QR_DEVICE void read(int at, int part, float (&out)[kN]) const {
    read_two_bits(at, part * 2, dev::Shared<uint32_t>(at & ~31)[part], out);
  }
};
// Runs of 32 components of two tokens: 16 bytes, then the tokens' pairs. A number's part is where in its byte it is,
// and in units of 8 how far behind the byte its pair is.
struct FormKIVI2Values : Form<1> {
  static constexpr int value_bytes(int dim) { return (dim + 31) / 32 * 12; }
  QR_DEVICE int value_at(int token, int d, int bytes) const { return token / 2 * 2 * bytes + d / 32 * 24 + d % 16; }
  QR_DEVICE int value_part(int token, int d) const {
    return (16 + token % 2 * 4 - d % 16) * 8 + token % 2 * 4 + d / 16 % 2 * 2;
  }
  template <int kN>
  QR_DEVICE void read(int at, int part, float (&out)[kN]) const {
    read_two_bits(at, part % 8, dev::Shared<uint32_t>(at + part / 8)[0], out);
  }
};

// Which of the keys that a row sees a cache holds: of codecs that pack strips those before the strip of the last one
// (ops/seen_keys.h), and where rows are until their strip is packed those in it.
enum class Holds { all, packed, tail };

template <class K, class V = K, Holds kOf = Holds::all>
struct CodecOf {
  using Keys = K;
  using Values = V;
  using Arithmetic = typename K::Arithmetic;  // of every operation on what it keeps
  static constexpr Holds kHolds = kOf;
  static constexpr bool kIsScaled = K::kIsScaled, kRotatesKeys = K::kRotatesKeys, kRotatesValues = V::kRotatesValues;
  // Pairs are multiplied, the second number first.
  static constexpr bool kPairs = K::kTogether == 2 && !K::kIsScaled;
};
using CodecF32 = CodecOf<FormF32>;
using CodecF16 = CodecOf<FormF16>;
using CodecBF16 = CodecOf<FormBF16>;
using CodecQ8 = CodecOf<FormQ8>;
using CodecF8 = CodecOf<FormF8>;
using CodecQ4 = CodecOf<FormQ4>;
using CodecK8V4 = CodecOf<FormQ8, FormQ4>;
using CodecKIVI2 = CodecOf<FormKIVI2Keys, FormKIVI2Values, Holds::packed>;
using CodecTail = CodecOf<FormF16, FormF16, Holds::tail>;

struct Cache {
  uint8_t* base;  // of the layer's claim in block 0
  int64_t block_bytes;
  int block_tokens, k_dim, v_dim;
  int k_bytes, v_bytes;  // of a token and head; no v_bytes where values are part of keys

  // Of the strip with a token of the block.
  QR_DEVICE uint8_t* keys(int64_t block, int in_block, int64_t head) const {
    return base + block * block_bytes + head * (k_bytes + v_bytes) * block_tokens + in_block / 16 * 16 * k_bytes;
  }
  QR_DEVICE uint8_t* values(int64_t block, int in_block, int64_t head) const {
    return base + block * block_bytes + (head * (k_bytes + v_bytes) + k_bytes) * block_tokens +
           in_block / 16 * 16 * v_bytes;
  }
};

// The signs of a rotation (docs/numerics.md, "Attention"), bit d % 32 of word d / 32 that of component d.
struct Signs {
  uint32_t words[kMaxHead / 32];
  // with(d, sign bit) for the components below n, shared among the threads of a block; the thread with a component is
  // the same each time.
  template <int kThreads, class With>
  QR_DEVICE void each(int n, const With& with) const {
    QR_UNROLL
    for (int word = 0; word < kMaxHead / 32; ++word) {  // a warp's turn: the arguments are no array to it
      const int lane = dev::thread() % 32, d = word * 32 + lane;
      if (word % (kThreads / 32) != dev::thread() / 32 || d >= n) continue;
      with(d, (words[word] >> lane & 1U) << 31);
    }
  }
};
QR_DEVICE float with_sign(float x, uint32_t sign) { return dev::as_float(dev::as_bits(x) ^ sign); }

// Rounds of a rotation over runs of components in shared memory, n in all. Every thread of the block calls; a barrier
// stands before each round and behind the last one.
template <int kThreads>
QR_DEVICE void rotate_in_place(const dev::Shared<float>& x, int n, int run) {
  for (int half = 1; half < run; half *= 2) {
    dev::sync();
    for (int i = dev::thread(); i < n / 2; i += kThreads) {
      const int first = i / half * 2 * half + i % half;
      const float a = x[first], b = x[first + half];
      x[first] = dev::add(a, b);
      x[first + half] = dev::sub(a, b);
    }
  }
  dev::sync();
}

// Rows' keys and values into a cache of bytes: a block a key or a value of one head and row. Grid: `sides` · KV heads,
// of each the key and where there are two the value; rows. Limits: heads of 576 components.
template <class Codec>
struct CacheRows {
  static constexpr int kThreads = 128, kWarps = kThreads / 32;
  static constexpr int kLargestAt = kMaxHead * 4, kSharedBytes = kLargestAt + kWarps * 4;
  Cache cache;
  Rows<const float> k, v;
  const int32_t* slots;
  int sides;
  Signs signs;

  // The bits of what is farthest from zero in the row in shared memory, its sign below them: as integers magnitudes
  // order as floats do, NaN above all; the negative one of two as large comes first.
  QR_DEVICE uint32_t farthest_of(const dev::Shared<float>& x, int dim) const {
    const dev::Shared<uint32_t> of_warps(kLargestAt);
    uint32_t largest = 0;
    for (int d = dev::thread(); d < dim; d += kThreads) {
      const uint32_t bits = dev::as_bits(x[d]), number = bits << 1 | bits >> 31;
      largest = number > largest ? number : largest;
    }
    for (int n = 16; n > 0; n /= 2) {
      const uint32_t other = dev::shuffle_xor(largest, n);
      largest = other > largest ? other : largest;
    }
    if (dev::thread() % 32 == 0) of_warps[dev::thread() / 32] = largest;
    dev::sync();
    for (int i = 0; i < kWarps; ++i) {
      const uint32_t other = of_warps[i];
      largest = other > largest ? other : largest;
    }
    return largest;
  }

  // Of one token's `dim` components, in a strip.
  template <class F, bool kRotates>
  QR_DEVICE void keep(const float* from, int dim, bool is_key, uint8_t* strip, int token) const {
    const dev::Shared<float> x(0);
    if constexpr (kRotates) {
      const float part = dev::div(1.0F, dev::whole(dim & -dim));  // a power of two
      signs.each<kThreads>(dim,
                           [&](int d, uint32_t sign) { x[d] = with_sign(dev::mul(dev::load(from + d), part), sign); });
      rotate_in_place<kThreads>(x, dim, dim & -dim);
    } else {
      for (int d = dev::thread(); d < dim; d += kThreads) x[d] = dev::load(from + d);
    }
    bool counts = true;
    float by = 1.0F;
    if constexpr (F::kIsScaled) {
      const uint32_t farthest = farthest_of(x, dim);
      const bool is_finite = farthest >> 1 < 0x7f800000U;
      const float a = dev::as_float(farthest >> 1 | (F::kIsSigned ? farthest << 31 : 0U));
      counts = is_finite && farthest >> 1 >= 0x03800000U;  // 2^-120
      if (counts) by = dev::div(F::kMost, a);
      const float scale = counts ? dev::div(a, F::kMost) : is_finite ? 0.0F : dev::as_float(0x7fc00000U);
      if (dev::thread() == 0) dev::store(reinterpret_cast<float*>(strip) + token, scale);
      strip += 64;
    }
    const int n = F().n_words(dim, is_key);
    // Of a row behind no barrier a thread reads what it wrote.
    const auto number = [&](int d) {
      const float component = x[d];
      return F().encoded(!F::kIsScaled ? component : counts ? dev::mul(component, by) : 0.0F);
    };
    for (int i = dev::thread(); i < n; i += kThreads) {
      const uint32_t word = F().word(i, dim, is_key, number);
      dev::store(strip + (is_key ? i * 16 + token : token * n + i), static_cast<uint8_t>(word));
    }
  }

  QR_DEVICE void operator()() const {
    const bool is_key = dev::block_x() % sides == 0;
    const int64_t head = dev::block_x() / sides, row = dev::block_y();
    const int64_t slot = dev::load(slots + row), block = slot / cache.block_tokens;
    const int in_block = static_cast<int>(slot % cache.block_tokens);
    if (is_key) {
      return keep<typename Codec::Keys, Codec::kRotatesKeys>(k.row(row) + head * cache.k_dim, cache.k_dim, true,
                                                             cache.keys(block, in_block, head), in_block % 16);
    }
    keep<typename Codec::Values, Codec::kRotatesValues>(v.row(row) + head * cache.v_dim, cache.v_dim, false,
                                                        cache.values(block, in_block, head), in_block % 16);
  }
};

}  // namespace quire::cuda
