// The parts of a decoder's layer, which a backend may fuse, against the ops that they are made of: the same bits on
// every instruction set and number of threads.
#include "ops/parts.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/parity/op_corpus.h"

namespace quire {
namespace {

// Of a weight's numbers, and of its columns' order; 0: they are in order.
struct Seeds {
  Seeds(uint64_t of_numbers, uint64_t of_order = 0) : numbers(of_numbers), order(of_order) {}
  uint64_t numbers, order;
};

Linear load(Ops& ops, std::string_view format, int64_t n_out, int64_t n_in, const Seeds& seeds) {
  return load_ordered(ops, stored_weight(*find_weight_format(format), n_out, n_in, seeds.numbers), seeds.order);
}

Tensor vector(Matrix& m) { return Tensor::dense(m.values.data(), DType::f32, {m.n * m.d}); }

// Rows of the residual stream, with what is still to be added to them.
struct Stream {
  Stream(int64_t n, int64_t d, bool any_delta, bool any_delta_norm)
      : x(n, d, 1), delta(n, d, 2), w(1, d, 3), delta_w(1, d, 4), normed(n, d) {
    in.x = x.tensor();
    if (any_delta) in.delta = delta.tensor();
    if (any_delta_norm) in.delta_w = vector(delta_w);
    in.w = vector(w);
    in.eps = 1e-5F;
    in.normed = normed.tensor();
  }
  // x and what is to be added to it next, which takes delta's place.
  std::vector<float> result() const {
    std::vector<float> out = x.values;
    out.insert(out.end(), delta.values.begin(), delta.values.end());
    return out;
  }
  Matrix x, delta, w, delta_w, normed;
  NormedRows in;
};

void for_each_cpu(const std::function<void(Ops&)>& body) {
  for (const std::string& isa : cpu_isas()) {
    for (const auto& [n_threads, n_nodes] : kSeatings) {
      const CpuOptions options{.n_threads = n_threads, .isa = isa, .pin = false, .n_nodes = n_nodes};
      const auto ops = make_cpu_ops(options);
      ASSERT_TRUE(ops);
      SCOPED_TRACE((*ops)->describe());
      body(**ops);
    }
  }
}

struct FeedForwardCase {
  std::string_view gate, up, down;  // formats
  int64_t d, n_ff;
  uint64_t order = 0, down_order = 0;  // of gate's and up's columns, of down's
};

TEST(Parts, FeedForwardIsItsOps) {
  const FeedForwardCase cases[] = {
      {.gate = "q8_0", .up = "q8_0", .down = "q8_0", .d = 64, .n_ff = 96},
      {.gate = "q4_0", .up = "q4_0", .down = "q8_0", .d = 96, .n_ff = 160},
      {.gate = "f32", .up = "f32", .down = "f32", .d = 40, .n_ff = 41},
      {.gate = "q8_0", .up = "bf16", .down = "f16", .d = 64, .n_ff = 100},
      {.gate = "f16", .up = "q4_k", .down = "q6_k", .d = 256, .n_ff = 768},
      {.gate = "q8_0", .up = "q8_0", .down = "f32", .d = 512, .n_ff = 9},
      {.gate = "q4_0", .up = "q8_0", .down = "bf16", .d = 64, .n_ff = 1000},
      {.gate = "q8_0", .up = "q8_0", .down = "q8_0", .d = 32, .n_ff = 12'000},
      {.gate = "q8_0", .up = "q4_0", .down = "q8_0", .d = 64, .n_ff = 96, .order = 3, .down_order = 4},
      {.gate = "q4_0", .up = "q4_0", .down = "q8_0", .d = 96, .n_ff = 160, .order = 3},
      {.gate = "q8_0", .up = "q8_0", .down = "q4_0", .d = 64, .n_ff = 1024, .down_order = 4},
  };
  for_each_cpu([&](Ops& ops) {
    for (const FeedForwardCase& c : cases) {
      const Linear gate_up[] = {load(ops, c.gate, c.n_ff, c.d, {5, c.order}),
                                load(ops, c.up, c.n_ff, c.d, {6, c.order})};
      const Linear down = load(ops, c.down, c.d, c.n_ff, {7, c.down_order});
      OneLayer layer;
      layer.add(ops, &AdapterLayer::gate_up, {{c.d, c.n_ff}, {c.d, c.n_ff}}, 20);
      layer.add(ops, &AdapterLayer::down, {{c.n_ff, c.d}}, 30);
      for (const int64_t n : {1, 3, 70}) {
        const std::vector<AdapterRows> adapters = layer.rows(n);
        const auto run = [&](bool fused, bool adapted) {
          Stream stream(n, c.d, n != 3, n == 70);
          Matrix scratch(n, 2 * c.n_ff, 8);
          FeedForwardPart part;
          part.gate_up = gate_up;
          part.down = std::span(&down, 1);
          part.activation = n == 3 ? Activation::gelu_tanh : Activation::silu;
          part.scratch = scratch.tensor();
          if (adapted) part.adapters = adapters;
          if (fused) ops.feed_forward(stream.delta.tensor(), stream.in, part);
          if (!fused) ops.Ops::feed_forward(stream.delta.tensor(), stream.in, part);
          return stream.result();
        };
        for (const bool adapted : {false, true}) {
          ASSERT_TRUE(same_bits(run(true, adapted), run(false, adapted)))
              << c.gate << ' ' << c.d << ' ' << c.n_ff << ' ' << n << adapted;
        }
        ASSERT_FALSE(same_bits(run(true, true), run(true, false)));
      }
    }
  });
}

// Units without a gate, and layers without a norm in front or with a layer norm.
TEST(Parts, OtherUnitsAndNormsAreTheirOps) {
  for_each_cpu([&](Ops& ops) {
    for (const std::string_view format : {"f32", "q8_0"}) {
      const Linear up = load(ops, format, 96, 64, 5), gate = load(ops, format, 96, 64, 6);
      const Linear down = load(ops, format, 64, 96, 7);
      for (const int64_t n : {1, 3, 70}) {
        const auto run = [&](bool fused, bool has_gate, bool has_norm) {
          Stream stream(n, 64, n != 3, n == 70);
          Matrix scratch(n, has_gate ? 192 : 96, 8), b(1, 64, 9);
          stream.in.kind = NormKind::layer;
          if (has_norm) stream.in.b = vector(b);
          if (!has_norm) stream.in.w = {};
          const Linear both[] = {gate, up};
          FeedForwardPart part;
          part.gate_up = has_gate ? std::span(both) : std::span(both).last(1);
          part.down = std::span(&down, 1);
          part.activation = has_gate ? Activation::clamped_silu : Activation::relu2;
          part.scratch = scratch.tensor();
          if (fused) ops.feed_forward(stream.delta.tensor(), stream.in, part);
          if (!fused) ops.Ops::feed_forward(stream.delta.tensor(), stream.in, part);
          return stream.result();
        };
        for (const bool has_gate : {true, false}) {
          for (const bool has_norm : {true, false}) {
            ASSERT_TRUE(same_bits(run(true, has_gate, has_norm), run(false, has_gate, has_norm)))
                << format << ' ' << n << has_gate << has_norm;
          }
        }
      }
    }
  });
}

struct AttentionCase {
  std::string_view qkv = "q8_0", out = "q8_0";  // formats
  int n_heads = 4, n_kv_heads = 2, k_dim = 16, v_dim = 16;
  bool one_matrix = false, head_norms = false;
  int past = 0, n = 1;
  bool row_norms = false;  // of all heads together; nothing turns
  uint64_t q_order = 0, kv_order = 0, out_order = 0;
  bool adapted = false;
};

// What the part leaves: the stream, and the cache.
std::vector<float> run_attention(Ops& ops, const AttentionCase& c, bool fused) {
  constexpr int64_t kD = 64;
  constexpr int kBlockTokens = 16;
  const KvCodec& codec = *find_kv_codec("f32");
  AttnParams params;
  params.k_codec = params.v_codec = &codec;
  params.n_heads = c.n_heads;
  params.n_kv_heads = c.n_kv_heads;
  params.k_dim = c.k_dim;
  params.v_dim = c.v_dim;
  params.scale = 0.3F;
  const int n_blocks = (c.past + c.n + kBlockTokens - 1) / kBlockTokens;
  const int64_t block_bytes = c.n_kv_heads * (codec.k_row_bytes(c.k_dim) + codec.v_row_bytes(c.v_dim)) * kBlockTokens;
  Matrix pool(n_blocks + 1, block_bytes / 4, 9);  // the last for what attention reads past its values
  KvView view;
  view.n_groups = 1;
  view.groups[0] = {pool.tensor().data, block_bytes, kBlockTokens};
  std::vector<int32_t> blocks, slots, first, end, pos, cu_q = {0, c.n};
  for (int b = 0; b < n_blocks; ++b) blocks.push_back(n_blocks - 1 - b);
  for (int t = c.past; t < c.past + c.n; ++t) {
    slots.push_back(blocks[static_cast<size_t>(t / kBlockTokens)] * kBlockTokens + t % kBlockTokens);
    first.push_back(0);
    end.push_back(t + 1);
    pos.push_back(t);
  }
  AttnMeta meta{ints(cu_q), {Tensor::dense(blocks.data(), DType::i32, {1, n_blocks})}, ints(first), ints(end)};

  const int64_t q = int64_t{c.n_heads} * c.k_dim, k = int64_t{c.n_kv_heads} * c.k_dim;
  const int64_t v = int64_t{c.n_kv_heads} * c.v_dim, mixed = int64_t{c.n_heads} * c.v_dim;
  std::vector<Linear> qkv;
  if (c.one_matrix) qkv.push_back(load(ops, c.qkv, q + k + v, kD, 5));
  if (!c.one_matrix) {
    qkv = {load(ops, c.qkv, q, kD, {5, c.q_order}), load(ops, c.qkv, k, kD, {6, c.kv_order}),
           load(ops, c.qkv, v, kD, {7, c.kv_order})};
  }
  const Linear out = load(ops, c.out, kD, mixed, {8, c.out_order});
  Matrix q_norm(1, c.k_dim, 10), k_norm(1, c.k_dim, 11), rotation(c.n, c.k_dim / 2),
      scratch(c.n, q + k + v + mixed, 12);
  std::vector<int64_t> freq(static_cast<size_t>(c.k_dim / 4));
  for (size_t f = 0; f < freq.size(); ++f) freq[f] = std::bit_cast<int64_t>(1.0 / (1.0 + static_cast<double>(f)));
  AttentionPart part;
  part.rotation = Tensor::dense(rotation.values.data(), DType::f32, {c.n, c.k_dim / 4, 2});
  ops.rope_table(part.rotation, ints(pos), Tensor::dense(freq.data(), DType::i64, {c.k_dim / 4}), 1.0);
  part.qkv = qkv;
  if (c.head_norms) part.q_norm = vector(q_norm);
  if (c.head_norms) part.k_norm = vector(k_norm);
  part.pairs = c.one_matrix ? RopePairs::interleaved : RopePairs::halves;
  part.slots = ints(slots);
  part.kv = &view;
  part.meta = &meta;
  part.params = &params;
  Matrix q_row_norm(1, q, 13), k_row_norm(1, k, 14);
  if (c.row_norms) {
    part.q_norm = vector(q_row_norm);
    part.k_norm = vector(k_row_norm);
    part.rotation = {};
  }
  part.out = std::span(&out, 1);
  part.scratch = scratch.tensor();
  OneLayer layer;
  using Shape = OneLayer::Shape;
  const std::vector<Shape> apart = {{kD, q}, {kD, k}, {kD, v}}, together = {{kD, q + k + v}};
  layer.add(ops, &AdapterLayer::qkv, c.one_matrix ? together : apart, 20);
  layer.add(ops, &AdapterLayer::attn_out, {{mixed, kD}}, 30);
  const std::vector<AdapterRows> adapters = layer.rows(c.n);
  if (c.adapted) part.adapters = adapters;
  Stream stream(c.n, kD, c.n != 3, c.head_norms && c.n != 3);
  if (fused) ops.attention(stream.delta.tensor(), stream.in, part);
  if (!fused) ops.Ops::attention(stream.delta.tensor(), stream.in, part);
  std::vector<float> result = stream.result();
  result.insert(result.end(), pool.values.begin(), pool.values.end());
  return result;
}

// With adapters and without.
void expect_its_ops(Ops& ops, AttentionCase c) {
  const auto run = [&](bool adapted, bool fused) {
    c.adapted = adapted;
    return run_attention(ops, c, fused);
  };
  const std::vector<float> plain = run(false, true), adapted = run(true, true);
  ASSERT_TRUE(same_bits(plain, run(false, false)))
      << c.qkv << ' ' << c.n_heads << " heads of " << c.k_dim << ", rows " << c.n;
  ASSERT_TRUE(same_bits(adapted, run(true, false)))
      << c.qkv << ' ' << c.n_heads << " heads of " << c.k_dim << ", rows " << c.n << ", adapted";
  ASSERT_FALSE(same_bits(plain, adapted));
}

TEST(Parts, AttentionIsItsOps) {
  const AttentionCase cases[] = {
      {},  // a KV head's values are a group of the last product
      // Four are; a panel holds two heads.
      {.n_kv_heads = 4, .k_dim = 8, .v_dim = 8, .one_matrix = true, .head_norms = true, .n = 3},
      // Heads begin within panels.
      {.out = "f32", .n_heads = 3, .n_kv_heads = 1, .k_dim = 24, .v_dim = 24, .one_matrix = true, .past = 20, .n = 40},
      // Keys and values of different sizes.
      {.qkv = "f32", .out = "q4_0", .n_kv_heads = 1, .k_dim = 32, .head_norms = true, .n = 70},
      {.qkv = "bf16", .n_heads = 2, .n_kv_heads = 1, .past = 1500},  // keys cut into spans
      {.k_dim = 64, .v_dim = 64, .head_norms = true, .past = 1300, .n = 9},
      {.past = 20, .n = 40, .row_norms = true},
  };
  for_each_cpu([&](Ops& ops) {
    for (const AttentionCase& c : cases) expect_its_ops(ops, c);
  });
}

TEST(Parts, AttentionOfColumnsInAnOrderIsItsOps) {
  const AttentionCase cases[] = {
      {.n = 40, .q_order = 3, .kv_order = 3, .out_order = 4},                // columns in orders of their own
      {.head_norms = true, .past = 5, .n = 2, .q_order = 3, .kv_order = 5},  // of which q's is another
  };
  for_each_cpu([&](Ops& ops) {
    for (const AttentionCase& c : cases) expect_its_ops(ops, c);
  });
}

// The truth of the ops has no fused forms: fused ones are near it because their ops are.
TEST(Parts, ReferenceTakesThemApart) {
  compare("feed forward", 1e-4, [](Ops& ops) {
    Stream stream(3, 64, true, true);
    Matrix scratch(3, 192);
    const Linear gate_up[] = {load(ops, "f32", 96, 64, 5), load(ops, "f32", 96, 64, 7)};
    const Linear down = load(ops, "f32", 64, 96, 6);
    FeedForwardPart part;
    part.gate_up = gate_up;
    part.down = std::span(&down, 1);
    part.scratch = scratch.tensor();
    ops.feed_forward(stream.delta.tensor(), stream.in, part);
    return stream.result();
  });
  compare("attention", 1e-4,
          [](Ops& ops) { return run_attention(ops, {.qkv = "f32", .out = "f32", .head_norms = true, .n = 20}, true); });
  compare("attention with adapters", 1e-4, [](Ops& ops) {
    return run_attention(ops, {.qkv = "f32", .out = "f32", .head_norms = true, .n = 20, .adapted = true}, true);
  });
}

}  // namespace
}  // namespace quire
