#include "model/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "io/gguf_writer.h"
#include "model/lora_config.h"
#include "model/test_adapted_model.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class LoraFolder : public testing::Test {
 protected:
  LoraFolder() : folder_(testing::TempDir() + "lora_folder") {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    config("");
    pair("model.layers.0.self_attn.q_proj", 2, 8, 8);
    write();
  }
  // r 2 and a factor of 3.
  void config(const std::string& with, const std::string& front = R"("peft_type":"LORA","r":2,"lora_alpha":6)") {
    std::ofstream(folder_ + "/adapter_config.json") << "{" << front << with << "}";
  }
  void add(const std::string& name, const std::vector<int64_t>& shape, std::vector<float> values) {
    tensors_.push_back({name, shape, std::move(values)});
  }
  // A counts from 1, B from 101.
  void pair(const std::string& module, int64_t rank, int64_t n_in, int64_t n_out) {
    add("base_model.model." + module + ".lora_A.weight", {rank, n_in}, counted(rank * n_in));
    add("base_model.model." + module + ".lora_B.weight", {n_out, rank}, counted(n_out * rank, 101));
  }
  void write(int64_t cut = 0) {
    std::string header = "{", data;
    for (const auto& [name, shape, values] : tensors_) {
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
      std::string dims;
      for (const int64_t n : shape) dims += (dims.empty() ? "" : ",") + std::to_string(n);
      header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[)" + dims +
                R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
    }
    header += "}";
    const uint64_t n = header.size();
    std::string all(reinterpret_cast<const char*>(&n), 8);
    all += header + data;
    all.resize(all.size() - static_cast<size_t>(cut));
    std::ofstream(folder_ + "/adapter_model.safetensors", std::ios::binary) << all;
  }
  std::shared_ptr<const Adapter> load() {
    auto loaded = load_lora(folder_, model_, ops_, base_, kRoom);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? *loaded : nullptr;
  }
  std::string refusal(int64_t room = kRoom) {
    const auto loaded = load_lora(folder_, model_, ops_, base_, room);
    if (loaded) return "";
    const std::string& text = loaded.error().message;
    return text.starts_with(folder_ + ": ") ? text.substr(folder_.size() + 2) : "no folder: " + text;
  }

  struct Stored {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::string folder_;
  std::vector<Stored> tensors_;
  SmallModel model_;
  KeepingOps ops_;
  BaseModel base_;
};

TEST_F(LoraFolder, MatricesGoToTheirPlacesWithTheirFactor) {
  const auto adapter = load();
  ASSERT_NE(adapter, nullptr);
  EXPECT_EQ(ops_.given[0].a, counted(16));
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(ops_.given[0].b[i], 3 * (101 + static_cast<float>(i)));
  for (size_t i = 1; i < ops_.given.size(); ++i) EXPECT_EQ(ops_.given[i].rank, 0) << i;
  ASSERT_EQ(adapter->layers.size(), 3U);  // and of its ends
  ASSERT_EQ(adapter->layers[0].qkv.size(), 3U);
  EXPECT_FALSE(adapter->layers[0].qkv[0].empty());
  EXPECT_TRUE(adapter->layers[0].qkv[1].empty());
  EXPECT_EQ(adapter->layers[0].qkv[2].n_out, 4);
  EXPECT_TRUE(adapter->layers[0].down.empty());
  EXPECT_TRUE(adapter->layers[1].qkv.empty());
}

TEST_F(LoraFolder, RowsOfQAndKLieAsTheModelsOwn) {
  model_.facts().rope_pairs = RopePairs::interleaved;
  ASSERT_NE(load(), nullptr);
  std::vector<float> firsts;
  firsts.reserve(8);
  for (size_t row = 0; row < 8; ++row) firsts.push_back(ops_.given[0].b[2 * row] / 3);
  EXPECT_EQ(firsts, (std::vector<float>{101, 105, 103, 107, 109, 113, 111, 115}));
}

