// A model whose product over the vocabulary is cut to some tokens chooses among these as the whole model does: the same
// rows, the same sums.
#include "model/short_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/cpu/cpu_ops.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "ops/no_ops.h"
#include "quant/convert.h"
#include "spec/draft_pass.h"
#include "tests/support/answer_sink.h"
#include "tests/support/tiny_draft.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr int kBlock = 16, kTokens = 20, kVocab = 105;

std::unique_ptr<Ops> cpu_ops() { return std::move(*make_cpu_ops(CpuOptions{.n_threads = 2, .isa = {}, .pin = false})); }

std::unique_ptr<Model> loaded(const ModelFile& file, Ops& ops) {
  LoadOptions options;
  options.k_codec = options.v_codec = find_kv_codec("f16");
  auto out = load_model(file, ops, options);
  EXPECT_TRUE(out) << out.error().message;
  return std::move(*out);
}

// The likeliest output behind a text; of those of `few` alone, where it is not empty.
Token next_of(const Model& model, Ops& ops, std::span<const Token> text, std::span<const Token> few = {}) {
  const KvLayout& layout = model.info().kv_layout;
  std::vector<Buffer> blocks;
  blocks.push_back(*ops.allocate(2 * layout.block_bytes(0, kBlock)));
  KvCache cache(layout, std::move(blocks), {kBlock, 2, false, nullptr, 0});
  const DraftPass::Size size{kTokens, 1, kTokens, kBlock};
  DraftPass pass(model, ops, size, *ops.allocate(DraftPass::bytes(model, size)));
  SeqKv kv;
  EXPECT_TRUE(cache.grow(kv, kTokens));
  LogitEdits edits;
  if (!few.empty()) edits.bitmask.resize((kVocab + 31) / 32);
  for (const Token token : few) edits.bitmask[static_cast<size_t>(token) / 32] |= 1U << token % 32;
  SampleParams greedy;
  greedy.logprob = false;
  greedy.edits = &edits;
  const DraftRows rows{&kv, 0, text, true};
  const Token out = pass.run(std::span(&rows, 1), std::span(&greedy, 1), cache.view())[0].token;
  cache.release(kv);
  return out;
}

std::vector<Token> random_text(Rng& rng) {
  std::vector<Token> out(kTokens);
  for (Token& token : out) token = static_cast<Token>(rng.between(0, kVocab - 1));
  return out;
}

// Some of all tokens, ascending.
std::vector<Token> some_tokens(Rng& rng, int n) {
  std::vector<Token> all(kVocab), out;
  std::iota(all.begin(), all.end(), 0);
  for (; n > 0; --n) {
    const auto at = all.begin() + rng.between(0, static_cast<int>(all.size()) - 1);
    out.push_back(*at);
    all.erase(at);
  }
  std::ranges::sort(out);
  return out;
}

// `some` is what with_short_head made of a model with `few`: it chooses as `whole` does among these.
void expect_chooses_alike(const Model& some, std::span<const Token> few, const Model& whole, Ops& ops, Rng& rng) {
  std::vector<Token> seen;
  for (int round = 0; round < 8; ++round) {
    const std::vector<Token> text = random_text(rng);
    const Token at = next_of(some, ops, text);
    ASSERT_LT(at, std::ssize(few));
    EXPECT_EQ(few[static_cast<size_t>(at)], next_of(whole, ops, text, few));
    seen.push_back(at);
  }
  std::ranges::sort(seen);
  EXPECT_GT(std::ranges::unique(seen).begin() - seen.begin(), 1) << "the test would prove nothing";
}

TEST(ShortHead, ChoosesAmongItsTokensAsTheModelDoes) {
  const auto ops = cpu_ops();
  Rng rng(3);
  for (const char* format : {"f32", "q8_0", "q4_0"}) {
    const TinyModel tiny(TinyShape{}, format, 4);
    const auto whole = loaded(tiny.file(), *ops);
    EXPECT_EQ(as_short_head(whole.get()), nullptr);
    for (const int n : {3, 16, 33, 100, kVocab}) {
      SCOPED_TRACE(std::string(format) + ": " + std::to_string(n));
      const std::vector<Token> few = some_tokens(rng, n);
      const auto some = TinyDraft{&tiny, 0, few}.load(*ops);
      ASSERT_EQ(as_short_head(some.get())->tokens().size(), few.size());
      EXPECT_EQ(some->info().weight_bytes,
                whole->info().weight_bytes + n * tiny.file().find("output.weight")->row_bytes());
      expect_chooses_alike(*some, few, *whole, *ops, rng);
    }
  }
}

