// What the first layers write while they guess is what the whole pass writes: the same bytes in the same blocks, row by
// row or all at once, so that it makes no difference which of the two wrote last.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_ops.h"
#include "base/rng.h"
#include "spec/draft_pass.h"
#include "spec/proposer.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr int kBlock = 16, kTokens = 45, kBlocks = 4;

SampleParams greedy() {
  SampleParams out;
  out.logprob = false;
  return out;
}

// Cached bytes of a text after passes over its rows, `n_at_once` of them each, through the first n_layers (0: all).
struct Written {
  Written(const Model& model, Ops& ops, std::span<const Token> text, int n_layers, size_t n_at_once) {
    const KvLayout& layout = model.info().kv_layout;
    std::vector<Buffer> blocks;
    blocks.push_back(*ops.allocate(kBlocks * layout.block_bytes(0, kBlock)));
    KvCache cache(layout, std::move(blocks), {kBlock, kBlocks, false, nullptr, 0});
    const DraftPass::Size size{kTokens, 1, kTokens, kBlock, n_layers};
    DraftPass pass(model, ops, size, *ops.allocate(DraftPass::bytes(model, size)));
    SeqKv kv;
    EXPECT_TRUE(cache.grow(kv, kTokens));
    const SampleParams params = greedy();
    for (size_t i = 0; i < text.size(); i += n_at_once) {
      const DraftRows rows{&kv, static_cast<int>(i), text.subspan(i, std::min(n_at_once, text.size() - i)), true};
      pass.run(std::span(&rows, 1), std::span(&params, 1), cache.view());
    }
    const KvGroupView view = cache.view().groups[0];
    const int64_t per_layer = layout.token_bytes() / model.info().n_layers;
    layers.resize(static_cast<size_t>(model.info().n_layers));
    for (size_t l = 0; l < layers.size(); ++l) {
      for (const auto& block : kv.table) {
        const auto* at = view.base + block[0].id() * view.block_bytes + static_cast<int64_t>(l) * per_layer * kBlock;
        if (&block != &kv.table.back()) layers[l].insert(layers[l].end(), at, at + per_layer * kBlock);
      }
    }
    cache.release(kv);
  }
  std::vector<std::vector<std::byte>> layers;  // of each its bytes of the whole blocks
};

TEST(EarlyExit, WritesWhatTheWholePassWrites) {
  Rng rng(3);
  std::vector<Token> text(kTokens);
  for (Token& token : text) token = static_cast<Token>(rng.between(0, 104));
  const TinyModel tiny(TinyShape{.n_layers = 3}, "q8_0", 4);
  for (const std::string& isa : cpu_isas()) {
    for (const char* codec : {"f16", "q8", "k8v4", "f32"}) {
      SCOPED_TRACE(isa + " " + codec);
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
      const auto model = tiny.load(**ops, codec);
      const Written whole(**model, **ops, text, 0, kTokens), ahead(**model, **ops, text, 2, 1);
      EXPECT_EQ(whole.layers[0], ahead.layers[0]);
      EXPECT_EQ(whole.layers[1], ahead.layers[1]);
      EXPECT_NE(whole.layers[2], ahead.layers[2]) << "the last layer was to write nothing";
    }
  }
}

TEST(EarlyExit, LeavesTheModelBetweenItsLayers) {
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = {}, .pin = false});
  const TinyModel tiny(TinyShape{.n_layers = 3}, "f32", 4);
  const auto model = tiny.load(**ops, "f16");
  const ProposerEntry& entry = *Registry<ProposerEntry>::get().find("exit");
  ProposerEnv env{.target = model->get(), .ops = ops->get(), .n_ctx = 64, .max_seqs = 2};
  for (const int n : {0, 3, 4, -1}) {
    env.exit_layers = n;
    const auto made = entry.make({4}, env);
    ASSERT_FALSE(made) << n;
    EXPECT_EQ(made.error().message,
              "the proposer \"exit\" must leave the model after 1 to 2 of its 3 layers, got " + std::to_string(n));
  }
  env.exit_layers = 2;
  const auto made = entry.make({4}, env);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE((*made)->writes_ahead());
}

}  // namespace
}  // namespace quire