TEST_F(LoraFolder, RowsThatDoNotTurnStayWhereTheyAre) {
  model_.facts().rope_pairs = RopePairs::interleaved;
  model_.facts().head_dim = 8;
  model_.facts().n_rope = 4;
  ASSERT_NE(load(), nullptr);
  std::vector<float> firsts;
  firsts.reserve(8);
  for (size_t row = 0; row < 8; ++row) firsts.push_back(ops_.given[0].b[2 * row] / 3);
  EXPECT_EQ(firsts, (std::vector<float>{101, 105, 103, 107, 109, 111, 113, 115}));
}

TEST_F(LoraFolder, FusedMatricesAreCutAsTheModelsOwn) {
  model_ = SmallModel("phi3");
  tensors_.clear();
  pair("model.layers.1.self_attn.qkv_proj", 2, 8, 16);
  pair("model.layers.1.mlp.gate_up_proj", 2, 8, 12);
  write();
  const auto adapter = load();
  ASSERT_NE(adapter, nullptr);
  ASSERT_EQ(adapter->layers[1].qkv.size(), 1U);
  ASSERT_EQ(adapter->layers[1].gate_up.size(), 2U);
  const size_t per_layer = (ops_.given.size() - 2) / 2;
  const auto &gate = ops_.given[per_layer + 2], &up = ops_.given[per_layer + 3];
  EXPECT_EQ(gate.a, up.a);
  EXPECT_EQ(gate.b.size(), 12U);
  EXPECT_EQ(gate.b[0], 303);
  EXPECT_EQ(up.b[0], 3 * 113);
}

// W is all of twos, A counts from 1 and B from 101, each row of W + 3·B·A is brought to the length that stands for it.
TEST_F(LoraFolder, RowsAreScaledToTheirMagnitude) {
  base_.path = testing::TempDir() + "lora_base.gguf";
  GgufWriter base(base_.path);
  base.add_string("general.architecture", "llama");
  ASSERT_TRUE(base.add_tensor("blk.0.attn_q.bias", 0, {8}));
  ASSERT_TRUE(base.add_tensor("blk.0.attn_q.weight", 0, {8, 8}));
  const std::vector<float> bias = counted(8), twos(64, 2.0F);
  for (const auto* values : {&bias, &twos}) ASSERT_TRUE(base.write(std::as_bytes(std::span(*values))));
  ASSERT_TRUE(base.finish());
  config(R"(,"use_dora":true)");
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj";
  const std::string at = "adapter_model.safetensors: tensor \"" + q + ".lora_magnitude_vector\": is ";
  EXPECT_EQ(refusal(), at + "missing");
  add(q + ".lora_magnitude_vector", {8}, counted(8, 10));
  write();
  EXPECT_EQ(refusal(128), "adapter_model.safetensors: its matrices take 192 bytes and more; there is room for 128");
  ASSERT_NE(load(), nullptr);
  const std::vector<float>& b = ops_.given[0].b;
  ASSERT_EQ(b.size(), 32U);  // [8, rank + 2]
  EXPECT_EQ(ops_.given[0].rank, 2);
  for (int r = 0; r < 8; ++r) {
    const double b0 = 3 * (101 + 2 * r), b1 = b0 + 3;
    double squares = 0;
    for (int i = 0; i < 8; ++i) squares += std::pow(2 + b0 * (1 + i) + b1 * (9 + i), 2);
    const auto factor = static_cast<float>((10 + r) / std::sqrt(squares));
    const float* row = b.data() + 4 * static_cast<ptrdiff_t>(r);
    EXPECT_NEAR(row[0], factor * b0, 1e-5);
    EXPECT_NEAR(row[1], factor * b1, 1e-5);
    EXPECT_NEAR(row[2], factor, 1e-7);
    EXPECT_NEAR(row[3], (1 - factor) * (1 + static_cast<float>(r)), 1e-5);
  }
  base_.path += ".gone";
  EXPECT_THAT(refusal(), testing::HasSubstr("lora_base.gguf.gone"));
  config("");
  EXPECT_EQ(refusal(), at + "not known for a LoRA adapter, which has lora_A.weight and lora_B.weight of modules alone");
}

