// The op corpus: every op on every instruction set against backend/ref over a grid of shapes with odd tails, and the
// instruction sets against each other bit for bit (docs/numerics.md). A failure prints the seed and the case.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "backend/cpu/kernels/tables.h"
#include "base/sanitized.h"
#include "quant/f16.h"
#include "tests/parity/op_corpus.h"

namespace quire {
namespace {

TEST(Parity, Linear) {
  for (const WeightFormat* format : weight_formats()) {
    for (int64_t n_in : {32, 64, 172, 256, 352, 768, 2304}) {
      if (kSanitized && n_in > 768) continue;
      if (n_in % std::max(format->block, format->integer ? 32 : 1) != 0) continue;
      for (int64_t n_out : {1, 15, 16, 17, 105, 130}) {
        const Stored w = stored_weight(*format, n_out, n_in, 7);
        const Stored bias = stored_weight(*find_weight_format("f32"), 1, n_out, 8);
        for (int64_t n : {1, 2, 5, 9, 33, 80}) {
          compare(std::string(format->name) + " " + std::to_string(n) + "x" + std::to_string(n_in) + "x" +
                      std::to_string(n_out),
                  2e-6 * std::sqrt(static_cast<double>(n_in)), [&](Ops& ops) {
                    Matrix x(n, n_in, 9);
                    Matrix y(n, n_out);
                    HostWeight b = bias.weight;
                    b.shape = {n_out};
                    const Result<Linear> linear = ops.load_linear(w.weight, n % 2 == 0 ? &b : nullptr, Shard{});
                    ops.linear(y.tensor(), x.tensor(), std::span(&*linear, 1));
                    return y.values;
                  });
        }
      }
    }
  }
}

// More than kernels that unpack weights take at a time.
TEST(Parity, LinearOfLongRows) {
  for (const WeightFormat* format : weight_formats()) {
    constexpr int64_t kIn = 16384 + 1024, kRows = kSanitized ? 18 : 90;
    const Stored w = stored_weight(*format, 40, kIn, 11);
    compare(std::string(format->name) + " long rows", 2e-6 * std::sqrt(static_cast<double>(kIn)), [&](Ops& ops) {
      Matrix x(kRows, kIn, 12);
      Matrix y(kRows, 40);
      const Linear linear = *ops.load_linear(w.weight, nullptr, Shard{});
      ops.linear(y.tensor(), x.tensor(), std::span(&linear, 1));
      return y.values;
    });
  }
}

// Rows that are made on their way are those that lie in a file.
TEST(Parity, LinearOfMadeRows) {
  for (const char* name : {"q8_0", "q4_k", "bf16"}) {
    const WeightFormat& format = *find_weight_format(name);
    const Stored w = stored_weight(format, 77, 512, 11);
    const auto product = [&](Ops& ops, const HostWeight& weight) {
      Matrix x(3, 512, 12);
      Matrix y(3, weight.n_rows());
      const Linear linear = *ops.load_linear(weight, nullptr, Shard{});
      ops.linear(y.tensor(), x.tensor(), std::span(&linear, 1));
      return y.values;
    };
    compare(name, 1e-4, [&](Ops& ops) {
      HostWeight some = w.weight;
      some.shape = {40, 512};
      some.data = w.weight.data.subspan(static_cast<size_t>(21 * format.row_bytes(512)),
                                        static_cast<size_t>(40 * format.row_bytes(512)));
      const std::vector<float> truth = product(ops, some);
      EXPECT_TRUE(same_bits(truth, product(ops, made_weight(w.weight, 21, 40)))) << name;
      return truth;
    });
  }
}

TEST(Parity, LinearPartsOfDifferentFormats) {
  const Stored a = stored_weight(*find_weight_format("q8_0"), 33, 96, 1);
  const Stored b = stored_weight(*find_weight_format("f16"), 20, 96, 2);
  compare("parts", 1e-5, [&](Ops& ops) {
    Matrix x(3, 96, 3);
    Matrix y(3, 53);
    const Linear parts[] = {*ops.load_linear(a.weight, nullptr, Shard{}), *ops.load_linear(b.weight, nullptr, Shard{})};
    ops.linear(y.tensor(), x.tensor(), parts);
    return y.values;
  });
}

// One row's result may not depend on the rows beside it.
TEST(Parity, LinearRowsAreIndependent) {
  for (const WeightFormat* format : weight_formats()) {
    const Stored w = stored_weight(*format, 70, 512, 4);
    for (const std::string& isa : cpu_isas()) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
      const Linear linear = *(*ops)->load_linear(w.weight, nullptr, Shard{});
      Matrix x(37, 512, 5);
      Matrix all(37, 70);
      (*ops)->linear(all.tensor(), x.tensor(), std::span(&linear, 1));
      for (int64_t i = 0; i < 37; ++i) {
        Matrix one(1, 70);
        Tensor row = Tensor::dense(x.values.data() + i * 512, DType::f32, {1, 512});
        (*ops)->linear(one.tensor(), row, std::span(&linear, 1));
        ASSERT_TRUE(same_bits(one.values, std::span(all.values).subspan(static_cast<size_t>(i * 70), 70)))
            << format->name << isa << i;
      }
    }
  }
}

// Rows of either adapter and of none, in one batch and each by itself, on reference and kernels.
TEST(Parity, LowRankRowsAreIndependent) {
  for (const auto& shape : {OneLayer::Shape{64, 48}, {333, 100}, {2048, 7}, {24, 5000}}) {
    const auto added_to = [&shape](Ops& ops, bool together) {
      const auto& [n_in, n_out] = shape;
      constexpr int64_t kRows = 70;
      OneLayer layer;
      layer.add(ops, &AdapterLayer::qkv, {{n_in, n_out}, {n_in, 5}, {n_in, n_out}}, 9);
      const std::vector<AdapterRows> rows = layer.rows(kRows);
      Matrix x(kRows, n_in, 1), y(kRows, 2 * n_out + 5, 2);
      if (together) ops.add_low_rank(y.tensor(), x.tensor(), {rows, 0, &AdapterLayer::qkv});
      for (int64_t r = 0; r < kRows && !together; ++r) {
        const auto at = std::ranges::find_if(rows, [r](const AdapterRows& a) { return a.begin <= r && r < a.end; });
        if (at == rows.end()) continue;
        const AdapterRows one{at->adapter, 0, 1};
        ops.add_low_rank(y.tensor().rows(r, 1), x.tensor().rows(r, 1), {std::span(&one, 1), 0, &AdapterLayer::qkv});
      }
      return y.values;
    };
    compare("low rank", 1e-4, [&](Ops& ops) { return added_to(ops, true); });
    const auto ops = make_cpu_ops({.n_threads = 2, .isa = "", .pin = false});
    ASSERT_TRUE(ops);
    const std::vector<float> together = added_to(**ops, true), alone = added_to(**ops, false);
    EXPECT_TRUE(same_bits(together, alone)) << shape.n_in << ' ' << shape.n_out;
    Matrix before(70, 2 * shape.n_out + 5, 2);
    const auto middle = [&](const std::vector<float>& all) {
      return std::span(all).subspan(static_cast<size_t>(23 * before.d), static_cast<size_t>(24 * before.d));
    };
    EXPECT_TRUE(same_bits(middle(together), middle(before.values)));
    EXPECT_FALSE(same_bits(together, before.values));
  }
}

// Numbers that BF16 or F16 has take half the memory and give the bits that F32 gives. `wide`: one number of A, of a
// part that B multiplies with zero, and one of B, of an output more, are in neither.
struct Held {
  std::vector<float> y;  // without that output
  int64_t bytes;
};
Held held_low_rank(Ops& ops, const OneLayer::Shape& shape, float (*rounded)(float), bool wide) {
  constexpr int64_t kRank = 16, kRows = 9;
  constexpr float kThird = 1.0F / 3;
  Matrix a(kRank, shape.n_in, 3, 0.05F), b(shape.n_out, kRank, 4), x(kRows, shape.n_in, 5);
  for (Matrix* m : {&a, &b}) std::ranges::transform(m->values, m->values.begin(), rounded);
  LowRankSource from{a.values, b.values, kRank, shape.n_in, shape.n_out};
  std::vector<float> more_a = a.values, more_b;
  if (wide) {
    more_a.resize(static_cast<size_t>((kRank + 1) * shape.n_in), kThird);
    for (int64_t o = 0; o <= shape.n_out; ++o) {
      const auto row = std::span(b.values).subspan(static_cast<size_t>(std::min(o, shape.n_out - 1) * kRank), kRank);
      more_b.insert(more_b.end(), row.begin(), row.end());
      more_b.push_back(o < shape.n_out ? 0.0F : kThird);
    }
    from = {more_a, more_b, kRank + 1, shape.n_in, shape.n_out + 1};
  }
  Adapter adapter;
  adapter.layers.resize(1);
  adapter.layers[0].qkv.resize(1);
  adapter.memory = *ops.load_low_rank({&from, 1}, adapter.layers[0].qkv);
  Matrix y(kRows, from.n_out, 6);
  Matrix same(kRows, shape.n_out, 7);
  for (int64_t r = 0; r < kRows; ++r)
    std::ranges::copy(same.tensor().row<float>(r), same.tensor().row<float>(r) + shape.n_out, y.tensor().row<float>(r));
  const AdapterRows rows{&adapter, 0, kRows};
  ops.add_low_rank(y.tensor(), x.tensor(), {{&rows, 1}, 0, &AdapterLayer::qkv});
  for (int64_t r = 0; r < kRows; ++r) std::copy_n(y.tensor().row<float>(r), shape.n_out, same.tensor().row<float>(r));
  return {same.values, adapter.memory.bytes()};
}

TEST(Parity, LowRankNumbersAreHeldExactly) {
  const auto as_bf16 = [](float v) { return bf16_to_f32(f32_to_bf16(v)); };
  const auto as_f16 = [](float v) { return f16_to_f32(f32_to_f16(v)); };
  for (float (*rounded)(float) : {+as_bf16, +as_f16}) {
    for (const auto& shape : {OneLayer::Shape{512, 512}, {333, 100}}) {
      std::vector<float> first;
      for (const std::string& isa : cpu_isas()) {
        const auto ops = make_cpu_ops({.n_threads = 2, .isa = isa, .pin = false});
        const Held narrow = held_low_rank(**ops, shape, rounded, false);
        const Held wide = held_low_rank(**ops, shape, rounded, true);
        EXPECT_TRUE(same_bits(narrow.y, wide.y)) << isa << ' ' << shape.n_in;
        EXPECT_LT(narrow.bytes, wide.bytes * 4 / 10);
        if (first.empty()) first = narrow.y;
        EXPECT_TRUE(same_bits(narrow.y, first)) << isa;
      }
    }
  }
}

TEST(Parity, ExtremeActivations) {
  const Stored w = stored_weight(*find_weight_format("q8_0"), 16, 64, 4);
  compare("huge and tiny", 1e-5, [&](Ops& ops) {
    Matrix x(2, 64, 5);
    for (size_t i = 0; i < 64; ++i) x.values[i] *= i < 32 ? 1e30F : 0.0F;
    Matrix y(2, 16);
    const Linear linear = *ops.load_linear(w.weight, nullptr, Shard{});
    ops.linear(y.tensor(), x.tensor(), std::span(&linear, 1));
    return y.values;
  });
}

// Rows down to the least number there is, beside others in the same product: their groups count as zero before 127 /
// amax would be infinite.
TEST(Parity, TinyGroupsAreZeroEverywhere) {
  for (const char* format : {"q8_0", "q4_0", "q6_k", "q4_k"}) {
    const Stored w = stored_weight(*find_weight_format(format), 33, 256, 4);
    compare(format, 1e-5, [&](Ops& ops) {
      Matrix x(60, 256, 6);
      for (int64_t i = 0; i < x.n; ++i) {
        for (int64_t k = 0; k < 256; ++k) {
          float& value = x.values[static_cast<size_t>(i * 256 + k)];
          value = std::ldexp(value, -90 - static_cast<int>(i));
        }
      }
      Matrix y(x.n, 33);
      const Linear linear = *ops.load_linear(w.weight, nullptr, Shard{});
      ops.linear(y.tensor(), x.tensor(), std::span(&linear, 1));
      return y.values;
    });
  }
}

// Products and sums on both sides of the least normal number, where VDPBF16PS rounds to zero.
TEST(Parity, TinyNumbersOfBf16AreZeroEverywhere) {
  for (int64_t n_in : {31, 64, 300}) {
    Stored w = stored_weight(*find_weight_format("bf16"), 33, n_in, 4);
    Rng rng(5);
    for (size_t i = 0; i < w.bytes.size(); i += 2) {
      uint16_t stored;
      std::memcpy(&stored, w.bytes.data() + i, 2);
      stored = f32_to_bf16(std::ldexp(bf16_to_f32(stored), -static_cast<int>(rng.between(0, 129))));
      std::memcpy(w.bytes.data() + i, &stored, 2);
    }
    size_t n_zeros = 0;
    compare("tiny " + std::to_string(n_in), 1e-5, [&](Ops& ops) {
      Matrix x(30, n_in, 6);
      for (int64_t i = 0; i < x.n; ++i) {
        Rng per_row(static_cast<uint64_t>(i));
        for (int64_t k = 0; k < n_in; ++k) {
          float& value = x.values[static_cast<size_t>(i * n_in + k)];
          value *= std::ldexp(1.0F, -static_cast<int>(per_row.between(0, 19) + 5 * i));
          if (k % 16 == 0) value = 0x1.fffp-127F;  // would become the least normal number, were it rounded
        }
      }
      Matrix y(x.n, 33);
      const Linear linear = *ops.load_linear(w.weight, nullptr, Shard{});
      ops.linear(y.tensor(), x.tensor(), std::span(&linear, 1));
      n_zeros = static_cast<size_t>(std::ranges::count(y.values, 0.0F));
      return y.values;
    });
    EXPECT_GT(n_zeros, 0U);
    EXPECT_LT(n_zeros, 30U * 33U);
  }
}

TEST(Parity, NaNActivationsReachTheOutput) {
  for (const WeightFormat* format : weight_formats()) {
    const int64_t n_in = whole_blocks(*format, 64);
    const Stored w = stored_weight(*format, 16, n_in, 4);
    for (const std::string& isa : cpu_isas()) {
      for (const float bad : {NAN, INFINITY, -INFINITY}) {
        const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = isa, .pin = false});
        Matrix x(2, n_in, 5);
        x.values[7] = bad;
        Matrix y(2, 16);
        const Linear linear = *(*ops)->load_linear(w.weight, nullptr, Shard{});
        (*ops)->linear(y.tensor(), x.tensor(), std::span(&linear, 1));
        EXPECT_FALSE(std::isfinite(y.values[0])) << format->name << ' ' << isa;
        EXPECT_TRUE(std::isfinite(y.values[16])) << "the other row";
      }
    }
  }
}

