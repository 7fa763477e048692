// Attention over the paged cache: every codec and instruction set equal bit for bit, near plain loops, whatever the
// shape of a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/tables.h"
#include "ops/parts.h"
#include "quant/kv_codec.h"
#include "tests/parity/op_corpus.h"

namespace quire {
namespace {

struct AttendCase {
  int n_heads, n_kv_heads, dim, block_tokens;
  std::vector<int> past, fresh;  // per sequence
  int window = 0;                // 0: everything before
  float soft_cap = 0;            // 0: none
  bool by_op = false;            // the window is the op's parameter, not the rows' first keys
  int spoiled = -1;              // a position whose first key, or value, of sequence 0 has a component that is `bad`
  bool spoils_key = false;
  float bad = 0;
  float v_size = 1;
  bool sinks = false;
  int n_kept = 0;     // beside the window, which is the op's
  bool turns = true;  // before keys that are kept
  RopePairs pairs = RopePairs::halves;
  float slopes = 0;  // AttnParams::most_slope_bits
  int in_keys = 0;   // the last components of a key that are its value; 0: it has one of its own
};

// What rows from position `past` on do not read, of tails: blocks all of whose strips are packed.
void spoil_whole_strips(const KvGroupView& tails, std::span<const int32_t> slots, int past) {
  for (int block = 0; block < past / tails.block_tokens; ++block) {
    const int32_t id = slots[static_cast<size_t>(block) * static_cast<size_t>(tails.block_tokens)] / tails.block_tokens;
    std::memset(tails.base + id * tails.block_bytes, 0xff, static_cast<size_t>(tails.block_bytes));
  }
}

// Keys and values of a sequence position are a function of (sequence, position); the rest of the pool is NaN, so that
// anything read beyond a row's range shows.
std::vector<float> run_attend(Ops& ops, const AttendCase& c, const KvCodec& codec) {
  const int v_dim = c.in_keys > 0 ? c.in_keys : c.dim;
  const int64_t value_bytes = c.in_keys > 0 ? 0 : codec.v_row_bytes(c.dim);
  const int64_t token_bytes = c.n_kv_heads * (codec.k_row_bytes(c.dim) + value_bytes);
  const int64_t offset = 64;  // a claim before this one
  const int64_t block_bytes = (offset + token_bytes) * c.block_tokens;
  const auto n_seqs = static_cast<int64_t>(c.past.size());
  int64_t max_blocks = 1;
  int64_t n_rows = 0;
  for (size_t s = 0; s < c.past.size(); ++s) {
    max_blocks = std::max<int64_t>(max_blocks, (c.past[s] + c.fresh[s] + c.block_tokens - 1) / c.block_tokens);
    n_rows += c.fresh[s];
  }
  Result<Buffer> pool = ops.allocate(n_seqs * max_blocks * block_bytes);
  std::memset(pool->data(), 0xff, static_cast<size_t>(pool->bytes()));
  const KvCodec& of_tail = codec.packs() ? *find_kv_codec(codec.tail) : codec;  // read by packing codecs alone
  const int64_t tail_bytes =
      (offset + c.n_kv_heads * (of_tail.k_row_bytes(c.dim) + of_tail.v_row_bytes(c.dim))) * c.block_tokens;
  Result<Buffer> tails = ops.allocate(n_seqs * max_blocks * tail_bytes);
  std::memset(tails->data(), 0xff, static_cast<size_t>(tails->bytes()));
  KvView view;
  view.n_groups = 2;
  view.groups[0] = {pool->data(), block_bytes, c.block_tokens};
  view.groups[1] = {tails->data(), tail_bytes, c.block_tokens};
  AttnParams params{.kv_offset = offset,
                    .tail_group = 1,
                    .tail_offset = offset,
                    .k_codec = &codec,
                    .v_codec = &codec,
                    .n_heads = c.n_heads,
                    .n_kv_heads = c.n_kv_heads,
                    .k_dim = c.dim,
                    .v_dim = v_dim,
                    .values_in_keys = c.in_keys > 0,
                    .scale = 1.0F / std::sqrt(static_cast<float>(c.dim)),
                    .soft_cap = c.soft_cap,
                    .window = c.by_op ? c.window : 0,
                    .n_kept = c.n_kept,
                    .kept_pairs = c.pairs,
                    .most_slope_bits = c.slopes};
  std::vector<int32_t> blocks(static_cast<size_t>(n_seqs * max_blocks));
  // Blocks interleaved and descending: position order is not memory order.
  for (int64_t i = 0; i < n_seqs * max_blocks; ++i) {
    blocks[static_cast<size_t>(i)] = static_cast<int32_t>((max_blocks - 1 - i % max_blocks) * n_seqs + i / max_blocks);
  }
  std::vector<int32_t> cu_q = {0};
  std::vector<int32_t> first;
  std::vector<int32_t> end;
  for (int64_t s = 0; s < n_seqs; ++s) {
    const int total = c.past[static_cast<size_t>(s)] + c.fresh[static_cast<size_t>(s)];
    Matrix k(total, c.n_kv_heads * c.dim, 100 + static_cast<uint64_t>(s));
    Matrix v(total, c.n_kv_heads * c.dim, 200 + static_cast<uint64_t>(s), c.v_size);
    if (s == 0 && c.spoiled >= 0) (c.spoils_key ? k : v).tensor().row<float>(c.spoiled)[c.dim - 1] = c.bad;
    std::vector<int32_t> slots;
    slots.reserve(static_cast<size_t>(total));
    for (int t = 0; t < total; ++t) {
      slots.push_back(blocks[static_cast<size_t>(s * max_blocks + t / c.block_tokens)] * c.block_tokens +
                      t % c.block_tokens);
    }
    // Tails lie in the blocks of the same numbers; nobody reads those of whole strips.
    store_kv(ops, {k.tensor(), c.in_keys > 0 ? Tensor() : v.tensor(), ints(slots), ints(slots)}, view, params);
    spoil_whole_strips(view.groups[1], slots, c.past[static_cast<size_t>(s)]);
    for (int t = c.past[static_cast<size_t>(s)]; t < total; ++t) {
      end.push_back(t + 1);
      first.push_back(c.window > 0 && !c.by_op ? std::max(0, t + 1 - c.window) : 0);
    }
    cu_q.push_back(static_cast<int32_t>(end.size()));
  }
  Matrix q(n_rows, c.n_heads * c.dim, 300);
  Matrix sinks(1, c.n_heads, 400, 3.0F);
  if (c.sinks) params.sinks = Tensor::dense(sinks.values.data(), DType::f32, {c.n_heads});
  Matrix out(n_rows, c.n_heads * v_dim);
  const Tensor table = Tensor::dense(blocks.data(), DType::i32, {n_seqs, max_blocks});
  AttnMeta meta{ints(cu_q), {table, table}, ints(first), ints(end)};
  Matrix turns(n_rows, c.dim / 4 * 2, 500);
  if (c.n_kept > 0 && c.turns)
    meta.kept_rotation = Tensor::dense(turns.values.data(), DType::f32, {n_rows, c.dim / 4, 2});
  ops.attend(out.tensor(), q.tensor(), view, meta, params);
  return out.values;
}

void compare_all(std::span<const AttendCase> cases) {
  for (const KvCodec* codec : kv_codecs()) {
    for (const AttendCase& c : cases) {
      if (c.in_keys > 0 && !codec->values_in_keys) continue;
      // A weight that is nearly halfway between two of BF16 may be rounded to the other one.
      const double tolerance = codec->rounded ? 5e-4 : 3e-6;
      compare(std::string(codec->name) + " dim " + std::to_string(c.dim) + " past " + std::to_string(c.past[0]),
              tolerance, [&](Ops& ops) { return run_attend(ops, c, *codec); });
    }
  }
}

TEST(Parity, Attend) {
  const AttendCase cases[] = {
      {.n_heads = 1, .n_kv_heads = 1, .dim = 16, .block_tokens = 16, .past = {0}, .fresh = {1}},
      {.n_heads = 4, .n_kv_heads = 2, .dim = 8, .block_tokens = 16, .past = {0, 3}, .fresh = {5, 1}},
      {.n_heads = 8, .n_kv_heads = 4, .dim = 16, .block_tokens = 32, .past = {15, 16, 17}, .fresh = {1, 2, 3}},
      {.n_heads = 6, .n_kv_heads = 2, .dim = 64, .block_tokens = 16, .past = {250, 0}, .fresh = {12, 20}},
      {.n_heads = 4, .n_kv_heads = 1, .dim = 32, .block_tokens = 64, .past = {511, 255, 256}, .fresh = {2, 1, 1}},
      {.n_heads = 7, .n_kv_heads = 1, .dim = 80, .block_tokens = 16, .past = {300}, .fresh = {9}},
      {.n_heads = 8, .n_kv_heads = 8, .dim = 24, .block_tokens = 16, .past = {600}, .fresh = {3}},
      {.n_heads = 3, .n_kv_heads = 1, .dim = 576, .block_tokens = 16, .past = {270}, .fresh = {2}},
      {.n_heads = 2,
       .n_kv_heads = 1,
       .dim = 16,
       .block_tokens = 16,
       .past = {40, 500},
       .fresh = {30, 20},
       .window = 20},
      {.n_heads = 2,
       .n_kv_heads = 1,
       .dim = 16,
       .block_tokens = 16,
       .past = {40, 500},
       .fresh = {30, 20},
       .window = 20,
       .soft_cap = 0.5F,
       .by_op = true},
      {.n_heads = 8, .n_kv_heads = 4, .dim = 24, .block_tokens = 16, .past = {300}, .fresh = {9}, .soft_cap = 2.0F},
      {.n_heads = 8, .n_kv_heads = 2, .dim = 24, .block_tokens = 16, .past = {300, 0}, .fresh = {9, 3}, .sinks = true},
      {.n_heads = 6, .n_kv_heads = 3, .dim = 16, .block_tokens = 16, .past = {3000}, .fresh = {1}, .sinks = true},
      {.n_heads = 4, .n_kv_heads = 2, .dim = 15, .block_tokens = 16, .past = {30, 270}, .fresh = {7, 2}, .window = 5},
      // Keys that are kept: of rows before and behind the first that misses a key, near the window and far from it.
      {.n_heads = 6,
       .n_kv_heads = 2,
       .dim = 64,
       .block_tokens = 16,
       .past = {30, 900},
       .fresh = {20, 9},
       .window = 32,
       .by_op = true,
       .n_kept = 4},
      {.n_heads = 4,
       .n_kv_heads = 1,
       .dim = 24,
       .block_tokens = 32,
       .past = {1500, 2, 3000},
       .fresh = {1, 3, 2},
       .window = 700,
       .soft_cap = 2.0F,
       .by_op = true,
       .sinks = true,
       .n_kept = 37,
       .pairs = RopePairs::interleaved},
      {.n_heads = 3,
       .n_kv_heads = 3,
       .dim = 16,
       .block_tokens = 16,
       .past = {4000},
       .fresh = {1},
       .window = 2999,
       .by_op = true,
       .n_kept = 256,
       .turns = false},
  };
  compare_all(cases);
}

// Scores that fall with distance, of numbers of heads that are powers of two and not, in spans of keys and in windows.
TEST(Parity, AttendWithSlopes) {
  const AttendCase cases[] = {
      {.n_heads = 1, .n_kv_heads = 1, .dim = 16, .block_tokens = 16, .past = {20}, .fresh = {1}, .slopes = 8},
      {.n_heads = 16, .n_kv_heads = 16, .dim = 24, .block_tokens = 16, .past = {3, 270}, .fresh = {9, 1}, .slopes = 8},
      {.n_heads = 12, .n_kv_heads = 12, .dim = 32, .block_tokens = 16, .past = {600, 0}, .fresh = {9, 2}, .slopes = 16},
      {.n_heads = 6, .n_kv_heads = 2, .dim = 64, .block_tokens = 32, .past = {3000}, .fresh = {1}, .slopes = 8},
      {.n_heads = 4,
       .n_kv_heads = 1,
       .dim = 16,
       .block_tokens = 16,
       .past = {300},
       .fresh = {20},
       .window = 40,
       .soft_cap = 2.0F,
       .by_op = true,
       .sinks = true,
       .slopes = 8},
  };
  compare_all(cases);
}

// Values that are the last components of their keys, of as many rows and heads as tiles are made for.
TEST(Parity, AttendToValuesInKeys) {
  const AttendCase cases[] = {
      {.n_heads = 16, .n_kv_heads = 1, .dim = 576, .block_tokens = 16, .past = {270}, .fresh = {3}, .in_keys = 512},
      {.n_heads = 5, .n_kv_heads = 1, .dim = 48, .block_tokens = 32, .past = {15, 600}, .fresh = {9, 2}, .in_keys = 32},
      {.n_heads = 8, .n_kv_heads = 2, .dim = 80, .block_tokens = 16, .past = {0, 3}, .fresh = {5, 1}, .in_keys = 64},
      {.n_heads = 3, .n_kv_heads = 1, .dim = 56, .block_tokens = 16, .past = {255}, .fresh = {3}, .in_keys = 40},
      {.n_heads = 1, .n_kv_heads = 1, .dim = 320, .block_tokens = 16, .past = {300}, .fresh = {1}, .in_keys = 256},
      {.n_heads = 2, .n_kv_heads = 2, .dim = 32, .block_tokens = 16, .past = {100}, .fresh = {2}, .in_keys = 32},
      {.n_heads = 8,
       .n_kv_heads = 1,
       .dim = 96,
       .block_tokens = 16,
       .past = {30, 900},
       .fresh = {20, 9},
       .window = 33,
       .soft_cap = 2.0F,
       .by_op = true,
       .sinks = true,
       .n_kept = 4,
       .pairs = RopePairs::interleaved,
       .in_keys = 64},
  };
  compare_all(cases);
}

// A NaN behind the last token that is stored, and in a key that a window leaves out, reaches no row; spans of keys
// merge to the same bits.
TEST(Parity, SpansOfValuesInKeysMergeToTheSameBits) {
  AttendCase c{.n_heads = 4, .n_kv_heads = 1, .dim = 96, .block_tokens = 32, .past = {2300, 5}, .fresh = {2, 3}};
  c.in_keys = 64;
  for (const KvCodec* codec : kv_codecs()) {
    if (!codec->values_in_keys) continue;
    for (const std::string& isa : cpu_isas()) {
      const auto one = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = isa, .pin = false});
      const auto many = make_cpu_ops(CpuOptions{.n_threads = 7, .isa = isa, .pin = false});
      c.window = 0;
      c.spoiled = -1;
      ASSERT_TRUE(same_bits(run_attend(**one, c, *codec), run_attend(**many, c, *codec))) << codec->name << ' ' << isa;
      c.window = 100;
      const std::vector<float> clean = run_attend(**one, c, *codec);
      c.spoiled = 2100;
      c.spoils_key = true;
      c.bad = NAN;
      ASSERT_TRUE(same_bits(clean, run_attend(**many, c, *codec))) << codec->name << ' ' << isa;
      ASSERT_TRUE(std::ranges::all_of(clean, [](float x) { return std::isfinite(x); })) << codec->name << ' ' << isa;
    }
  }
}