// An embedding's A becomes a table with a row for each token, B is what multiplies these; the head is a product.
TEST_F(LoraFolder, EmbeddingsAndTheHead) {
  const std::string embedding = "base_model.model.model.embed_tokens";
  add(embedding + ".lora_embedding_A", {2, 5}, counted(10));
  add(embedding + ".lora_embedding_B", {8, 2}, counted(16, 101));
  pair("lm_head", 2, 8, 5);
  write();
  const auto adapter = load();
  ASSERT_NE(adapter, nullptr);
  ASSERT_EQ(adapter->layers.size(), 3U);
  const AdapterLayer& ends = adapter->layers[2];
  EXPECT_EQ((ends.*kHead).size(), 1U);
  EXPECT_EQ((ends.*kEmbedding).size(), 1U);
  EXPECT_EQ((ends.*kEmbeddingTable).size(), 1U);
  const size_t n = ops_.given.size();  // what the sites have, then the table
  EXPECT_EQ(ops_.given[n - 1].a, (std::vector<float>{1, 6, 2, 7, 3, 8, 4, 9, 5, 10}));
  EXPECT_EQ(ops_.given[n - 1].rank, 5);
  EXPECT_EQ(ops_.given[n - 2].a, counted(16));
  EXPECT_EQ(ops_.given[n - 2].b[9], 3 * 110);
  EXPECT_EQ(ops_.given[n - 3].a, (std::vector<float>{1, 0, 0, 1}));
  EXPECT_EQ(ops_.given[n - 3].b[15], 3 * 116);
  const uint64_t content = adapter->content;
  tensors_[2].values[7] = 0;  // a token's
  write();
  EXPECT_NE(load()->content, content);
}

TEST_F(LoraFolder, EmbeddingsHaveNamesOfTheirOwn) {
  const std::string file = "adapter_model.safetensors: ", front = "base_model.model.";
  const std::string embedding = front + "model.embed_tokens", q = front + "model.layers.0.self_attn.q_proj";
  tensors_.clear();
  pair("model.embed_tokens", 2, 5, 8);
  write();
  EXPECT_EQ(refusal(), file + "tensor \"" + embedding + ".lora_A.weight\": \"model.embed_tokens\" is an embedding");
  add(embedding + ".lora_embedding_A", {2, 5}, counted(10));
  write();
  EXPECT_EQ(refusal(), file + "tensor \"" + embedding + ".lora_embedding_A\": its module has one of another name too");
  tensors_.erase(tensors_.begin(), tensors_.begin() + 2);
  write();
  EXPECT_EQ(refusal(), file + "tensor \"" + embedding + ".lora_embedding_B\": is missing");
  tensors_.clear();
  add(q + ".lora_embedding_A", {2, 8}, counted(16));
  add(q + ".lora_embedding_B", {8, 2}, counted(16));
  write();
  EXPECT_EQ(refusal(),
            file + "tensor \"" + q + ".lora_embedding_A\": \"model.layers.0.self_attn.q_proj\" is no embedding");
}