TEST(Parity, Norms) {
  for (int64_t d : {1, 15, 16, 17, 64, 172, 2048}) {
    for (int64_t n : {1, 3}) {
      compare("norm " + std::to_string(d), 1e-6, [&](Ops& ops) {
        Matrix x(n, d, 1);
        Matrix delta(n, d, 2);
        Matrix w(1, d, 3);
        Matrix y(n, d);
        Matrix z(n, d);
        Tensor weight = Tensor::dense(w.values.data(), DType::f32, {d});
        ops.rms_norm(z.tensor(), x.tensor(), weight, 1e-5F);
        ops.add_rms_norm(y.tensor(), x.tensor(), delta.tensor(), weight, 1e-5F);
        ops.add(x.tensor(), delta.tensor());
        std::vector<float> out = y.values;
        out.insert(out.end(), z.values.begin(), z.values.end());
        out.insert(out.end(), x.values.begin(), x.values.end());
        return out;
      });
    }
  }
}

TEST(Parity, LayerNorms) {
  for (int64_t d : {1, 16, 40, 129, 2048}) {
    for (const bool has_bias : {true, false}) {
      compare("layer norm", 2e-6, [&](Ops& ops) {
        Matrix x(3, d, 1, 2.0F), w(1, d, 2), b(1, d, 3), y(3, d);
        for (float& v : x.values) v += 1.5F;
        const auto vector = [d](Matrix& m) { return Tensor::dense(m.values.data(), DType::f32, {d}); };
        ops.layer_norm(y.tensor(), x.tensor(), vector(w), has_bias ? vector(b) : Tensor{}, 1e-5F);
        return y.values;
      });
    }
  }
}