// A window as the op's parameter sees what rows with later first keys see.
TEST(Parity, WindowEqualsFirstKeys) {
  for (const KvCodec* codec : kv_codecs()) {
    for (const std::string& isa : cpu_isas()) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
      for (int window : {1, 16, 300}) {
        const std::vector<float> rows = run_attend(**ops, {4, 2, 32, 16, {240, 3}, {40, 9}, window}, *codec);
        const std::vector<float> op = run_attend(**ops, {4, 2, 32, 16, {240, 3}, {40, 9}, window, 0, true}, *codec);
        ASSERT_TRUE(same_bits(rows, op)) << codec->name << ' ' << isa << ' ' << window;
      }
    }
  }
}

// Until a row misses a key, what is kept changes no bit; with as many threads as there may be spans, nor do these.
TEST(Parity, WhatIsKeptCountsOnceItIsOutsideTheWindow) {
  for (const KvCodec* codec : kv_codecs()) {
    for (const std::string& isa : cpu_isas()) {
      const auto one = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = isa, .pin = false});
      const auto four = make_cpu_ops(CpuOptions{.n_threads = 4, .isa = isa, .pin = false});
      AttendCase c{.n_heads = 4, .n_kv_heads = 2, .dim = 32, .block_tokens = 16, .past = {260}, .fresh = {40}};
      const std::vector<float> all = run_attend(**one, c, *codec);
      c.by_op = true;
      c.window = 280;
      c.n_kept = 5;
      const std::vector<float> kept = run_attend(**one, c, *codec);
      const size_t n_same = size_t{285 - 260} * 4 * 32;  // rows up to position 284 see all
      ASSERT_TRUE(same_bits(std::span(all).first(n_same), std::span(kept).first(n_same))) << codec->name << ' ' << isa;
      ASSERT_FALSE(same_bits(std::span(all).subspan(n_same, 32), std::span(kept).subspan(n_same, 32)));
      c.past = {2900};
      c.fresh = {1};
      c.window = 2500;
      ASSERT_TRUE(same_bits(run_attend(**one, c, *codec), run_attend(**four, c, *codec))) << codec->name << ' ' << isa;
    }
  }
}