// PEFT saves the embedding with an adapter on it: the model's own is computed with, which must be the same.
TEST_F(LoraFolder, AnEmbeddingThatComesAlongIsTheModels) {
  base_.path = testing::TempDir() + "lora_tied.gguf";
  GgufWriter base(base_.path);
  base.add_string("general.architecture", "llama");
  ASSERT_TRUE(base.add_tensor("token_embd.weight", 0, {5, 8}));
  const std::vector<float> rows = counted(40);
  ASSERT_TRUE(base.write(std::as_bytes(std::span(rows))));
  ASSERT_TRUE(base.finish());
  const std::string embedding = "base_model.model.model.embed_tokens", head = "base_model.model.lm_head";
  add(embedding + ".lora_embedding_A", {2, 5}, counted(10));
  add(embedding + ".lora_embedding_B", {8, 2}, counted(16, 101));
  pair("lm_head", 2, 8, 5);
  std::vector<float> rounded = rows;
  for (float& value : rounded) value *= 1.009F;
  add(embedding + ".base_layer.weight", {5, 8}, rounded);
  add(head + ".base_layer.weight", {5, 8}, rounded);
  write();
  EXPECT_EQ(refusal(), "");
  for (size_t i = 24; i < 32; ++i) tensors_.back().values[i] = 1 - rows[i];
  write();
  EXPECT_EQ(refusal(), "adapter_model.safetensors: tensor \"" + head +
                           ".base_layer.weight\": row 3 is not the model's: it was made for another model, or this "
                           "part of it was trained too");
  tensors_.back().shape = {8, 5};
  write();
  EXPECT_EQ(refusal(),
            "adapter_model.safetensors: tensor \"" + head + ".base_layer.weight\": must have shape [5, 8], has [8, 5]");
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj";
  tensors_.back() = {q + ".base_layer.weight", {8, 8}, counted(64)};
  write();
  EXPECT_EQ(refusal(), "adapter_model.safetensors: tensor \"" + q +
                           ".base_layer.weight\": weights of \"model.layers.0.self_attn.q_proj\" itself are not "
                           "supported");
}

// One by one, as modules of their own.
TEST_F(LoraFolder, ExpertsThatAreModules) {
  model_ = SmallModel("qwen3moe", 2);
  pair("model.layers.1.mlp.experts.1.up_proj", 2, 8, 3);
  write();
  const auto adapter = load();
  ASSERT_NE(adapter, nullptr);
  ASSERT_EQ(adapter->layers.size(), 9U);
  EXPECT_TRUE(adapter->layers[7].gate_up.empty());
  ASSERT_EQ(adapter->layers[8].gate_up.size(), 2U);
  EXPECT_TRUE(adapter->layers[8].gate_up[0].empty());
  EXPECT_FALSE(adapter->layers[8].gate_up[1].empty());
  EXPECT_EQ(ops_.given[ops_.given.size() - 2].b[5], 3 * 106);
}

TEST_F(LoraFolder, TheUnitBesideExperts) {
  model_ = SmallModel("qwen3moe", 2);
  pair("model.layers.1.mlp.shared_experts.down_proj", 2, 6, 8);
  write();
  const auto adapter = load();
  ASSERT_NE(adapter, nullptr);
  ASSERT_EQ(adapter->layers.size(), 5U);
  EXPECT_TRUE(adapter->layers[3].down.empty());
  EXPECT_EQ(adapter->layers[4].down.size(), 1U);
}

