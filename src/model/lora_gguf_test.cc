#include "model/lora_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <optional>

#include "io/gguf_writer.h"
#include "model/lora.h"
#include "model/test_adapted_model.h"

namespace quire {
namespace {

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
    if (invocation_) out.add_i32s("adapter.alora.invocation_tokens", *invocation_);
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
  std::optional<std::vector<Token>> invocation_;
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

// The embedding's A is a table there.
TEST_F(LoraFile, EmbeddingsAndTheHead) {
  tensors_["token_embd.weight.lora_a"] = {{5, 2}, counted(10)};
  tensors_["token_embd.weight.lora_b"] = {{8, 2}, counted(16, 101)};
  pair("output.weight", 3, 8, 5);
  ASSERT_TRUE(load());
  const size_t n = ops_.given.size();
  EXPECT_EQ(ops_.given[n - 1].a, counted(10));
  EXPECT_EQ(ops_.given[n - 2].b[0], 2 * 101);
  EXPECT_EQ(ops_.given[n - 3].b[15], 3 * 116);
  tensors_["token_embd.weight.lora_a"].first = {2, 5};
  EXPECT_EQ(refusal(), "tensor \"token_embd.weight.lora_a\": must have shape [5, 5], has [2, 5]");
  tensors_["token_embd.weight.lora_a"].first = {10};
  EXPECT_EQ(refusal(),
            "tensor \"token_embd.weight.lora_a\": must have shape [5, rank] with a rank of 1 to 512, has [10]");
}

// All experts of a layer in one tensor.
TEST_F(LoraFile, Experts) {
  model_ = SmallModel("llama", 2);
  tensors_["blk.1.ffn_down_exps.weight.lora_a"] = {{2, 3, 3}, counted(18)};
  tensors_["blk.1.ffn_down_exps.weight.lora_b"] = {{2, 8, 3}, counted(48, 101)};
  const auto adapter = load();
  ASSERT_TRUE(adapter) << adapter.error().message;
  EXPECT_EQ((*adapter)->layers.size(), 9U);
  EXPECT_EQ(ops_.given.back().a, counted(9, 10));
  EXPECT_EQ(ops_.given.back().b[0], 2 * 125);
  // Two experts, each with A [3, 3] and B [8, 3]; no number is read where there is no room for all.
  EXPECT_EQ(refusal(264), "");
  tensors_["blk.1.ffn_down_exps.weight.lora_a"].second[0] = NAN;
  EXPECT_EQ(refusal(264), "tensor \"blk.1.ffn_down_exps.weight.lora_a\": value 0 is not finite");
  EXPECT_EQ(refusal(263), "its matrices take 264 bytes and more; there is room for 263");
  tensors_["blk.1.ffn_down_exps.weight.lora_a"].second[0] = 1;
  tensors_["blk.1.ffn_down_exps.weight.lora_b"].first = {3, 8, 2};
  EXPECT_EQ(refusal(), "tensor \"blk.1.ffn_down_exps.weight.lora_b\": must have shape [2, 8, 3], has [3, 8, 2]");
  tensors_["blk.1.ffn_down_exps.weight.lora_a"].first = {6, 3};
  EXPECT_EQ(refusal(),
            "tensor \"blk.1.ffn_down_exps.weight.lora_a\": must have shape [2, rank, 3] with a rank of 1 to 512, has "
            "[6, 3]");
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

TEST_F(LoraFile, AnInvocationIsOfTokensOfTheVocabulary) {
  pair("blk.0.attn_v.weight", 2, 8, 4);
  const auto plain = load();
  ASSERT_TRUE(plain);
  EXPECT_TRUE((*plain)->invocation.empty());
  invocation_ = {3, 0, 4};
  const auto activated = load();
  ASSERT_TRUE(activated) << activated.error().message;
  EXPECT_EQ((*activated)->invocation, invocation_);
  EXPECT_NE((*activated)->content, (*plain)->content);
  const std::string key = "key \"adapter.alora.invocation_tokens\": ";
  invocation_ = {0, 5};
  EXPECT_EQ(refusal(), key + "token 1 must be 0 to 4, the vocabulary's last, found 5");
  invocation_ = {-1};
  EXPECT_EQ(refusal(), key + "token 0 must be 0 to 4, the vocabulary's last, found -1");
  invocation_->assign(kMostInvocation + 1, 0);
  EXPECT_EQ(refusal(), key + "must have at most 1024 tokens, has 1025");
  invocation_->assign(kMostInvocation, 0);
  EXPECT_EQ(refusal(), "");
  invocation_->clear();  // as if the key were not there
  const auto none = load();
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ((*none)->content, (*plain)->content);
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
            R"(key "adapter.alora.invocation_tokens": must be an array of integers, which tokens are)");
  EXPECT_EQ(with("adapter.alora.invocation", "x"),
            R"(key "adapter.alora.invocation": is not supported for a LoRA adapter)");
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
  pair("output_norm.weight", 2, 8, 4);
  EXPECT_THAT(refusal(), testing::HasSubstr("this model has no \"output_norm.weight\" that adapters may add to"));
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