TEST(Parity, RowsByTheirGates) {
  compare("gate rows", 1e-6, [](Ops& ops) {
    Matrix x(7, 37, 1), gate(7, 1, 2, 4.0F);
    ops.gate_rows(x.tensor(), gate.tensor());
    return x.values;
  });
}

TEST(Parity, GatedOverTheWholeRange) {
  for (int kind = 0; kind < kActivations; ++kind) {
    const auto act = static_cast<Activation>(kind);
    for (int64_t d : {1, 16, 172}) {
      for (float spread : {0.1F, 3.0F, 40.0F}) {
        for (const bool has_gate : {true, false}) {
          // A single one may be so far below zero that the truth is zero.
          if (!has_gate && (act == Activation::clamped_silu || d == 1)) continue;
          // What is left of two near numbers has their error; of one alone that may be all.
          const bool is_rest = act == Activation::below_zero;
          if (is_rest && d == 1) continue;
          const double tolerance = is_rest ? 5e-5 : 6e-7;
          compare("gated " + std::to_string(kind), tolerance, [&](Ops& ops) {
            Matrix gate(2, d, 1, spread);
            Matrix up(2, d, 2, act == Activation::clamped_silu ? spread : 1.0F);
            Matrix y(2, d);
            ops.gated(y.tensor(), gate.tensor(), has_gate ? up.tensor() : Tensor{}, act);
            return y.values;
          });
        }
      }
    }
  }
}