// All of a layer in two tensors of its parameters: of A's rows each expert has a run, of B's columns every second.
TEST_F(LoraFolder, ExpertsThatAreParameters) {
  model_ = SmallModel("qwen3moe", 2);
  const std::string experts = "base_model.model.model.layers.0.mlp.experts";
  tensors_.clear();
  add(experts + ".base_layer.lora_A.weight", {4, 8}, counted(32));
  add(experts + ".base_layer.lora_B.weight", {6, 4}, counted(24, 101));
  write();
  const std::string file = "adapter_model.safetensors: tensor \"" + experts;
  const std::string version = R"(,"peft_version":"0.21.2")";
  config(version + R"(,"target_modules":["q_proj"],"target_parameters":["experts.gate_up_proj"])");
  EXPECT_EQ(refusal(), file + ".base_layer.lora_A.weight\": is of no module that target_modules names");
  config(R"(,"target_parameters":["experts.gate_up_proj"],"peft_version":"0.19.0")");
  EXPECT_EQ(refusal(),
            "adapter_config.json: key \"peft_version\": must be 0.19.1 or later where target_parameters names experts, "
            "found \"0.19.0\"");
  config(version + R"(,"target_parameters":["experts.gate_up_proj","experts.down_proj"])");
  const auto adapter = load();
  ASSERT_NE(adapter, nullptr);
  const size_t first = ops_.given.size() - 12;  // of both layers' experts
  EXPECT_EQ(ops_.given[first].a, counted(16));
  EXPECT_EQ(ops_.given[first + 1].a, counted(16));
  EXPECT_EQ(ops_.given[first + 3].a, counted(16, 17));
  EXPECT_EQ(ops_.given[first].b, (std::vector<float>{303, 309, 315, 321, 327, 333}));
  EXPECT_EQ(ops_.given[first + 1].b, (std::vector<float>{339, 345, 351, 357, 363, 369}));
  EXPECT_EQ(ops_.given[first + 3].b, (std::vector<float>{306, 312, 318, 324, 330, 336}));
  EXPECT_EQ(ops_.given[first + 2].rank, 0);
  // Gate and up of two experts, each with A [2, 8] and B [3, 2]; no number is read where there is no room for all.
  EXPECT_EQ(refusal(352), "");
  tensors_[0].values[0] = NAN;
  write();
  EXPECT_EQ(refusal(352), file + ".base_layer.lora_A.weight\": value 0 is not finite");
  EXPECT_EQ(refusal(351), "adapter_model.safetensors: its matrices take 352 bytes and more; there is room for 351");
  tensors_[0].values[0] = 1;
  tensors_[1].shape = {4, 6};
  write();
  EXPECT_EQ(refusal(), file + ".base_layer.lora_B.weight\": must have shape [6, 4], has [4, 6]");
  model_ = SmallModel("llama");
  EXPECT_EQ(refusal(), file +
                           ".base_layer.lora_A.weight\": this model has no "
                           "\"model.layers.0.mlp.experts.gate_up_proj\"" +
                           std::string(kAdaptable));
}

// A parameter's name without its module's fits behind every module.
TEST_F(LoraFolder, ModulesBesideExpertsThatAreParameters) {
  model_ = SmallModel("qwen3moe", 2);
  add("base_model.model.model.layers.0.mlp.experts.lora_A.weight", {4, 3}, counted(12));
  add("base_model.model.model.layers.0.mlp.experts.lora_B.weight", {8, 4}, counted(32, 101));
  write();
  const std::string parameters = R"(,"peft_version":"0.21.2","target_parameters":["down_proj"],"target_modules":)";
  for (const char* modules : {R"(["q_proj"])", R"(".*q_proj")"}) {
    config(parameters + modules);
    ASSERT_NE(load(), nullptr) << modules;
    EXPECT_EQ(ops_.given[0].a, counted(16));
    EXPECT_EQ(ops_.given[0].b[1], 3 * 102);
    EXPECT_EQ(ops_.given[ops_.given.size() - 10].a, counted(6));
  }
  config(parameters + R"(["k_proj"])");
  EXPECT_THAT(refusal(), testing::HasSubstr("this model has no \"model.layers.0.self_attn.q_proj.down_proj\""));
}

TEST_F(LoraFolder, ContentNamesIt) {
  const uint64_t content = load()->content;
  EXPECT_EQ(load()->content, content);
  config(R"(,"alora_invocation_tokens":[4,0,4])");  // answers are others
  EXPECT_NE(load()->content, content);
  config("", R"("peft_type":"LORA","r":2,"lora_alpha":8)");
  EXPECT_NE(load()->content, content);
  config("");
  tensors_[0].name = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
  tensors_[1].name = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight";
  write();
  EXPECT_NE(load()->content, content);
}

