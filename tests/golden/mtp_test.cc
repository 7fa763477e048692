// Heads for multi-token prediction that models carry, against plain Python in double precision
// (make_mtp_fixtures.py): the same tokens on the reference backend and every instruction set, in any company, from a
// folder and from what GGUF makes of it; answers that are those without one; files that are refused by name.
#include "model/mtp.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "model/gguf_form.h"
#include "quant/kv_codec.h"
#include "tests/support/answer_sink.h"
#include "tests/support/head_folder.h"
#include "tests/support/head_texts.h"

namespace quire {
namespace {

std::string folder_of(const std::string& name) { return "tests/golden/mtp/" + name; }

LoadOptions plain_options() {
  LoadOptions out;
  out.k_codec = out.v_codec = find_kv_codec("f16");
  return out;
}

// A model and its own head.
struct Carrier {
  std::unique_ptr<Model> model, head;
  ProposerEnv env(Ops& ops, int n_seqs, int n_blocks = 64) const {
    ProposerEnv out{.target = model.get(), .ops = &ops, .n_ctx = 64, .max_seqs = n_seqs, .n_blocks = n_blocks};
    out.n_rows = 256;
    out.draft = head.get();
    return out;
  }
};

Result<Carrier> load_carrier(const ModelFile& file, Ops& ops) {
  Carrier out;
  QR_TRY(out.model, load_model(file, ops, plain_options()));
  QR_TRY(out.head, load_mtp(file, *out.model, ops, plain_options()));
  return out;
}

Result<Carrier> load_carrier(const std::string& folder, Ops& ops) {
  QR_TRY(const ModelFile file, open_model(folder));
  return load_carrier(file, ops);
}

const ProposerEntry& entry() { return *Registry<ProposerEntry>::get().find("mtp"); }

class Mtp : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return folder_of(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Families, Mtp, testing::Values("glm4moe", "deepseek2", "hy_v3"), [](const auto& each) {
  return each.param;
});

TEST_P(Mtp, DraftsWhatTheReferenceDoes) {
  const std::vector<HeadText> texts = read_head_texts(folder());
  ASSERT_GT(texts.size(), 8U);
  const auto file = open_model(folder());
  ASSERT_TRUE(file) << file.error().message;
  const auto as_gguf = gguf_form(*file);
  ASSERT_TRUE(as_gguf) << as_gguf.error().message;
  for (const std::unique_ptr<Ops>& ops : ops_of_all_kinds()) {
    SCOPED_TRACE(ops->describe());
    for (const ModelFile* one : {&*file, &*as_gguf}) {
      const auto carrier = load_carrier(*one, *ops);
      ASSERT_TRUE(carrier) << carrier.error().message;
      const auto proposer = entry().make({kHeadGuesses}, carrier->env(*ops, static_cast<int>(texts.size())));
      ASSERT_TRUE(proposer) << proposer.error().message;
      for (uint64_t seed = 0; seed < 4; ++seed) check_drafts(texts, **proposer, seed);
    }
  }
}

// What the model itself computes has nothing of the head.
TEST_P(Mtp, IsNoLayerOfTheModel) {
  const auto file = open_model(folder());
  ASSERT_TRUE(file);
  const auto ops = make_ref_ops();
  const auto carrier = load_carrier(*file, *ops);
  ASSERT_TRUE(carrier) << carrier.error().message;
  const ModelInfo &model = carrier->model->info(), &head = carrier->head->info();
  EXPECT_EQ(model.n_layers, 1);
  EXPECT_EQ(head.n_layers, 1);
  ModelFile bare = *neutral_form(*file);
  std::erase_if(bare.tensors, [](const HostWeight& w) { return w.name.starts_with("blk.1."); });
  const auto info = model_info(bare, plain_options());
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(model.weight_bytes, info->weight_bytes);
  EXPECT_EQ(model.n_params, info->n_params);
  // A product over the vocabulary beside the layer.
  EXPECT_GT(head.weight_bytes, int64_t{4} * head.n_vocab * head.n_embd);
}

struct Answers {
  std::vector<std::vector<Token>> tokens;
  EngineStats stats;
};

Answers answers_of(const Carrier& carrier, Ops& ops, int depth) {
  SystemClock clock;
  EngineOptions options;
  options.n_ctx = 128;
  options.max_chunk = 7;
  options.max_draft = depth;
  options.adapt_draft = false;
  if (depth > 0) options.proposer = "mtp";
  EngineEnv env;
  env.clock = &clock;
  env.draft = carrier.head.get();
  const auto engine = make_engine(*carrier.model, ops, options, env);
  EXPECT_TRUE(engine) << engine.error().message;
  std::vector<std::shared_ptr<AnswerSink>> sinks;
  for (int i = 0; i < 12; ++i) {
    Request request;
    for (int t = 0; t < 1 + i * 3; ++t) request.prompt.push_back(static_cast<Token>((7 * t * t + 3 * i) % 50));
    request.max_tokens = 40;
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
    request.sampling.seed = static_cast<uint64_t>(i);
    EXPECT_TRUE((*engine)->submit(std::move(request), sinks.emplace_back(std::make_shared<AnswerSink>())));
  }
  while ((*engine)->step()) EXPECT_EQ((*engine)->snapshot().check(), "");
  Answers out;
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->error, "");
    out.tokens.push_back(sink->tokens);
  }
  out.stats = (*engine)->stats();
  return out;
}

