// EAGLE heads against plain Python in double precision (make_eagle_fixtures.py): the same tokens on the reference
// backend and every instruction set, in any company, to any depth, however much came at once; answers that are those
// without one; and folders that are refused by name.
#include "model/eagle.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/engine.h"
#include "quant/kv_codec.h"
#include "tests/support/answer_sink.h"
#include "tests/support/head_folder.h"
#include "tests/support/head_texts.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "tests/golden/eagle";
constexpr const char *kFirst = "tests/golden/eagle1", *kFirstsModel = "tests/golden/eagle1/model";
constexpr int kEmbd = 24, kVocab = 50, kLayers = 4;

class Shape final : public ShapeModel {
 public:
  explicit Shape(int n_embd = kEmbd, int n_vocab = kVocab, int n_layers = kLayers) : ShapeModel(n_embd, n_vocab) {
    info_.n_layers = n_layers;
  }
  void scale_embedding() { info_.scales_embedding = true; }
};

ProposerEnv env_of(const Model& model, Ops& ops, const EagleHead& head, int n_seqs, int n_blocks = 64) {
  ProposerEnv env{.target = &model, .ops = &ops, .n_ctx = 64, .max_seqs = n_seqs, .n_blocks = n_blocks};
  env.n_rows = 256;
  env.eagle = &head;
  return env;
}

TEST(Eagle, DraftsWhatTheReferenceDoes) {
  const std::vector<HeadText> texts = read_head_texts(kFolder);
  ASSERT_GT(texts.size(), 8U);
  const Shape model;
  for (const std::unique_ptr<Ops>& ops : ops_of_all_kinds()) {
    SCOPED_TRACE(ops->describe());
    const auto head = load_eagle(kFolder, {model.info()}, *ops);
    ASSERT_TRUE(head) << head.error().message;
    EXPECT_EQ((*head)->n_draft(), 20);
    EXPECT_EQ((*head)->taps, (std::vector{1, 3}));
    const auto proposer = Registry<ProposerEntry>::get().find("eagle")->make(
        {kHeadGuesses}, env_of(model, *ops, **head, static_cast<int>(texts.size())));
    ASSERT_TRUE(proposer) << proposer.error().message;
    for (uint64_t seed = 0; seed < 4; ++seed) check_drafts(texts, **proposer, seed);
  }
}

TEST(Eagle, DraftsNothingBehindAnEndTokenOrWithoutRows) {
  const HeadText text = read_head_texts(kFolder).front();
  const Shape model;
  const auto ops = make_ref_ops();
  const auto head = load_eagle(kFolder, {model.info()}, *ops);
  ASSERT_TRUE(head) << head.error().message;
  const auto proposer = Registry<ProposerEntry>::get().find("eagle")->make({8}, env_of(model, *ops, **head, 1));
  ASSERT_TRUE(proposer);
  Draft none;
  none.seq = 1;
  none.context = text.tokens;
  none.max_tokens = 2;
  (*proposer)->propose(std::span(&none, 1));
  EXPECT_TRUE(none.tokens.empty());
  HeadStep step(**proposer);
  step.add(1, text, 0, text.n - 1, kHeadGuesses);
  Draft draft = step.propose().front();
  ASSERT_EQ(draft.tokens, text.first);
  draft.tokens.clear();
  const std::vector<Token> ends = {text.first[1]};
  draft.ends = ends;
  (*proposer)->propose(std::span(&draft, 1));
  const auto end = std::ranges::find(text.first, ends[0]) - text.first.begin() + 1;
  EXPECT_EQ(draft.tokens, std::vector(text.first.begin(), text.first.begin() + end));
}

// Two places, and a pool with room for one past: who is asked takes the blocks of who is not.
TEST(Eagle, ThoseThatAreNotAskedGiveTheirBlocks) {
  const std::vector<HeadText> texts = read_head_texts(kFolder);
  const Shape model;
  const auto ops = make_ref_ops();
  const auto head = load_eagle(kFolder, {model.info()}, *ops);
  ASSERT_TRUE(head) << head.error().message;
  const auto proposer =
      Registry<ProposerEntry>::get().find("eagle")->make({kHeadGuesses}, env_of(model, *ops, **head, 2, 1));
  ASSERT_TRUE(proposer);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 2; ++i) {
      HeadStep step(**proposer);
      step.add(i + 1, texts[i], 0, texts[i].n - 1, kHeadGuesses);
      EXPECT_EQ(step.propose().front().tokens, texts[i].first) << round;
    }
  }
}

