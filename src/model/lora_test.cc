#include "model/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "io/gguf_writer.h"
#include "ops/no_ops.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRoom = int64_t{1} << 20;

// A llama of 2 layers, 2 heads of 4 and one of keys and values: what it is asked for, no more.
class SmallModel final : public Model {
 public:
  explicit SmallModel(const std::string& arch = "llama") {
    info_.arch = arch;
    info_.n_layers = 2;
    info_.n_heads = 2;
    info_.n_kv_heads = 1;
    info_.head_dim = 4;
    info_.n_rope = 4;
    for (int l = 0; l < 2; ++l) {
      const auto add = [&](const std::string& name, int64_t n_out, int64_t n_in, auto product, size_t index,
                           int64_t first_row = 0) {
        const std::string tensor = "blk." + std::to_string(l) + "." + name + ".weight";
        sites_.push_back({tensor, first_row, n_out, n_in, l, product, index});
      };
      const bool fused = arch == "phi3";
      if (fused) add("attn_qkv", 16, 8, &AdapterLayer::qkv, 0);
      if (!fused) add("attn_q", 8, 8, &AdapterLayer::qkv, 0);
      if (!fused) add("attn_k", 4, 8, &AdapterLayer::qkv, 1);
      if (!fused) add("attn_v", 4, 8, &AdapterLayer::qkv, 2);
      add("attn_output", 8, 8, &AdapterLayer::attn_out, 0);
      add(fused ? "ffn_up" : "ffn_gate", 6, 8, &AdapterLayer::gate_up, 0);
      add("ffn_up", 6, 8, &AdapterLayer::gate_up, 1, fused ? 6 : 0);
      add("ffn_down", 8, 6, &AdapterLayer::down, 0);
    }
  }
  ModelInfo& facts() { return info_; }
  std::span<const AdapterSite> adapter_sites() const override { return sites_; }
  int64_t arena_bytes(int64_t, int64_t) const override { return 0; }
  Tensor embed(const Pass&) const override { return {}; }
  Tensor layers(Tensor x, LayerRange, const Pass&) const override { return x; }
  Tensor head(Tensor x, const Pass&) const override { return x; }

 private:
  std::vector<AdapterSite> sites_;
};

// Keeps what it is given, transposes nothing.
class KeepingOps final : public NoOps {
 public:
  std::string describe() const override { return "keeping"; }
  Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes); }
  void sample(std::span<Sampled>, Tensor, std::span<const SampleParams>) override {}
  Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) override {
    given.clear();
    for (size_t i = 0; i < from.size(); ++i) {
      given.push_back({{from[i].a.begin(), from[i].a.end()}, {from[i].b.begin(), from[i].b.end()}, from[i].rank});
      to[i].n_out = from[i].n_out;
      to[i].a.n_out = from[i].rank;
    }
    return Buffer::allocate(64);
  }
  struct Given {
    std::vector<float> a, b;
    int64_t rank;
  };
  std::vector<Given> given;  // by the model's sites
};

std::vector<float> counted(int64_t n, float first = 1) {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out.push_back(first + static_cast<float>(i));
  return out;
}

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
  ASSERT_EQ(adapter->layers.size(), 2U);
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
  const size_t per_layer = ops_.given.size() / 2;
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