TEST(Parity, HeadNormLeavesOtherColumnsAlone) {
  for (int64_t d : {8, 16, 80}) {
    compare("head norm", 1e-6, [&](Ops& ops) {
      Matrix x(3, 5 * d, 1);
      Matrix w(1, d, 2);
      ops.head_norm(x.tensor().columns(d, 3 * d), Tensor::dense(w.values.data(), DType::f32, {d}), 1e-6F);
      return x.values;
    });
  }
}

TEST(Parity, ScaleAndSoftCap) {
  for (int64_t d : {1, 16, 105}) {
    for (float spread : {0.01F, 5.0F, 1e4F}) {
      compare("soft cap", 3e-7, [&](Ops& ops) {
        Matrix x(2, d, 1, spread);
        Matrix y(2, d, 2, spread);
        x.values[0] = INFINITY;
        x.values.back() = -INFINITY;
        ops.soft_cap(x.tensor(), 30.0F);
        ops.scale(y.tensor(), 8.0F);
        x.values.insert(x.values.end(), y.values.begin(), y.values.end());
        return x.values;
      });
    }
  }
}

TEST(Parity, SoftCapKeepsNaN) {
  for (const std::string& isa : cpu_isas()) {
    const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = isa, .pin = false});
    Matrix x(1, 20, 1);
    x.values[3] = x.values[18] = NAN;
    (*ops)->soft_cap(x.tensor(), 30.0F);
    EXPECT_TRUE(std::isnan(x.values[3]) && std::isnan(x.values[18]) && std::isfinite(x.values[4])) << isa;
  }
}