// A key or value that is not finite shows in every row that sees it, and in no other bit.
TEST(Parity, AttendShowsWhatIsNotFinite) {
  constexpr size_t kRow = 4 * 32;  // heads of a row, two to each key
  for (const KvCodec* codec : kv_codecs()) {
    for (const std::string& isa : cpu_isas()) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = isa, .pin = false});
      AttendCase c{.n_heads = 4, .n_kv_heads = 2, .dim = 32, .block_tokens = 16, .past = {300}, .fresh = {9}};
      const std::vector<float> clean = run_attend(**ops, c, *codec);
      for (const auto& [spoils_key, bad] : {std::pair(true, NAN), {false, NAN}, {false, INFINITY}}) {
        c.spoiled = 304;
        c.spoils_key = spoils_key;
        c.bad = bad;
        const std::vector<float> got = run_attend(**ops, c, *codec);
        for (int row = 0; row < 9; ++row) {
          const size_t at = static_cast<size_t>(row) * kRow;
          const std::span<const float> all = std::span(got).subspan(at, kRow);
          const size_t touched = row < 4 ? 0 : kRow / 2;
          for (size_t h = 0; h < touched; h += 32)
            EXPECT_FALSE(std::isfinite(all[h + 31])) << codec->name << isa << row;
          ASSERT_TRUE(same_bits(all.subspan(touched), std::span(clean).subspan(at + touched, kRow - touched)))
              << codec->name << ' ' << isa << ' ' << row;
        }
      }
    }
  }
}