// Rows of a text over and over, more than a pass of the head takes.
HeadText long_text(const HeadText& of, size_t n) {
  HeadText out;
  for (size_t i = 0; i <= n; ++i) {
    out.tokens.push_back(of.tokens[i % of.states.size()]);
    out.states.push_back(of.states[i % of.states.size()]);
  }
  return out;
}

TEST(Eagle, ALongPromptBeforeThemEndsNobodysPast) {
  const HeadText text = read_head_texts(kFolder).front();
  const HeadText prompt = long_text(text, 600);
  const Shape model;
  const auto ops = make_ref_ops();
  const auto head = load_eagle(kFolder, {model.info()}, *ops);
  ASSERT_TRUE(head) << head.error().message;
  ProposerEnv env = env_of(model, *ops, **head, 2, 128);
  env.n_ctx = env.n_rows = 1024;
  const auto proposer = Registry<ProposerEntry>::get().find("eagle")->make({kHeadGuesses}, env);
  ASSERT_TRUE(proposer) << proposer.error().message;
  HeadStep first(**proposer);
  first.add(1, text, 0, text.n - 1, kHeadGuesses);
  ASSERT_EQ(first.propose().front().tokens, text.first);
  HeadStep second(**proposer);
  second.add(2, prompt, 0, 600, kHeadGuesses);
  second.add(1, text, text.n - 1, text.tokens.size() - 1, kHeadGuesses);
  const std::vector<Draft>& drafts = second.propose();
  EXPECT_EQ(drafts[1].tokens, text.second);
  EXPECT_EQ(drafts[0].tokens.size(), size_t{kHeadGuesses});
}

TEST(Eagle, NeedsAHeadAndEmbeddingsAsTheyAre) {
  const auto ops = make_ref_ops();
  Shape model;
  EagleHead head;
  ProposerEnv env = env_of(model, *ops, head, 1);
  env.eagle = nullptr;
  const ProposerEntry& entry = *Registry<ProposerEntry>::get().find("eagle");
  EXPECT_NE(entry.make({8}, env).error().message.find("needs a head"), std::string::npos);
  env.eagle = &head;
  model.scale_embedding();
  EXPECT_NE(entry.make({8}, env).error().message.find("a shape model changes its own"), std::string::npos);
}

TEST(Eagle, SaysWhatItWillAllocate) {
  CountingOps ops(make_ref_ops());
  const Shape model;
  const auto head = load_eagle(kFolder, {model.info()}, ops);
  ASSERT_TRUE(head) << head.error().message;
  const ProposerEntry& entry = *Registry<ProposerEntry>::get().find("eagle");
  for (const int n : {1, 7, 64}) {
    ProposerEnv env = env_of(model, ops, **head, n, 3 * n);
    env.ops = nullptr;
    const int64_t told = entry.bytes({4}, env);
    ops.n_bytes = 0;
    env.ops = &ops;
    ASSERT_TRUE(entry.make({4}, env));
    EXPECT_EQ(told + 3 * n * (*head)->kv_layout.block_bytes(0, env.block_tokens), ops.n_bytes) << n;
  }
}

struct Changed : ChangedFolder {
  Changed() : ChangedFolder(kFolder, {"config.json", "model.safetensors"}) {}
  std::string refusal(const Shape& model = Shape()) const {
    return ChangedFolder::refusal(
        [&](const std::string& path, Ops& ops) { return load_eagle(path, {model.info()}, ops); });
  }
};

TEST(Eagle, FoldersOfAnotherModelAreRefusedByName) {
  const Changed same;
  EXPECT_NAMES(same.refusal(Shape(32)),
               "config.json: key \"hidden_size\": the head is for states of 24 numbers, the model has 32");
  EXPECT_NAMES(same.refusal(Shape(24, 60)), "model.safetensors: tensor \"t2d\": must have shape [60] for this model");
  EXPECT_NAMES(same.refusal(Shape(24, 50, 2)), "must be ascending numbers of layers, each 1 to 2, found [1,3]");
}