TEST_F(LoraFolder, ContentNamesIt) {
  const uint64_t content = load()->content;
  EXPECT_EQ(load()->content, content);
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
  EXPECT_EQ(with(R"(,"fan_in_fan_out":true)"),
            key + "\"fan_in_fan_out\": is not supported for a LoRA adapter, found true");
  EXPECT_EQ(with(R"(,"lora_bias":true)"), key + "\"lora_bias\": is not supported for a LoRA adapter, found true");
  EXPECT_EQ(with(R"(,"layer_replication":[[0,1]])"),
            key + "\"layer_replication\": is not supported for a LoRA adapter, found [[0,1]]");
  EXPECT_EQ(with(R"(,"alora_invocation_tokens":[1])"),
            key + "\"alora_invocation_tokens\": is not supported for a LoRA adapter, found [1]");
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
  const std::string only = " that adapters may add to: only projections of attention and of dense feed-forward units";
  EXPECT_EQ(again("lm_head", 2, 8, 8),
            file + "tensor \"base_model.model.lm_head.lora_A.weight\": this model has no \"lm_head\"" + only);
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

class LoraFile : public testing::Test {
 protected:
  // Of type "adapter" for a llama, a factor of 3 at rank 2; each fact may be another or left out.
  void fact(const std::string& key, const std::string& value) { texts_[key] = value; }
  void pair(const std::string& tensor, int64_t rank, int64_t n_in, int64_t n_out) {
    tensors_[tensor + ".lora_a"] = {{rank, n_in}, counted(rank * n_in)};
    tensors_[tensor + ".lora_b"] = {{n_out, rank}, counted(n_out * rank, 101)};
  }
  void write() {
    GgufWriter out(path_);
    for (const auto& [key, value] : texts_) out.add_string(key, value);
    if (alpha_ != 0) out.add_f32("adapter.lora.alpha", alpha_);
    for (const auto& [name, tensor] : tensors_) ASSERT_TRUE(out.add_tensor(name, 0, tensor.first));
    for (const auto& [name, tensor] : tensors_) ASSERT_TRUE(out.write(std::as_bytes(std::span(tensor.second))));
    ASSERT_TRUE(out.finish());
  }
  Result<std::shared_ptr<const Adapter>> load(int64_t room = kRoom) {
    write();
    return load_lora(path_, model_, ops_, {}, room);
  }
  std::string refusal(int64_t room = kRoom) {
    const auto loaded = load(room);
    if (loaded) return "";
    const std::string& text = loaded.error().message;
    return text.starts_with(path_ + ": ") ? text.substr(path_.size() + 2) : "no file: " + text;
  }

  const std::string path_ = testing::TempDir() + "lora_file.gguf";
  std::map<std::string, std::string> texts_ = {
      {"general.type", "adapter"}, {"general.architecture", "llama"}, {"adapter.type", "lora"}};
  float alpha_ = 6;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> tensors_;
  SmallModel model_;
  KeepingOps ops_;
};

TEST_F(LoraFile, MatricesGoToTheirPlacesWithTheirFactor) {
  pair("blk.0.attn_v.weight", 2, 8, 4);
  pair("blk.1.ffn_down.weight", 3, 6, 8);
  const auto adapter = load();
  ASSERT_TRUE(adapter) << adapter.error().message;
  EXPECT_EQ(ops_.given[2].a, counted(16));
  EXPECT_EQ(ops_.given[2].b[0], 3 * 101);
  EXPECT_EQ(ops_.given[13].rank, 3);
  EXPECT_EQ(ops_.given[13].b[23], 2 * 124);
  EXPECT_EQ(ops_.given[0].rank, 0);
  alpha_ = 0;  // none: the matrices as they are
  ASSERT_TRUE(load());
  EXPECT_EQ(ops_.given[2].b[0], 101);
}

// Of a model whose rows lie as a folder's do; GGUF's rows of one that pairs them lie right.
TEST_F(LoraFile, RowsOfQAndKLieAsTheModelsDo) {
  pair("blk.0.attn_k.weight", 1, 8, 4);
  alpha_ = 1;
  ASSERT_TRUE(load());
  EXPECT_EQ(ops_.given[1].b, (std::vector<float>{101, 103, 102, 104}));
  model_.facts().rope_pairs = RopePairs::interleaved;
  ASSERT_TRUE(load());
  EXPECT_EQ(ops_.given[1].b, counted(4, 101));
}

TEST_F(LoraFile, IsRefusedByKey) {
  pair("blk.0.attn_v.weight", 2, 8, 4);
  const auto with = [&](const std::string& key, const std::string& value) {
    const auto was = texts_;
    texts_[key] = value;
    const std::string out = refusal();
    texts_ = was;
    return out;
  };
  EXPECT_EQ(with("general.type", "model"), R"(key "general.type": must be adapter, found "model")");
  EXPECT_EQ(with("adapter.type", "control"), R"(key "adapter.type": must be lora, found "control")");
  EXPECT_EQ(with("general.architecture", "qwen2"), R"(key "general.architecture": must be llama, found "qwen2")");
  EXPECT_EQ(with("adapter.alora.invocation_tokens", "x"),
            R"(key "adapter.alora.invocation_tokens": is not supported for a LoRA adapter)");
  EXPECT_EQ(with("adapter.lora.task_name", "pirates"), "");
  texts_.erase("general.type");
  EXPECT_THAT(refusal(), testing::HasSubstr("\"general.type\""));
  texts_["general.type"] = "adapter";
  alpha_ = NAN;
  EXPECT_THAT(refusal(), testing::HasSubstr("\"adapter.lora.alpha\""));
}

TEST_F(LoraFile, IsRefusedByTensor) {
  EXPECT_EQ(refusal(), "it has no tensors");
  pair("blk.0.attn_v.weight", 2, 8, 4);
  const auto good = tensors_;
  const auto with = [&](const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    tensors_ = good;
    tensors_[name] = {shape, values};
    return refusal();
  };
  const std::string a = "blk.0.attn_v.weight.lora_a", b = "blk.0.attn_v.weight.lora_b";
  EXPECT_EQ(with(a, {2, 7}, counted(14)), "tensor \"" + a + "\": must have shape [2, 8], has [2, 7]");
  EXPECT_EQ(with(b, {2, 4}, counted(8)), "tensor \"" + b + "\": must have shape [4, 2], has [2, 4]");
  EXPECT_EQ(with(a, {8}, counted(8)),
            "tensor \"" + a + "\": must have shape [rank, 8] with a rank of 1 to 512, has [8]");
  EXPECT_EQ(with(b, {4, 2}, std::vector<float>(8, INFINITY)), "tensor \"" + b + "\": value 0 is not finite");
  EXPECT_EQ(with(b, {4, 2}, std::vector<float>(8, 3e38F)),
            "tensor \"" + b + "\": times its factor of 3.000000 it is not finite");
  EXPECT_EQ(with("output.weight", {2, 8}, counted(16)),
            "tensor \"output.weight\": is not known for a LoRA adapter, which has .lora_a and .lora_b alone");
  EXPECT_EQ(with("token_embd.weight.lora_a", {2, 8}, counted(16)), "tensor \"token_embd.weight.lora_b\": is missing");
  tensors_ = good;
  pair("output.weight", 2, 8, 4);
  EXPECT_THAT(refusal(), testing::HasSubstr("this model has no \"output.weight\" that adapters may add to"));
  tensors_ = good;
  EXPECT_EQ(refusal(16), "its matrices take 96 bytes and more; there is room for 16");
}

TEST_F(LoraFile, NoGgufFileIsRefused) {
  std::ofstream(path_) << "nothing of the kind";
  const auto loaded = load_lora(path_, model_, ops_, {}, kRoom);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message.find(path_ + ": "), 0U);
  EXPECT_EQ(loaded.error().message.find(path_, 1), std::string::npos) << loaded.error().message;
}

}  // namespace
}  // namespace quire
