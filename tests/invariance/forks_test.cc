// How often a step's threads wait for each other. Counted, not timed: a layer's waits are the difference between models
// of one layer and of two.
#include <gtest/gtest.h>

#include "app/forward.h"
#include "backend/cpu/cpu_ops.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr int kCtx = 1024;

class CountedModel {
 public:
  // Rows as wide as those of a model of 1 B parameters: whether a short loop over rows is shared out depends on it. Few
  // KV heads, so that a long past is cut into spans of keys.
  explicit CountedModel(int n_layers) {
    const TinyModel tiny(
        {.n_layers = n_layers, .n_embd = 2048, .n_ff = 2304, .n_heads = 32, .n_kv_heads = 2, .n_ctx = kCtx}, "q8_0", 7);
    ops_ = *make_cpu_ops(CpuOptions{.n_threads = 2, .isa = "", .pin = false});
    model_ = *tiny.load(*ops_);
    forward_.push_back(*Forward::make(*model_, *ops_, kCtx, kCtx));
  }
  // Of a step over n_rows rows behind n_past others.
  int64_t forks(int n_past, int n_rows) {
    const std::vector<Token> tokens(kCtx, 1);
    forward_[0].rewind(0);
    if (n_past > 0) {
      EXPECT_TRUE(forward_[0].run(std::span(tokens).first(static_cast<size_t>(n_past))));
    }
    const int64_t before = cpu_forks(*ops_);
    EXPECT_TRUE(forward_[0].run(std::span(tokens).first(static_cast<size_t>(n_rows))));
    return cpu_forks(*ops_) - before;
  }

 private:
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::vector<Forward> forward_;  // one
};

TEST(Forks, OfALayer) {
  CountedModel one(1), two(2);
  const auto of_a_layer = [&](int n_past, int n_rows) { return two.forks(n_past, n_rows) - one.forks(n_past, n_rows); };
  EXPECT_EQ(of_a_layer(0, 1), 5);
  EXPECT_EQ(of_a_layer(0, 8), 5);
  EXPECT_EQ(of_a_layer(0, 16), 7);
  EXPECT_EQ(of_a_layer(0, 64), 7);
  EXPECT_EQ(of_a_layer(700, 1), 5) << "a long past, whose keys are cut into spans";
}

}  // namespace
}  // namespace quire