TEST(Eagle, BrokenConfigurationsAreRefusedByName) {
  const auto with = [](const std::string& from, const std::string& to) {
    const Changed changed;
    changed.put("config.json", from, to);
    return changed.refusal();
  };
  EXPECT_NAMES(with("\"draft_vocab_size\": 20", "\"draft_vocab_size\": 51"), "must be 1 to 50, found 51");
  EXPECT_NAMES(with("\"hidden_size\"", "\"hidden\""), "key \"hidden_size\": must be 1 to 1048576, found nothing");
  EXPECT_NAMES(with("\"silu\"", "\"gelu\""), "key \"hidden_act\": must be \"silu\", found \"gelu\"");
  EXPECT_NAMES(with("\"rope_scaling\": null", "\"rope_scaling\": {}"), "key \"rope_scaling\": is not supported");
  EXPECT_NAMES(with("\"rope_scaling\": null", "\"norm_before_fc\": true"), "key \"norm_before_fc\": must be false");
  EXPECT_NAMES(with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"),
               "num_attention_heads 4, num_key_value_heads 3, head_dim 8: attention heads must be a multiple");
  EXPECT_NAMES(with("\"rope_theta\": 1000.0", "\"rope_theta\": 0"), "must be a number above 0, found 0");
  EXPECT_NAMES(with("1,\n      3", "3,\n      1"), "must be ascending numbers of layers");
}

TEST(Eagle, BrokenWeightsAreRefusedByName) {
  const auto with = [](const std::string& from, const std::string& to) {
    const Changed changed;
    changed.put("model.safetensors", from, to);
    return changed.refusal();
  };
  EXPECT_NAMES(with("\"fc.weight\"", "\"fd.weight\""), "tensor \"fc.weight\": is missing");
  EXPECT_NAMES(with("\"embed_tokens.weight\"", "\"embed_tokenz.weight\""), "\": is not known for an EAGLE-3 head");
  EXPECT_NAMES(with("\"d2t\"", "\"d3t\""), "tensor \"d2t\": is missing, and the head has 20 of 50 tokens");
  EXPECT_NAMES(with("\"I64\"", "\"U64\""), "tensor \"d2t\": must be of type I64, is of U64");
  Changed wild;
  std::string bytes = wild.read("model.safetensors");
  const size_t header = static_cast<unsigned char>(bytes[0]) + 256U * static_cast<unsigned char>(bytes[1]);
  bytes[8 + header] = 50;  // the first of d2t, which lies in front
  wild.folder.write("model.safetensors", bytes);
  EXPECT_NAMES(wild.refusal(), "tensor \"d2t\": output 0 has the offset 50, and the model has tokens 0 to 49");
  Changed cut;
  fs::resize_file(cut.path("model.safetensors"), 10'000);
  EXPECT_NAMES(cut.refusal(), "model.safetensors: ");
}

TEST(Eagle, APickleIsRefusedByName) {
  Changed changed;
  fs::rename(changed.path("model.safetensors"), changed.path("pytorch_model.bin"));
  EXPECT_NAMES(changed.refusal(), "pytorch_model.bin: is a pickle, which can run code and is not read");
}

// --- EAGLE-1 and EAGLE-2 ---

LoadOptions plain_options() {
  LoadOptions out;
  out.k_codec = out.v_codec = find_kv_codec("f16");
  return out;
}

// The model and its head.
struct Headed {
  std::unique_ptr<Model> model;
  std::unique_ptr<EagleHead> head;
};

Result<Headed> load_headed(const std::string& folder, Ops& ops) {
  const LoadOptions how = plain_options();
  Headed out;
  QR_TRY(const ModelFile file, open_model(kFirstsModel));
  QR_TRY(out.model, load_model(file, ops, how));
  QR_TRY(out.head, load_eagle(folder, {out.model->info(), &file, &how}, ops));
  return out;
}

TEST(FirstEagle, DraftsWhatTheReferenceDoes) {
  const std::vector<HeadText> texts = read_head_texts(kFirst);
  ASSERT_GT(texts.size(), 8U);
  for (const std::unique_ptr<Ops>& ops : ops_of_all_kinds()) {
    SCOPED_TRACE(ops->describe());
    const auto headed = load_headed(kFirst, *ops);
    ASSERT_TRUE(headed) << headed.error().message;
    EXPECT_TRUE(headed->head->joins);
    EXPECT_EQ(headed->head->n_draft(), kVocab);
    EXPECT_EQ(headed->head->taps, std::vector{2}) << "behind the last layer";
    const auto proposer = Registry<ProposerEntry>::get().find("eagle")->make(
        {kHeadGuesses}, env_of(*headed->model, *ops, *headed->head, static_cast<int>(texts.size())));
    ASSERT_TRUE(proposer) << proposer.error().message;
    for (uint64_t seed = 0; seed < 4; ++seed) check_drafts(texts, **proposer, seed);
  }
}

struct FirstChanged : ChangedFolder {
  FirstChanged() : ChangedFolder(kFirst, {"config.json", "model.safetensors"}) {}
  std::string refusal() const { return ChangedFolder::refusal(&load_headed); }
};

TEST(FirstEagle, MayHaveAProductOfItsOwnAndTheModelsEmbeddings) {
  const FirstChanged bare;
  bare.put("model.safetensors", "\"embed_tokens.weight\"", "\"lm_head.weight\"     ");
  const auto ops = make_ref_ops();
  const auto headed = load_headed(bare.folder.path(), *ops);
  ASSERT_TRUE(headed) << headed.error().message;
  EXPECT_FALSE(headed->head->embedding);
  // Its own product over the vocabulary stands for the model's, which is not loaded once more.
  const auto other = load_headed(kFirst, *ops);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->head->weight_bytes - headed->head->weight_bytes, int64_t{4} * kVocab * kEmbd);
  const std::vector<HeadText> texts = read_head_texts(kFirst);
  const auto proposer = Registry<ProposerEntry>::get().find("eagle")->make(
      {kHeadGuesses}, env_of(*headed->model, *ops, *headed->head, 1));
  ASSERT_TRUE(proposer) << proposer.error().message;
  HeadStep step(**proposer);
  step.add(1, texts[0], 0, texts[0].n - 1, kHeadGuesses);
  EXPECT_EQ(step.propose().front().tokens.size(), size_t{kHeadGuesses});
}