TEST_F(LoraFolder, RefusesWhatIsNotComputed) {
  const auto with = [this](const std::string& more) {
    config(more);
    return refusal();
  };
  const std::string key = "adapter_config.json: key ";
  EXPECT_EQ(with(R"(,"use_dora":7)"), key + "\"use_dora\": must be true or false, found 7");
  EXPECT_EQ(with(R"(,"modules_to_save":["lm_head"])"),
            key + R"("modules_to_save": is not supported for a LoRA adapter, found ["lm_head"])");
  EXPECT_EQ(with(R"(,"use_qalora":true)"), key + "\"use_qalora\": is not supported for a LoRA adapter, found true");
  EXPECT_EQ(with(R"(,"lora_bias":true)"), key + "\"lora_bias\": is not supported for a LoRA adapter, found true");
  EXPECT_EQ(with(R"(,"layer_replication":[[0,1]])"),
            key + "\"layer_replication\": is not supported for a LoRA adapter, found [[0,1]]");
  EXPECT_EQ(with(R"(,"alora_invocation_tokens":[1,5])"),
            key + "\"alora_invocation_tokens\": token 1 must be 0 to 4, the vocabulary's last, found 5");
  EXPECT_EQ(with(R"(,"whatever":7)"), key + "\"whatever\": is not supported for a LoRA adapter, found 7");
  EXPECT_EQ(with(R"(,"bias":"all")"), key + R"("bias": must be "none", found "all")");
  EXPECT_EQ(with(R"(,"init_lora_weights":"pissa")"),
            key +
                "\"init_lora_weights\": must be true, false, eva, gaussian or orthogonal, which leave the model as it "
                "is, found \"pissa\"");
  EXPECT_EQ(with(R"(,"task_type":"SEQ_CLS")"), key + R"("task_type": must be CAUSAL_LM, found "SEQ_CLS")");
  EXPECT_EQ(with(R"x(,"rank_pattern":{"q_(proj|k)":4})x"),
            key + R"x("rank_pattern": "q_(proj|k)" is not the name of modules; other patterns are not supported)x");
  EXPECT_EQ(with(R"(,"use_dora":false,"modules_to_save":null,"bias":"none","rank_pattern":{},"loftq_config":{},)"
                 R"("lora_dropout":0.1,"init_lora_weights":true,"layers_to_transform":[0],"inference_mode":true)"),
            "");
  config("", R"("peft_type":"PREFIX_TUNING","r":2,"lora_alpha":6)");
  EXPECT_EQ(refusal(), key + R"("peft_type": must be LORA, found "PREFIX_TUNING")");
  config("", R"("r":2,"lora_alpha":6)");
  EXPECT_EQ(refusal(), key + R"("peft_type": must be LORA, found nothing)");
  config("", R"("peft_type":"LORA","r":0,"lora_alpha":6)");
  EXPECT_EQ(refusal(), key + R"("r": must be 1 to 512, found 0)");
  config("", R"("peft_type":"LORA","r":2)");
  EXPECT_EQ(refusal(), key + R"("lora_alpha": must be a number, found nothing)");
}

TEST_F(LoraFolder, RefusesTensorsThatDoNotFit) {
  const std::string file = "adapter_model.safetensors: ", q = "base_model.model.model.layers.0.self_attn.q_proj";
  const auto again = [this](const std::string& module, int64_t rank, int64_t n_in, int64_t n_out) {
    tensors_.clear();
    pair(module, rank, n_in, n_out);
    write();
    return refusal();
  };
  EXPECT_EQ(again("model.layers.0.self_attn.q_proj", 3, 8, 8),
            file + "tensor \"" + q + ".lora_A.weight\": must have shape [2, 8], has [3, 8]");
  EXPECT_EQ(again("model.layers.0.self_attn.q_proj", 2, 8, 12),
            file + "tensor \"" + q + ".lora_B.weight\": must have shape [8, 2], has [12, 2]");
  const std::string only(kAdaptable);
  EXPECT_EQ(again("model.norm", 2, 8, 8),
            file + "tensor \"base_model.model.model.norm.lora_A.weight\": this model has no \"model.norm\"" + only);
  EXPECT_EQ(again("model.layers.2.mlp.up_proj", 2, 8, 6),
            file +
                "tensor \"base_model.model.model.layers.2.mlp.up_proj.lora_A.weight\": this model has no "
                "\"model.layers.2.mlp.up_proj\"" +
                only);
  tensors_.pop_back();
  write();
  EXPECT_EQ(refusal(), file + "tensor \"base_model.model.model.layers.2.mlp.up_proj.lora_B.weight\": is missing");
  tensors_.clear();
  add(q + ".lora_magnitude_vector", {8}, counted(8));
  write();
  EXPECT_EQ(refusal(), file + "tensor \"" + q +
                           ".lora_magnitude_vector\": is not known for a LoRA adapter, which has "
                           "lora_A.weight and lora_B.weight of modules alone");
  tensors_.clear();
  write();
  EXPECT_EQ(refusal(), file + "it has no tensors");
}