// Sums of values on both sides of the least normal number, which a codec of BF16 makes zeros.
TEST(Parity, TinyValuesAreTheSameEverywhere) {
  for (const KvCodec* codec : kv_codecs()) {
    std::vector<float> first;
    for (const std::string& isa : cpu_isas()) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = isa, .pin = false});
      AttendCase c{.n_heads = 4, .n_kv_heads = 2, .dim = 32, .block_tokens = 16, .past = {600}, .fresh = {9}};
      c.v_size = 0x1p-123F;
      const std::vector<float> got = run_attend(**ops, c, *codec);
      if (first.empty()) first = got;
      ASSERT_TRUE(same_bits(first, got)) << codec->name << ' ' << isa;
      const auto is_subnormal = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL; };
      EXPECT_EQ(std::ranges::any_of(got, is_subnormal), codec->name == "f32") << codec->name;
      const bool keeps_some = codec->rounded || codec->name == "f32";  // the others have no numbers as small as these
      EXPECT_EQ(std::ranges::count(got, 0.0F) < std::ssize(got), keeps_some) << codec->name;
    }
  }
}

// Rows go into the cache as the codec has them, whatever their numbers: every power of two, both zeros, what is not
// finite.
TEST(Parity, RowsAreStoredAsTheCodecStoresThem) {
  constexpr int kFinite = 4;  // of these the first that is
  std::vector<float> numbers = {NAN,   -NAN,     INFINITY, -INFINITY,     0.0F,
                                -0.0F, 65504.0F, 65520.0F, 0x1.fffp-127F, 1.0039F};
  for (int e = -149; e < 128; ++e) {
    for (const float x : {1.0F, -1.003F, 1.00390625F, 1.99999F}) numbers.push_back(std::ldexp(x, e));
  }
  Rng rng(7);
  for (const IsaTable& isa : isa_tables()) {
    if (std::ranges::count(cpu_isas(), isa.isa) == 0) continue;
    for (const AttentionKernels* kernels : isa.attention) {
      const KvCodec& codec = *find_kv_codec(kernels->codec);
      if (codec.packs()) continue;  // whole strips, on the host
      for (int dim = 1; dim < 80; ++dim) {
        std::vector<float> row(static_cast<size_t>(dim));
        const int64_t first = dim % 2 == 0 ? 0 : kFinite;
        for (float& x : row) x = numbers[static_cast<size_t>(rng.between(first, std::ssize(numbers) - 1))];
        const auto bytes = static_cast<size_t>(std::max(codec.k_row_bytes(dim), codec.v_row_bytes(dim)) * kStripTokens);
        std::vector<std::byte> expected(bytes), got(bytes);
        for (const bool is_key : {true, false}) {
          for (int t = 0; t < kStripTokens; t += 5) {
            (is_key ? codec.put_k : codec.put_v)(expected.data(), t, dim, row.data());
            (is_key ? kernels->put_k : kernels->put_v)(got.data(), t, dim, row.data());
          }
          ASSERT_EQ(expected, got) << isa.isa << ' ' << codec.name << ' ' << dim << (is_key ? " key" : " value");
        }
      }
    }
  }
}