struct Answers {
  std::vector<std::vector<Token>> tokens;
  EngineStats stats;
  int64_t n_accepted = 0;
};

Answers answers_of(const Headed& headed, Ops& ops, int depth) {
  SystemClock clock;
  EngineOptions options;
  options.n_ctx = 128;
  options.max_chunk = 7;
  options.max_draft = depth;
  options.adapt_draft = false;
  if (depth > 0) options.proposer = "eagle";
  EngineEnv env;
  env.clock = &clock;
  env.eagle = headed.head.get();
  const auto engine = make_engine(*headed.model, ops, options, env);
  EXPECT_TRUE(engine) << engine.error().message;
  std::vector<std::shared_ptr<AnswerSink>> sinks;
  for (int i = 0; i < 12; ++i) {
    Request request;
    for (int t = 0; t < 1 + i * 3; ++t) request.prompt.push_back(static_cast<Token>((7 * t * t + 3 * i) % kVocab));
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
    out.n_accepted += sink->n_accepted;
  }
  out.stats = (*engine)->stats();
  return out;
}

TEST(FirstEagle, AnswersAreThoseWithoutIt) {
  const auto ops = std::move(*make_cpu_ops(CpuOptions{.n_threads = 2, .isa = "", .pin = false}));
  const auto headed = load_headed(kFirst, *ops);
  ASSERT_TRUE(headed) << headed.error().message;
  const Answers truth = answers_of(*headed, *ops, 0);
  EXPECT_EQ(truth.n_accepted, 0);
  for (const int depth : {1, 3, 8}) {
    const Answers got = answers_of(*headed, *ops, depth);
    EXPECT_EQ(got.tokens, truth.tokens) << depth;
    EXPECT_EQ(got.stats.n_bad_drafts, 0);
    EXPECT_GT(got.stats.spent.computed[static_cast<size_t>(Cause::draft)], 100);
    EXPECT_EQ(got.n_accepted, got.stats.spent.n_accepted);
  }
}