// Of every head a part: as many pairs as a vector holds, fewer, and some left over.
TEST(Parity, Rope) {
  for (RopePairs pairs : {RopePairs::interleaved, RopePairs::halves}) {
    for (int64_t n_freq : {6, 16, 37}) {
      compare("rope of " + std::to_string(n_freq), 1e-6, [&](Ops& ops) {
        std::vector<int32_t> pos = {0, 1, 4095};
        std::vector<int64_t> freq(static_cast<size_t>(n_freq));
        for (size_t i = 0; i < freq.size(); ++i) {
          freq[i] = std::bit_cast<int64_t>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(n_freq)));
        }
        const int64_t head_dim = 2 * n_freq + 4;
        Matrix x(3, 4 * head_dim, 1);
        Matrix table(3, 2 * n_freq);
        Tensor rotation = Tensor::dense(table.values.data(), DType::f32, {3, n_freq, 2});
        ops.rope_table(rotation, ints(pos), Tensor::dense(freq.data(), DType::i64, {n_freq}),
                       pairs == RopePairs::halves ? 1.25 : 1.0);
        ops.rope(x.tensor(), rotation, static_cast<int>(head_dim), pairs);
        return x.values;
      });
    }
  }
}

TEST(Parity, EmbedAndRows) {
  for (const WeightFormat* format : weight_formats()) {
    const int64_t n_in = whole_blocks(*format, 96);
    const Stored w = stored_weight(*format, 21, n_in, 3);
    compare("embed", 0.0, [&](Ops& ops) {
      const Linear table = *ops.load_linear(w.weight, nullptr, Shard{});
      std::vector<int32_t> ids = {20, 0, 16, 15, 15};
      std::vector<int32_t> picked = {4, 1};
      Matrix y(5, n_in);
      Matrix z(2, n_in);
      ops.embed(y.tensor(), ints(ids), table);
      ops.rows(z.tensor(), y.tensor(), ints(picked));
      std::vector<float> out = y.values;
      out.insert(out.end(), z.values.begin(), z.values.end());
      return out;
    });
  }
}

