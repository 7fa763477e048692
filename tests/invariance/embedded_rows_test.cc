// A row that is given as an embedding is the row of the token whose embedding it is: behind a learned prefix that is
// made of tokens' embeddings a request gets the bits that it gets behind those tokens, however both are cut.
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "model/learned_prefix.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr uint64_t kContent = 7;

struct Bits {
  std::vector<std::pair<Token, uint32_t>> tokens;  // of the answer and of what else was likely, with their logprobs
  bool operator==(const Bits&) const = default;
};

class BitsOfAnswer final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    bits.tokens.emplace_back(event.id, std::bit_cast<uint32_t>(event.logprob));
    for (const TopLogprob& top : event.top) bits.tokens.emplace_back(top.id, std::bit_cast<uint32_t>(top.logprob));
  }
  void on_finish(SeqId, Finish, const Usage&, const std::string& message) override { EXPECT_EQ(message, ""); }
  Bits bits;
};

std::vector<Token> random_tokens(uint64_t seed, int n) {
  Rng rng(seed);
  std::vector<Token> out;
  out.reserve(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) out.push_back(static_cast<Token>(rng.between(0, 104)));
  return out;
}

// What the model makes of the tokens before its first layer.
std::shared_ptr<LearnedPrefix> embeddings_of(const std::vector<Token>& tokens, const Model& model, Ops& ops) {
  const auto n = static_cast<int64_t>(tokens.size());
  auto out = std::make_shared<LearnedPrefix>();
  out->kind = LearnedPrefix::Kind::embeddings;
  out->n_tokens = static_cast<int>(n);
  auto memory = ops.allocate(model.arena_bytes(n, n) + n * 4 + Arena::kAlign);
  EXPECT_TRUE(memory);
  Arena arena(std::move(*memory));
  Batch batch;
  batch.ids = arena.alloc(DType::i32, {n});
  std::copy(tokens.begin(), tokens.end(), batch.ids.ptr<int32_t>());
  const Tensor x = model.embed({.batch = &batch, .kv = {}, .arena = &arena, .ops = &ops});
  for (int64_t i = 0; i < n; ++i) out->values.insert(out->values.end(), x.row<float>(i), x.row<float>(i) + x.dim(1));
  return out;
}

struct Case {
  std::string format, codec;
  TinyShape shape = {};
};

// The answer to a prompt behind `given`, and behind nothing where that is null, in pieces of max_chunk tokens.
Bits answer(const Model& model,
            Ops& ops,
            std::vector<Token> prompt,
            const std::shared_ptr<LearnedPrefix>& given,
            int max_chunk) {
  SystemClock clock;
  EngineOptions options;
  options.n_ctx = 256;
  options.max_seqs = 2;
  options.max_chunk = options.step_tokens = max_chunk;
  options.kv_bytes = int64_t{64} * 16 * model.info().kv_layout.token_bytes();
  EngineEnv env;
  env.clock = &clock;
  if (given != nullptr) {
    env.prefixes = {{kContent, given->n_tokens, [given, &model](const Pass& pass, int begin) {
                       write_learned_prefix(*given, model, pass, begin);
                     }}};
  }
  const auto engine = make_engine(model, ops, options, env);
  EXPECT_TRUE(engine) << engine.error().message;
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = 12;
  request.sampling.temperature = 0.0F;
  request.sampling.n_logprobs = 4;
  request.prefix = given != nullptr ? kContent : 0;
  const auto sink = std::make_shared<BitsOfAnswer>();
  const auto id = (*engine)->submit(std::move(request), sink);
  EXPECT_TRUE(id) << id.error().message;
  while ((*engine)->step()) EXPECT_EQ((*engine)->snapshot().check(), "");
  return std::move(sink->bits);
}

TEST(EmbeddedRows, AreTheRowsOfTheirTokens) {
  const std::vector<Token> before = random_tokens(1, 37), text = random_tokens(2, 21);
  std::vector<Token> all = before;
  all.insert(all.end(), text.begin(), text.end());
  for (const Case& c : std::vector<Case>{{"f32", "f32"},
                                         {"q8_0", "f16"},
                                         {"q8_0", "q8"},
                                         {"f16", "f16", {.window = 20, .window_period = 2}},
                                         {"q8_0", "f16", {.n_experts = 4, .n_experts_used = 2}}}) {
    SCOPED_TRACE(c.format + " " + c.codec);
    const TinyModel tiny(c.shape, c.format, 3);
    const auto ops = make_cpu_ops({.n_threads = 1, .isa = cpu_isas().back(), .pin = false});
    ASSERT_TRUE(ops);
    const auto model = tiny.load(**ops, c.codec);
    ASSERT_TRUE(model) << model.error().message;
    const auto given = embeddings_of(before, **model, **ops);
    const Bits of_tokens = answer(**model, **ops, all, nullptr, 512);
    ASSERT_GT(of_tokens.tokens.size(), 12U);
    for (const int max_chunk : {512, 33, 16, 5, 1}) {
      SCOPED_TRACE(max_chunk);
      EXPECT_EQ(answer(**model, **ops, all, nullptr, max_chunk), of_tokens);
      EXPECT_EQ(answer(**model, **ops, text, given, max_chunk), of_tokens);
    }
    const auto other = std::make_shared<LearnedPrefix>(*given);
    other->values[5] += 0.25F;
    EXPECT_NE(answer(**model, **ops, text, other, 512), of_tokens);
  }
}

}  // namespace
}  // namespace quire