TEST(ShortHead, RowsAreConvertedWhereThatIsSmaller) {
  const auto ops = cpu_ops();
  const WeightFormat& q8 = *find_weight_format("q8_0");
  Rng rng(5);
  for (const char* format : {"f16", "q4_0"}) {
    SCOPED_TRACE(format);
    const TinyModel tiny(TinyShape{}, format, 4);
    ModelFile file = tiny.file();  // whose product is converted as a whole
    auto& out = *std::ranges::find(file.tensors, "output.weight", &HostWeight::name);
    const bool smaller = q8.row_bytes(out.n_cols()) < out.row_bytes();
    ASSERT_EQ(smaller, std::string_view(format) == "f16");
    std::vector<std::byte> converted(static_cast<size_t>(kVocab * q8.row_bytes(out.n_cols())));
    if (smaller) {
      ASSERT_TRUE(convert_weight(out, q8, {.quick = true}, converted.data()));
      out.format = &q8;
      out.data = converted;
    }
    const auto whole = loaded(file, *ops);
    const int64_t before = loaded(tiny.file(), *ops)->info().weight_bytes;
    const std::vector<Token> few = some_tokens(rng, 40);
    const auto some = with_short_head(loaded(tiny.file(), *ops), tiny.file(), few, *ops, {.as = &q8, .n_threads = 2});
    ASSERT_TRUE(some) << some.error().message;
    EXPECT_EQ((*some)->info().weight_bytes - before, 40 * out.row_bytes());
    expect_chooses_alike(**some, few, *whole, *ops, rng);
  }
}

// Hears what it is to load.
class HearingOps final : public NoOps {
 public:
  std::string describe() const override { return "hearing"; }
  Result<Buffer> allocate(int64_t) override { return fail(Code::unsupported, "no memory"); }
  void sample(std::span<Sampled>, Tensor, std::span<const SampleParams>) override {}
  Result<Linear> load_linear(const HostWeight& weight, const HostWeight*, Shard) override {
    heard = weight;
    return Linear{};
  }
  HostWeight heard;
};

TEST(ShortHead, NoRowIsReadWhereItIsCounted) {
  const auto ops = cpu_ops();
  const TinyModel tiny(TinyShape{}, "f16", 4);
  ModelFile file = tiny.file();
  std::ranges::find(file.tensors, "output.weight", &HostWeight::name)->data = {};  // there are none
  const WeightFormat* q8 = find_weight_format("q8_0");
  HearingOps hearing;
  const auto counted = with_short_head(loaded(tiny.file(), *ops), file, {3, 4, 9}, hearing, {.as = q8, .counts = true});
  ASSERT_TRUE(counted) << counted.error().message;
  EXPECT_EQ(hearing.heard.format, q8);
  EXPECT_EQ(hearing.heard.shape, (std::vector<int64_t>{3, 64}));
  EXPECT_TRUE(hearing.heard.data.empty());
  EXPECT_EQ(hearing.heard.made, nullptr);
  const auto real = with_short_head(loaded(tiny.file(), *ops), tiny.file(), {3, 4, 9}, *ops, {.as = q8});
  ASSERT_TRUE(real) << real.error().message;
  EXPECT_EQ((*counted)->info().weight_bytes, (*real)->info().weight_bytes);
}

TEST(ShortHead, AProductWithABiasIsRefused) {
  const auto ops = cpu_ops();
  const TinyModel tiny(TinyShape{}, "f32", 4);
  ModelFile file = tiny.file();
  const std::vector<float> numbers(kVocab, 1.0F);
  file.tensors.push_back({"output.bias", find_weight_format("f32"), {kVocab}, std::as_bytes(std::span(numbers))});
  file.sort_tensors();
  const auto refused = with_short_head(loaded(tiny.file(), *ops), file, {1, 2}, *ops, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_NE(refused.error().message.find("the product over the vocabulary of a llama model is not one matrix in order"),
            std::string::npos);
}

// What a request prefers says the target's answer; a draft that did not follow would never be right.
TEST(ShortHead, ItsGuessesFollowBiases) {
  const auto ops = cpu_ops();
  const TinyModel tiny(TinyShape{}, "q8_0", 9);
  const auto target = loaded(tiny.file(), *ops);
  std::vector<Token> writes(60);
  std::iota(writes.begin(), writes.end(), 30);
  const auto draft = TinyDraft{&tiny, 0, writes}.load(*ops);
  SystemClock clock;
  EngineOptions options;
  options.n_ctx = 200;
  options.kv_bytes = 64 * 16 * target->info().kv_layout.token_bytes();
  options.max_draft = 4;
  options.proposer = "draft";
  EngineEnv env;
  env.clock = &clock;
  env.draft = draft.get();
  const auto engine = make_engine(*target, *ops, options, env);
  ASSERT_TRUE(engine) << engine.error().message;
  for (const Token liked : {30, 57, 89, 29}) {
    Request wanted;
    wanted.prompt = {1, 2, 3, 4};
    wanted.max_tokens = 40;
    wanted.sampling.temperature = 0;
    wanted.sampling.logit_bias = {{liked, 100.0F, 1.0F}, {3, 1.0F, 1.0F}};
    const auto sink = std::make_shared<AnswerSink>();
    ASSERT_TRUE((*engine)->submit(std::move(wanted), sink));
    while ((*engine)->step()) {
    }
    EXPECT_EQ(sink->error, "");
    EXPECT_EQ(sink->tokens, std::vector<Token>(40, liked));
    if (liked == 29) {
      EXPECT_EQ(sink->n_accepted, 0) << "it cannot write this one";
    } else {
      EXPECT_GT(sink->n_accepted, 30) << liked;
    }
  }
  EXPECT_EQ((*engine)->stats().n_bad_drafts, 0);
}

}  // namespace
}  // namespace quire