// Where there are more threads than tiles the keys are cut into spans, which changes no bit: long and short sequences
// beside each other, windows that begin within a chunk, values whose size is no multiple of 16.
TEST(Parity, SpansOfKeysMergeToTheSameBits) {
  const AttendCase cases[] = {
      {.n_heads = 4, .n_kv_heads = 1, .dim = 32, .block_tokens = 64, .past = {2300}, .fresh = {1}},
      {.n_heads = 6, .n_kv_heads = 2, .dim = 24, .block_tokens = 16, .past = {1500, 3, 700}, .fresh = {2, 1, 8}},
      {.n_heads = 4,
       .n_kv_heads = 2,
       .dim = 64,
       .block_tokens = 32,
       .past = {3000},
       .fresh = {8},
       .window = 1100,
       .soft_cap = 3.0F,
       .by_op = true},
      {.n_heads = 2,
       .n_kv_heads = 1,
       .dim = 80,
       .block_tokens = 16,
       .past = {2559, 2560, 2561},
       .fresh = {1, 1, 1},
       .window = 700},
  };
  for (const KvCodec* codec : kv_codecs()) {
    for (const std::string& isa : cpu_isas()) {
      const auto one = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = isa, .pin = false});
      for (const AttendCase& c : cases) {
        const std::vector<float> whole = run_attend(**one, c, *codec);
        for (int threads : {2, 3, 16}) {
          const auto ops = make_cpu_ops(CpuOptions{.n_threads = threads, .isa = isa, .pin = false});
          const std::vector<float> cut = run_attend(**ops, c, *codec);
          ASSERT_TRUE(same_bits(whole, cut))
              << codec->name << ' ' << isa << ' ' << threads << " threads, past " << c.past[0];
        }
      }
    }
  }
}

// A row's attention is the same alone, in a chunk of any length, and beside other sequences.
TEST(Parity, AttendRowsAreIndependent) {
  for (const KvCodec* codec : kv_codecs()) {
    for (const std::string& isa : cpu_isas()) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
      // Both sequences get the seeds of their index, so sequence 0 is the same one everywhere.
      const std::vector<float> whole = run_attend(**ops, {4, 2, 32, 16, {240}, {40}}, *codec);
      const std::vector<float> beside = run_attend(**ops, {4, 2, 32, 16, {240, 77}, {40, 5}}, *codec);
      ASSERT_TRUE(same_bits(whole, std::span(beside).first(whole.size()))) << codec->name << isa;
      for (int row = 0; row < 40; ++row) {
        // q rows are drawn in order from one seed: compare row `row` of a chunk that ends there.
        const std::vector<float> chunk = run_attend(**ops, {4, 2, 32, 16, {240}, {row + 1}}, *codec);
        ASSERT_TRUE(same_bits(std::span(whole).first(chunk.size()), chunk)) << codec->name << isa << " row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace quire