TEST_F(LoraFolder, RefusesNumbersThatAreNone) {
  tensors_[1].values[3] = NAN;
  write();
  const std::string b =
      "adapter_model.safetensors: tensor \"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight\": ";
  EXPECT_EQ(refusal(), b + "value 3 is not finite");
  tensors_[1].values[3] = 3e38F;
  write();
  EXPECT_EQ(refusal(), b + "times its factor of 3.000000 it is not finite");
}

TEST_F(LoraFolder, RefusesWhatIsCutOffOrMissing) {
  write(5);
  EXPECT_TRUE(refusal().starts_with("adapter_model.safetensors: ")) << refusal();
  fs::remove(folder_ + "/adapter_model.safetensors");
  EXPECT_EQ(refusal(), "\"adapter_model.safetensors\": there is no such file");
  std::ofstream(folder_ + "/adapter_config.json") << "[]";
  EXPECT_EQ(refusal(), "adapter_config.json: must be an object");
  fs::remove(folder_ + "/adapter_config.json");
  EXPECT_EQ(refusal(), "adapter_config.json: cannot be read");
}

TEST_F(LoraFolder, RefusesMoreThanThereIsRoomFor) {
  EXPECT_EQ(refusal(128), "");
  EXPECT_EQ(refusal(127), "adapter_model.safetensors: its matrices take 128 bytes and more; there is room for 127");
}

TEST_F(LoraFolder, OnlyModulesThatAreNamed) {
  config(R"(,"target_modules":["k_proj"])");
  EXPECT_EQ(refusal(),
            "adapter_model.safetensors: tensor \"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
            "\": is of no module that target_modules names");
  for (const char* named : {R"(["k_proj","q_proj"])", R"("all-linear")"}) {
    config(std::string(R"(,"target_modules":)") + named);
    EXPECT_EQ(refusal(), "");
  }
}

// With tied weights PEFT adds to the head what it adds to the embedding, and saves both.
TEST_F(LoraFolder, TiedModulesNeedNoName) {
  pair("lm_head", 2, 8, 5);
  write();
  config(R"(,"target_modules":["q_proj"])");
  EXPECT_THAT(refusal(), testing::HasSubstr("is of no module that target_modules names"));
  config(R"(,"target_modules":["q_proj"],"ensure_weight_tying":true)");
  EXPECT_EQ(refusal(), "");
}

TEST_F(LoraFolder, BackendsThatAddNothingSayTheirName) {
  class Plain final : public NoOps {
   public:
    std::string describe() const override { return "plain"; }
    Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes); }
    void sample(std::span<Sampled>, Tensor, std::span<const SampleParams>) override {}
    Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) override {
      return Ops::load_low_rank(from, to);  // NOLINT(bugprone-parent-virtual-call): what a backend without them says
    }
  } ops;
  const auto loaded = load_lora(folder_, model_, ops, base_, kRoom);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::unsupported);
  EXPECT_EQ(loaded.error().message, folder_ + ": plain: this backend computes no adapters");
}

}  // namespace
}  // namespace quire
