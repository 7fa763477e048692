// Mixtures of experts on every instruction set against backend/ref, and each row as if it were alone.
#include <gtest/gtest.h>

#include "tests/parity/op_corpus.h"

namespace quire {
namespace {

struct TestExperts {
  TestExperts(const WeightFormat& format, int n, int64_t n_embd, int64_t n_ff) {
    for (int e = 0; e < n; ++e) {
      const uint64_t seed = 3 * static_cast<uint64_t>(e) + 1;
      gate.push_back(stored_weight(format, n_ff, n_embd, seed));
      up.push_back(stored_weight(format, n_ff, n_embd, seed + 1));
      down.push_back(stored_weight(format, n_embd, n_ff, seed + 2));
    }
  }
  Experts load(Ops& ops, const Routing& routing) const {
    Experts out;
    out.routing = routing;
    const auto one = [&](const Stored& w) { return *ops.load_linear(w.weight, nullptr, Shard{}); };
    for (size_t e = 0; e < gate.size(); ++e) {
      out.gate_up.push_back({one(gate[e]), one(up[e])});
      out.down.push_back(one(down[e]));
    }
    return out;
  }
  std::vector<Stored> gate, up, down;
};

std::vector<float> run_moe(Ops& ops, const Experts& experts, Matrix x, Matrix router) {
  Matrix y(x.n, x.d);
  Matrix scratch(x.n * experts.routing.n_used, x.d + 3 * experts.down.front().n_in);
  ops.moe(y.tensor(), MoeInput{x.tensor(), router.tensor(), scratch.tensor()}, experts);
  return y.values;
}

TEST(Parity, Moe) {
  for (const char* name : {"f32", "bf16", "q8_0", "q4_k"}) {
    const WeightFormat& format = *find_weight_format(std::string_view(name));
    const int64_t n_embd = whole_blocks(format, 90);
    const int64_t n_ff = whole_blocks(format, 64);
    for (const int n_experts : {1, 5}) {
      const TestExperts stored(format, n_experts, n_embd, n_ff);
      for (const int64_t n : {1, 4, 40, 100}) {
        for (const int n_used : {1, std::min(3, n_experts)}) {
          const Routing routing{.n_used = n_used, .normalised = n % 2 == 0, .scale = 1.5F};
          // What lies close to halfway between two BF16 may be rounded the other way.
          compare(std::string(name) + " experts " + std::to_string(n_experts) + " rows " + std::to_string(n),
                  format.rounded ? 5e-4 : 1e-4, [&](Ops& ops) {
                    return run_moe(ops, stored.load(ops, routing), Matrix(n, n_embd, 11), Matrix(n, n_experts, 12));
                  });
        }
      }
    }
  }
}

// Scores, biases and groups choose the same experts everywhere.
TEST(Parity, MoeByEveryRouting) {
  const TestExperts stored(*find_weight_format("f32"), 8, 32, 32);
  Matrix bias(1, 8, 13);
  for (const auto scoring : {Routing::Scoring::softmax, Routing::Scoring::sigmoid}) {
    for (const int n_expert_groups_used : {1, 2, 4}) {
      const Routing routing{.scoring = scoring,
                            .n_used = 2,
                            .normalised = n_expert_groups_used == 1,
                            .n_expert_groups = 4,
                            .n_expert_groups_used = n_expert_groups_used,
                            .expert_groups_by_two = n_expert_groups_used == 2};
      compare("routing", 1e-4, [&](Ops& ops) {
        Experts experts = stored.load(ops, routing);
        experts.activation = Activation::clamped_silu;
        if (n_expert_groups_used > 1) experts.choice_bias = Tensor::dense(bias.values.data(), DType::f32, {8});
        return run_moe(ops, experts, Matrix(20, 32, 11), Matrix(20, 8, 12));
      });
    }
  }
}

// One row's result may not depend on the rows beside it, nor on the number of those that share its experts.
TEST(Parity, MoeRowsAreIndependent) {
  const TestExperts stored(*find_weight_format("q8_0"), 6, 64, 96);
  const Routing routing{.n_used = 2};
  const Matrix x(37, 64, 5);
  const Matrix router(37, 6, 6);
  for (const std::string& isa : cpu_isas()) {
    const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
    const Experts experts = stored.load(**ops, routing);
    const std::vector<float> all = run_moe(**ops, experts, x, router);
    for (size_t i = 0; i < 37; ++i) {
      Matrix one(1, 64);
      Matrix scores(1, 6);
      std::copy_n(x.values.begin() + static_cast<int64_t>(i * 64), 64, one.values.begin());
      std::copy_n(router.values.begin() + static_cast<int64_t>(i * 6), 6, scores.values.begin());
      const std::vector<float> alone = run_moe(**ops, experts, one, scores);
      ASSERT_TRUE(same_bits(alone, std::span(all).subspan(i * 64, 64))) << isa << i;
    }
  }
}

// Gathering and quantising, gate and up, down, mixing; what stands between products waits for nobody.
TEST(Parity, MoeTakesFourForks) {
  const TestExperts stored(*find_weight_format("q8_0"), 4, 512, 256);
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = "", .pin = false});
  const Experts experts = stored.load(**ops, Routing{.n_used = 2});
  const int64_t before = cpu_forks(**ops);
  run_moe(**ops, experts, Matrix(60, 512, 1), Matrix(60, 4, 2));
  EXPECT_EQ(cpu_forks(**ops) - before, 4);
}

}  // namespace
}  // namespace quire