TEST(FirstEagle, SaysWhatItWillAllocate) {
  CountingOps ops(make_ref_ops());
  const auto headed = load_headed(kFirst, ops);
  ASSERT_TRUE(headed) << headed.error().message;
  const ProposerEntry& entry = *Registry<ProposerEntry>::get().find("eagle");
  for (const int n : {1, 7, 64}) {
    ProposerEnv env = env_of(*headed->model, ops, *headed->head, n, 3 * n);
    env.ops = nullptr;
    const int64_t told = entry.bytes({4}, env);
    ops.n_bytes = 0;
    env.ops = &ops;
    ASSERT_TRUE(entry.make({4}, env));
    EXPECT_EQ(told + 3 * n * headed->head->kv_layout.block_bytes(0, env.block_tokens), ops.n_bytes) << n;
  }
}

TEST(FirstEagle, WhatCannotBeIsRefusedByName) {
  const auto with = [](const char* name, const std::string& from, const std::string& to) {
    const FirstChanged changed;
    changed.put(name, from, to);
    return changed.refusal();
  };
  const auto weights = [&](const std::string& from, const std::string& to) {
    return with("model.safetensors", from, to);
  };
  EXPECT_NAMES(with("config.json", "\"hidden_size\": 24", "\"hidden_size\": 32"),
               "key \"hidden_size\": the head is for states of 32 numbers, the model has 24");
  EXPECT_NAMES(with("config.json", "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2"),
               "key \"draft_vocab_size\": must be")
      << "more layers are no head";
  EXPECT_NAMES(with("config.json", "\"rope_scaling\": null", "\"rope_scaling\": {}"),
               "key \"rope_scaling\": is not supported");
  EXPECT_NAMES(weights("\"fc.bias\"", "\"fc.bios\""), "tensor \"fc.bios\": is not known for an EAGLE head");
  EXPECT_NAMES(weights("\"layers.0.mlp.up_proj.weight\"", "\"layers.1.mlp.up_proj.weight\""),
               "tensor \"layers.0.mlp.up_proj.weight\": is missing");
  EXPECT_NAMES(weights("\"layers.0.self_attn.q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[24,24]",
                       "\"layers.0.self_attn.q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[12,48]"),
               "tensor \"layers.0.self_attn.q_proj.weight\": must have shape [24, 24] for this model, has [12, 48]");
  const auto ops = make_ref_ops();
  const Shape alone;
  const auto none = load_eagle(kFirst, {alone.info()}, *ops);
  ASSERT_FALSE(none);
  EXPECT_NAMES(none.error().message, "needs the file of the model that it is for");
}

TEST(FirstEagle, AModelWithoutAnRmsNormBehindItsLayersIsRefused) {
  const auto ops = make_ref_ops();
  const LoadOptions how = plain_options();
  ModelFile file = *neutral_form(*open_model(kFirstsModel));
  const auto model = load_model(file, *ops, how);
  ASSERT_TRUE(model) << model.error().message;
  std::erase_if(file.tensors, [](const HostWeight& w) { return w.name == "output_norm.weight"; });
  const auto refused = load_eagle(kFirst, {(*model)->info(), &file, &how}, *ops);
  ASSERT_FALSE(refused);
  EXPECT_NAMES(refused.error().message, "reads states behind an RMS norm with weights, and a llama model has another");
}

TEST(FirstEagle, APickleIsRefusedByName) {
  const FirstChanged changed;
  fs::rename(changed.path("model.safetensors"), changed.path("pytorch_model.bin"));
  EXPECT_TRUE(is_eagle_folder(changed.folder.path()));
  EXPECT_NAMES(changed.refusal(), "pytorch_model.bin: is a pickle, which can run code and is not read");
}

TEST(Eagle, AFolderOfAHeadIsKnownByItsConfig) {
  EXPECT_TRUE(is_eagle_folder(kFolder));
  EXPECT_TRUE(is_eagle_folder(kFirst)) << "by its weights too";
  EXPECT_FALSE(is_eagle_folder(kFirstsModel));
  EXPECT_FALSE(is_eagle_folder("tests/golden/medusa"));
  EXPECT_FALSE(is_eagle_folder("build/golden/models/llama"));
  EXPECT_FALSE(is_eagle_folder("/nowhere"));
  EXPECT_GT(*eagle_bytes(kFolder), 30'000);
}

}  // namespace
}  // namespace quire
