// Votes against softmax written out plainly in long double, whatever rows come together and however many keys there
// are.
#include "ops/votes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "ops/no_ops.h"
#include "ops/op_check.h"

namespace quire {
namespace {

constexpr int kBlock = 32, kDim = 24, kHeads = 6, kKvHeads = 2;

class HostOps final : public NoOps {
 public:
  std::string describe() const override { return "host"; }
  Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes); }
  void finish() override { finished = true; }
  bool finished = false;
};

// One sequence of n keys in blocks that lie in falling order, and a query row at each position.
struct World {
  World(int n_keys, std::string_view codec, float soft_cap = 0) : n(n_keys) {
    params.k_codec = params.v_codec = find_kv_codec(codec);
    params.n_heads = kHeads;
    params.n_kv_heads = kKvHeads;
    params.k_dim = params.v_dim = kDim;
    params.scale = 0.3F;
    params.soft_cap = soft_cap;
    const HeadBytes bytes = head_bytes(params);
    const int64_t block_bytes = kKvHeads * (bytes.k + bytes.v) * kBlock;
    memory.resize(static_cast<size_t>(block_bytes * n_blocks()));
    kv.n_groups = 1;
    kv.groups[0] = {memory.data(), block_bytes, kBlock};
    Rng rng(7);
    for (int b = 0; b < n_blocks(); ++b) table.push_back(n_blocks() - 1 - b);
    for (int t = 0; t < n; ++t) {
      for (int h = 0; h < kKvHeads; ++h) {
        std::vector<float> row(kDim);
        for (float& x : row) x = static_cast<float>(rng.unit() * 4 - 2);
        const KvPlace at = place(t, h);
        params.k_codec->put_k(at.k, at.t, kDim, row.data());
        params.k_codec->get_k(at.k, at.t, kDim, row.data());
        keys.push_back(row);
      }
      first.push_back(0);
      end.push_back(t + 1);
      for (int d = 0; d < kHeads * kDim; ++d) queries.push_back(static_cast<float>(rng.unit() * 4 - 2));
    }
    cu_q = {0, n};
    meta.cu_q = Tensor::dense(cu_q.data(), DType::i32, {2});
    meta.blocks[0] = Tensor::dense(table.data(), DType::i32, {1, n_blocks()});
    meta.first_key = Tensor::dense(first.data(), DType::i32, {n});
    meta.end_key = Tensor::dense(end.data(), DType::i32, {n});
    q = Tensor::dense(queries.data(), DType::f32, {n, kHeads * kDim});
  }
  int n_blocks() const { return (n + kBlock - 1) / kBlock; }
  KvPlace place(int t, int head) const {
    return kv_place(kv, params, int64_t{table[static_cast<size_t>(t / kBlock)]} * kBlock + t % kBlock, head);
  }
  std::vector<int64_t> count(int begin, int stop) {
    std::vector<int64_t> votes(static_cast<size_t>(n_blocks()));
    const VotingRows rows{.seq = 0, .begin = begin, .end = stop, .votes = votes.data()};
    AttentionPart part;
    part.kv = &kv;
    part.meta = &meta;
    part.params = &params;
    count_votes(ops, q, part, {&rows, 1});
    return votes;
  }
  // As count, in units of whole votes.
  std::vector<double> plain(int begin, int stop) const {
    std::vector<double> out(static_cast<size_t>(n_blocks()));
    for (int r = begin; r < stop; ++r) {
      for (int h = 0; h < kHeads; ++h) {
        std::vector<long double> p;
        long double sum = 0;
        for (int t = 0; t <= r; ++t) {
          long double dot = 0;
          for (int d = 0; d < kDim; ++d) {
            dot += static_cast<long double>(queries[static_cast<size_t>((r * kHeads + h) * kDim + d)]) *
                   static_cast<long double>(
                       keys[static_cast<size_t>(t * kKvHeads + h / (kHeads / kKvHeads))][static_cast<size_t>(d)]);
          }
          dot *= static_cast<long double>(params.scale);
          if (params.soft_cap > 0)
            dot =
                static_cast<long double>(params.soft_cap) * std::tanh(dot / static_cast<long double>(params.soft_cap));
          sum += p.emplace_back(std::exp(dot));
        }
        for (int t = 0; t <= r; ++t)
          out[static_cast<size_t>(t / kBlock)] += static_cast<double>(p[static_cast<size_t>(t)] / sum);
      }
    }
    return out;
  }

  const int n;
  HostOps ops;
  AttnParams params;
  KvView kv;
  std::vector<std::byte> memory;
  std::vector<int32_t> table, first, end, cu_q;
  std::vector<std::vector<float>> keys;
  std::vector<float> queries;
  AttnMeta meta;
  Tensor q;
};

TEST(Votes, AreWhatAttentionWeighs) {
  for (const char* codec : {"f32", "f16", "q8", "bf16"}) {
    for (const float cap : {0.0F, 3.0F}) {
      World w(117, codec, cap);
      const std::vector<int64_t> found = w.count(85, 117);
      const std::vector<double> wanted = w.plain(85, 117);
      EXPECT_TRUE(w.ops.finished);
      for (size_t b = 0; b < wanted.size(); ++b)
        EXPECT_NEAR(static_cast<double>(found[b]) / static_cast<double>(kWholeVote), wanted[b], 1e-4) << codec << b;
    }
  }
}

TEST(Votes, RowsMayComeInAnyParts) {
  World w(200, "f16");
  const std::vector<int64_t> all = w.count(168, 200);
  for (const int cut : {169, 170, 177, 192, 199}) {
    std::vector<int64_t> sum = w.count(168, cut), rest = w.count(cut, 200);
    for (size_t b = 0; b < sum.size(); ++b) sum[b] += rest[b];
    EXPECT_EQ(sum, all) << cut;
  }
}

TEST(Votes, AWholeVoteIsDividedButForWhatIsRoundedDown) {
  World w(130, "f32");
  const std::vector<int64_t> found = w.count(129, 130);
  int64_t sum = 0;
  for (const int64_t v : found) sum += v;
  EXPECT_LE(sum, kHeads * kWholeVote);
  EXPECT_GT(sum, kHeads * (kWholeVote - 131));
}

TEST(Votes, AKeyThatIsNotFiniteTakesNoPart) {
  World w(64, "f32");
  const std::vector<int64_t> before = w.count(63, 64);
  std::vector<float> bad(kDim, NAN);
  for (int h = 0; h < kKvHeads; ++h) {
    for (int t = 0; t < kBlock; ++t) w.params.k_codec->put_k(w.place(t, h).k, w.place(t, h).t, kDim, bad.data());
  }
  const std::vector<int64_t> after = w.count(63, 64);
  EXPECT_GT(before[0], 0);
  EXPECT_EQ(after[0], 0);
  EXPECT_GT(after[1], before[1]);
}

}  // namespace
}  // namespace quire