TEST_P(Mtp, AnswersAreThoseWithoutIt) {
  const auto ops = std::move(*make_cpu_ops(CpuOptions{.n_threads = 2, .isa = "", .pin = false}));
  const auto carrier = load_carrier(folder(), *ops);
  ASSERT_TRUE(carrier) << carrier.error().message;
  const Answers truth = answers_of(*carrier, *ops, 0);
  for (const int depth : {1, 3, 8}) {
    const Answers got = answers_of(*carrier, *ops, depth);
    EXPECT_EQ(got.tokens, truth.tokens) << depth;
    EXPECT_EQ(got.stats.n_bad_drafts, 0);
    EXPECT_GT(got.stats.spent.computed[static_cast<size_t>(Cause::draft)], 100);
  }
}

TEST_P(Mtp, SaysWhatItWillAllocate) {
  CountingOps ops(make_ref_ops());
  const auto carrier = load_carrier(folder(), ops);
  ASSERT_TRUE(carrier) << carrier.error().message;
  for (const int n : {1, 7, 64}) {
    ProposerEnv env = carrier->env(ops, n, 3 * n);
    env.ops = nullptr;
    const int64_t told = entry().bytes({4}, env);
    ops.n_bytes = 0;
    env.ops = &ops;
    ASSERT_TRUE(entry().make({4}, env));
    EXPECT_EQ(told + 3 * n * carrier->head->info().kv_layout.block_bytes(0, env.block_tokens), ops.n_bytes) << n;
  }
}

TEST(MtpHead, NeedsOneOfThisModel) {
  const auto ops = make_ref_ops();
  const auto carrier = load_carrier(folder_of("glm4moe"), *ops);
  ASSERT_TRUE(carrier) << carrier.error().message;
  ProposerEnv env = carrier->env(*ops, 1);
  env.draft = env.target;  // a model, and no head
  EXPECT_NAMES(entry().make({4}, env).error().message, "needs the model's own head");
  env = carrier->env(*ops, 1);
  const ShapeModel other(24, 60);
  env.target = &other;
  EXPECT_NAMES(entry().make({4}, env).error().message,
               "a head of another model: of 32 numbers and 50 tokens, the model has 24 and 60");
}

struct Changed : ChangedFolder {
  Changed() : ChangedFolder(folder_of("glm4moe"), {"config.json", "model.safetensors"}) {}
  std::string refusal() const {
    return ChangedFolder::refusal([](const std::string& path, Ops& ops) { return load_carrier(path, ops); });
  }
};

TEST(MtpHead, FilesThatCannotBeAreRefusedByName) {
  const auto with = [](const char* name, const std::string& from, const std::string& to) {
    const Changed changed;
    changed.put(name, from, to);
    return changed.refusal();
  };
  const auto weights = [&](const std::string& from, const std::string& to) {
    return with("model.safetensors", from, to);
  };
  EXPECT_NAMES(with("config.json", "\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0"),
               "key \"num_nextn_predict_layers\": the model carries no head that guesses ahead");
  EXPECT_NAMES(with("config.json", "\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": -1"),
               "key \"num_nextn_predict_layers\": ");
  EXPECT_NAMES(weights("model.layers.1.enorm.weight", "model.layers.1.enorn.weight"),
               "tensor \"model.layers.1.enorm.weight\": is missing, shape [32] wanted");
  EXPECT_NAMES(weights("layers.1.eh_proj.weight\":{\"dtype\":\"F32\",\"shape\":[32,64]",
                       "layers.1.eh_proj.weight\":{\"dtype\":\"F32\",\"shape\":[64,32]"),
               "tensor \"model.layers.1.eh_proj.weight\": has shape [64, 32], [32, 64] wanted");
  EXPECT_NAMES(weights("layers.1.self_attn.q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[64,32]",
                       "layers.1.self_attn.q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[32,64]"),
               "tensor \"model.layers.1.self_attn.q_proj.weight\": has shape [32, 64], [64, 32] wanted");
  EXPECT_NAMES(weights("layers.1.mlp.experts.3.up_proj.weight", "layers.1.mlp.experts.3.up_prok.weight"), "experts");
}

TEST(MtpHead, LayersThatDifferByAListAreRefused) {
  const auto ops = make_ref_ops();
  ModelFile file = *neutral_form(*open_model(folder_of("glm4moe")));
  const auto model = load_model(file, *ops, plain_options());
  ASSERT_TRUE(model);
  file.meta.values["glm4moe.attention.some_list"] = std::vector<int64_t>{1, 1};
  EXPECT_TRUE(load_mtp(file, **model, *ops, plain_options()));
  file.meta.values["glm4moe.attention.some_list"] = std::vector<int64_t>{1, 0};
  const auto refused = load_mtp(file, **model, *ops, plain_options());
  ASSERT_FALSE(refused);
  EXPECT_NAMES(refused.error().message, "key \"glm4moe.attention.some_list\": a head behind layers that differ");
}

}  // namespace
}  // namespace quire
