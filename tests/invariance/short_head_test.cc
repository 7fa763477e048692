// A model whose product over the vocabulary is cut to some tokens chooses among these as the whole model does: the same
// rows, the same sums.
#include "model/short_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/cpu/cpu_ops.h"
#include "base/rng.h"
#include "spec/draft_pass.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr int kBlock = 16, kTokens = 20;

// The likeliest output behind a text.
Token next_of(const Model& model, Ops& ops, std::span<const Token> text) {
  const KvLayout& layout = model.info().kv_layout;
  std::vector<Buffer> blocks;
  blocks.push_back(*ops.allocate(2 * layout.block_bytes(0, kBlock)));
  KvCache cache(layout, std::move(blocks), {kBlock, 2, false, nullptr, 0});
  const DraftPass::Size size{kTokens, 1, kTokens, kBlock};
  DraftPass pass(model, ops, size, *ops.allocate(DraftPass::bytes(model, size)));
  SeqKv kv;
  EXPECT_TRUE(cache.grow(kv, kTokens));
  SampleParams greedy;
  greedy.logprob = false;
  const DraftRows rows{&kv, 0, text, true};
  const Token out = pass.run(std::span(&rows, 1), std::span(&greedy, 1), cache.view())[0].token;
  cache.release(kv);
  return out;
}

TEST(ShortHead, ChoosesAmongItsTokensAsTheModelDoes) {
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = {}, .pin = false});
  for (const char* format : {"f32", "q8_0", "q4_0"}) {
    SCOPED_TRACE(format);
    const TinyModel tiny(TinyShape{}, format, 4);
    const auto whole = tiny.load(**ops, "f16");
    std::vector<Token> all(static_cast<size_t>((*whole)->info().n_vocab));
    std::iota(all.begin(), all.end(), 0);
    std::ranges::reverse(all);
    const auto turned = with_short_head(std::move(*tiny.load(**ops, "f16")), tiny.file(), all, **ops, nullptr);
    ASSERT_TRUE(turned) << turned.error().message;
    EXPECT_GT((*turned)->info().weight_bytes, (*whole)->info().weight_bytes);
    Rng rng(3);
    std::vector<Token> seen;
    for (int round = 0; round < 12; ++round) {
      std::vector<Token> text(kTokens);
      for (Token& token : text) token = static_cast<Token>(rng.between(0, 104));
      const Token best = next_of(**whole, **ops, text);
      EXPECT_EQ(all[static_cast<size_t>(next_of(**turned, **ops, text))], best);
      // The rest of them without the best one: it is chosen as soon as it is there.
      std::vector<Token> few = {static_cast<Token>((best + 7) % 105), static_cast<Token>((best + 50) % 105)};
      for (const bool with : {false, true}) {
        if (with) few.push_back(best);
        const auto some = with_short_head(std::move(*tiny.load(**ops, "f16")), tiny.file(), few, **ops, nullptr);
        const Token at = next_of(**some, **ops, text);
        ASSERT_LT(at, std::ssize(few));
        EXPECT_EQ(few[static_cast<size_t>(at)] == best, with);
      }
      seen.push_back(best);
    }
    std::ranges::sort(seen);
    EXPECT_GT(std::ranges::unique(seen).begin() - seen.begin(), 3) << "the test would prove nothing";
    EXPECT_EQ(as_short_head(whole->get()), nullptr);
    EXPECT_EQ(as_short_head(turned->get())->tokens().size(), all.size());
  }
}

}  // namespace
}  // namespace quire