TEST(Parity, Sample) {
  for (int64_t n_vocab : {1, 15, 105, 1000}) {
    for (int variant = 0; variant < 6; ++variant) {
      compare("sample", 1e-6, [&](Ops& ops) {
        Matrix logits(40, n_vocab, 11, 3.0F);
        std::vector<SampleParams> params(40);
        for (size_t i = 0; i < 40; ++i) {
          params[i].temperature = variant == 0 ? 0.0F : 0.8F;
          params[i].top_k = variant == 2 || variant == 5 ? 7 : 0;
          params[i].top_p = variant == 3 || variant == 5 ? 0.9F : 1.0F;
          params[i].min_p = variant == 4 || variant == 5 ? 0.05F : 0.0F;
          params[i].draw = random_unit(5, i);
          params[i].n_top = 3;
        }
        std::vector<Sampled> out(40);
        ops.sample(out, logits.tensor(), params);
        std::vector<float> flat;
        for (const Sampled& s : out) {
          EXPECT_TRUE(s.ok);
          flat.push_back(static_cast<float>(s.token));
          flat.push_back(s.logprob);
          for (const TopLogprob& top : s.top) flat.push_back(top.logprob);
        }
        return flat;
      });
    }
  }
}

TEST(Parity, SampleRefusesBadRows) {
  for (const std::string& isa : cpu_isas()) {
    const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = isa, .pin = false});
    Matrix logits(4, 40, 3);
    logits.values[5] = NAN;
    logits.values[40 + 39] = INFINITY;
    for (size_t i = 80; i < 120; ++i) logits.values[i] = -INFINITY;
    std::vector<SampleParams> params(4);
    std::vector<Sampled> out(4);
    (*ops)->sample(out, logits.tensor(), params);
    EXPECT_FALSE(out[0].ok);
    EXPECT_FALSE(out[1].ok);
    EXPECT_FALSE(out[2].ok);
    EXPECT_TRUE(out[3].ok) << "the good row is not touched";
  }
}

// Every other test of this file runs what this CPU can: what it cannot is named here, so that it is seen.
TEST(Parity, EveryInstructionSetRanHere) {
  std::string missing;
  const std::vector<std::string> here = cpu_isas();
  for (const IsaTable& table : isa_tables()) {
    if (std::find(here.begin(), here.end(), table.isa) == here.end()) missing += " " + std::string(table.isa);
  }
  if (!missing.empty()) GTEST_SKIP() << "compiled, but this CPU cannot run it:" << missing;
}

}  // namespace
}  // namespace quire
