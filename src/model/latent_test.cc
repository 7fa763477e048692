// Latent attention out of untrusted facts: what it takes in the cache, what is wrong by key, codecs that cannot hold
// it.
#include "model/latent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/json.h"
#include "io/hf_config.h"
#include "ops/no_ops.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A folder's configuration with one fact changed: `key` is what comes before the value in the text.
ModelFile folder_with(const std::string& key = "", const std::string& value = "") {
  std::string config = R"({"model_type":"deepseek_v3","hidden_size":64,"num_hidden_layers":3,"intermediate_size":96,
    "num_attention_heads":8,"num_key_value_heads":8,"max_position_embeddings":128,"kv_lora_rank":512,
    "q_lora_rank":48,"qk_nope_head_dim":24,"qk_rope_head_dim":64,"v_head_dim":40,"n_routed_experts":12,
    "num_experts_per_tok":4,"moe_intermediate_size":32,"n_shared_experts":1,"n_group":4,"topk_group":2,
    "rope_scaling":{"type":"yarn","factor":4.0,"mscale":1.0,"mscale_all_dim":0.5}})";
  if (!key.empty()) {
    const size_t at = config.find("\"" + key + "\":") + key.size() + 3;
    config.replace(at, config.find_first_of(",}", at) - at, value);
  }
  ModelFile file;
  file.path = "some/folder";
  file.is_hugging_face = true;
  file.meta = *read_hf_config(*Json::parse(config));
  file.tensors.push_back({"model.embed_tokens.weight", find_weight_format("f32"), {105, 64}, {}});
  return file;
}

LoadOptions cache_in(std::string_view codec) {
  LoadOptions options;
  options.k_codec = options.v_codec = find_kv_codec(codec);
  return options;
}

std::string error_with(const std::string& key, const std::string& value) {
  const auto info = model_info(folder_with(key, value), cache_in("f16"));
  return info ? "opened" : info.error().message;
}

TEST(Latent, OneRowOfATokenAndLayerIsCached) {
  for (const auto& [codec, row_bytes] : {std::pair("f32", 2304), {"f16", 1152}, {"bf16", 1152}, {"q8", 580}}) {
    const auto info = model_info(folder_with(), cache_in(codec));
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(info->kv_layout.token_bytes(), 3 * row_bytes) << codec;
    ASSERT_EQ(info->attention.size(), 3U);
    const AttnParams& layer = info->attention[1];
    EXPECT_TRUE(layer.values_in_keys);
    EXPECT_EQ(layer.k_dim, 576);
    EXPECT_EQ(layer.v_dim, 512);
    EXPECT_EQ(layer.n_kv_heads, 1);
    EXPECT_EQ(layer.n_heads, 8);
    EXPECT_EQ(layer.kv_offset, row_bytes);
  }
}

TEST(Latent, ScoresAreScaledByTheWholeQueryAndItsStretch) {
  const auto file = neutral_form(folder_with());
  ASSERT_TRUE(file) << file.error().message;
  const auto c = read_decoder_config(*file, LoadOptions{});
  ASSERT_TRUE(c) << c.error().message;
  const double stretch = 0.1 * 0.5 * std::log(4.0) + 1;
  EXPECT_FLOAT_EQ(c->attn_scale, static_cast<float>(stretch * stretch / std::sqrt(24.0 + 64.0)));
  EXPECT_NEAR(c->rope.magnitude, (0.1 * std::log(4.0) + 1) / stretch, 1e-12);
  EXPECT_EQ(c->latent.n_q, 48);
  EXPECT_EQ(c->latent.k_dim, 24);
  EXPECT_EQ(c->latent.v_dim, 40);
  EXPECT_EQ(c->n_rope, 64);
}

TEST(Latent, RefusesWhatCannotBe) {
  const std::string wide = std::to_string(int64_t{1} << 40);
  const std::pair<const char*, std::string> cases[] = {
      {"kv_lora_rank", "0"},     {"kv_lora_rank", "-1"},     {"kv_lora_rank", wide},     {"kv_lora_rank", "\"512\""},
      {"kv_lora_rank", "null"},  {"qk_rope_head_dim", "0"},  {"qk_rope_head_dim", "63"}, {"qk_rope_head_dim", wide},
      {"qk_nope_head_dim", "0"}, {"qk_nope_head_dim", wide}, {"v_head_dim", "0"},        {"v_head_dim", wide},
      {"q_lora_rank", "-1"},     {"q_lora_rank", wide},      {"mscale_all_dim", "-1"},   {"n_group", "5"},
      {"topk_group", "5"},       {"n_group", "24"},
  };
  for (const auto& [key, value] : cases) {
    const std::string shown = std::string(key) + "\"";
    EXPECT_THAT(error_with(key, value), AllOf(HasSubstr("some/folder"), HasSubstr(shown))) << key << ' ' << value;
  }
  EXPECT_THAT(error_with("kv_lora_rank", "0"), HasSubstr("must be an integer in [1, 576], is 0"));
  EXPECT_THAT(error_with("kv_lora_rank", "520"), HasSubstr("a row of 584, at most 576 are supported"));
  EXPECT_THAT(error_with("qk_rope_head_dim", "63"), HasSubstr("must be even, at least 2 and at most 575, is 63"));
  EXPECT_THAT(error_with("n_group", "5"), HasSubstr("must divide the 12 experts, is 5"));
  EXPECT_THAT(error_with("num_experts_per_tok", "7"), HasSubstr("at most the 6 experts of the groups used, is 7"));
}

// Such files say what heads have, not what the cache has.
TEST(Latent, ReadsFilesWhoseMatricesAreNotCut) {
  auto file = neutral_form(folder_with());
  ASSERT_TRUE(file) << file.error().message;
  const auto cut = read_decoder_config(*file, LoadOptions{});
  ASSERT_TRUE(cut) << cut.error().message;
  file->meta.spelled.clear();
  auto& meta = file->meta.values;
  meta.erase("deepseek2.attention.key_length_mla");
  meta.erase("deepseek2.attention.value_length_mla");
  meta["deepseek2.attention.key_length"] = int64_t{88};
  meta["deepseek2.attention.value_length"] = int64_t{40};
  meta["deepseek2.attention.head_count_kv"] = int64_t{8};
  const auto whole = read_decoder_config(*file, LoadOptions{});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->head_dim, 576);
  EXPECT_EQ(whole->n_kv_heads, 1);
  EXPECT_EQ(whole->latent.k_dim, cut->latent.k_dim);
  EXPECT_EQ(whole->latent.v_dim, cut->latent.v_dim);
  EXPECT_EQ(whole->attn_scale, cut->attn_scale);
  meta["deepseek2.attention.key_length"] = int64_t{64};
  const auto narrow = read_decoder_config(*file, LoadOptions{});
  ASSERT_FALSE(narrow);
  EXPECT_THAT(narrow.error().message, HasSubstr("attention.key_length"));
}

// A GGUF whose sizes would make a latent row, or leave it out.
std::string opened_as(const std::string& arch, bool has_latent) {
  ModelFile file;
  file.path = "m.gguf";
  file.tensors.push_back({"token_embd.weight", find_weight_format("f32"), {105, 64}, {}});
  auto& meta = file.meta.values;
  meta["general.architecture"] = arch;
  const std::pair<const char*, int64_t> facts[] = {
      {"block_count", 2},          {"embedding_length", 64},     {"feed_forward_length", 96}, {"context_length", 128},
      {"attention.head_count", 1}, {"attention.key_length", 64}, {"rope.dimension_count", 32}};
  for (const auto& [key, value] : facts) meta[arch + "." + key] = value;
  meta[arch + ".attention.value_length"] = int64_t{64};
  if (has_latent) meta[arch + ".attention.kv_lora_rank"] = int64_t{32};
  const auto info = model_info(file, cache_in("f32"));
  return info ? "opened" : info.error().message;
}

TEST(Latent, BelongsToArchitecturesThatLoadIt) {
  const std::set<std::string> takes_latent = {"bailing_hybrid", "deepseek2", "kimi-linear", "minicpm3", "mistral4"};
  for (const std::string& arch : Registry<ArchEntry>::get().names()) {
    const std::string key = "m.gguf: key \"" + arch + ".attention.kv_lora_rank\": ";
    if (takes_latent.contains(arch)) {
      EXPECT_EQ(opened_as(arch, true), "opened");
      EXPECT_EQ(opened_as(arch, false), key + "is missing");
    } else {
      EXPECT_EQ(opened_as(arch, true), key + "this architecture has no latent attention");
    }
  }
}

// Keeps what is loaded, decoded.
class Taken final : public NoOps {
 public:
  Result<Linear> load_linear(const HostWeight& weight, const HostWeight*, Shard) override {
    std::vector<float>& values = all.emplace_back(static_cast<size_t>(weight.n_rows() * weight.n_cols()));
    for (size_t i = 0; i < values.size(); i += static_cast<size_t>(weight.format->block)) {
      const auto block = static_cast<int64_t>(i) / weight.format->block;
      weight.format->decode(weight.data.data() + block * weight.format->bytes, values.data() + i);
    }
    Linear out;
    out.n_out = weight.n_rows();
    out.n_in = weight.n_cols();
    out.format = weight.format;
    return out;
  }
  std::vector<std::vector<float>> all;
};

// Two heads with 16 rows of keys and two of values each, of a latent of 64.
TEST(Latent, CutsOneMatrixOfAnyFormatByHeads) {
  constexpr int64_t kHeads = 2, kKeys = 16, kValues = 2, kLatent = 64, kRows = kHeads * (kKeys + kValues);
  for (const char* name : {"f32", "bf16", "q8_0", "q4_0"}) {
    const WeightFormat& format = *find_weight_format(std::string_view(name));
    std::vector<std::byte> bytes(static_cast<size_t>(kRows * format.row_bytes(kLatent)));
    std::vector<float> plain(kRows * kLatent);
    for (size_t i = 0; i < plain.size(); ++i) plain[i] = std::sin(static_cast<float>(i));
    for (int64_t i = 0; i < kRows * kLatent; i += format.block) {
      format.encode(plain.data() + i, bytes.data() + i / format.block * format.bytes);
      format.decode(bytes.data() + i / format.block * format.bytes, plain.data() + i);
    }
    ModelFile file;
    file.tensors.push_back({"attn_kv_b.weight", &format, {kRows, kLatent}, bytes});
    Taken ops;
    const LoadOptions options;
    WeightLoader load(file, ops, options);
    std::vector<Linear> transposed, kept;
    load.cut_by_heads(transposed, kept, "attn_kv_b", {kHeads, kKeys, kValues, kLatent});
    ASSERT_TRUE(load.status()) << load.status().error().message;
    ASSERT_EQ(transposed.size(), 2U);
    ASSERT_EQ(kept.size(), 2U);
    EXPECT_EQ(transposed[1].format->name, format.block == 1 ? format.name : "f32");
    EXPECT_EQ(kept[1].format->name, format.name);
    for (int64_t h = 0; h < kHeads; ++h) {
      const float* head = plain.data() + h * (kKeys + kValues) * kLatent;
      const std::vector<float>& keys = ops.all[static_cast<size_t>(2 * h)];
      const std::vector<float>& values = ops.all[static_cast<size_t>(2 * h) + 1];
      for (int64_t i = 0; i < kKeys * kLatent; ++i)
        ASSERT_EQ(keys[static_cast<size_t>(i % kLatent * kKeys + i / kLatent)], head[i]) << name << ' ' << i;
      EXPECT_TRUE(std::equal(values.begin(), values.end(), head + kKeys * kLatent)) << name;
    }
    load.cut_by_heads(transposed, kept, "attn_kv_b", {kHeads, kKeys, kValues + 1, kLatent});
    ASSERT_FALSE(load.status());
    EXPECT_THAT(load.status().error().message, HasSubstr("attn_kv_b.weight"));
  }
}

TEST(Latent, RefusesCodecsThatCannotHoldAValueWithinAKey) {
  const auto error = [](const ModelFile& folder, std::string_view codec) {
    const auto info = model_info(folder, cache_in(codec));
    return info ? "opened" : info.error().message;
  };
  EXPECT_THAT(error(folder_with(), "k8v4"), HasSubstr("--kv-type k8v4: this model's values are the last 512"));
  const ModelFile even = folder_with("kv_lora_rank", "64");  // of 64 and 64 the rotation of a key is one run
  for (const char* codec : {"q8", "q4", "f8"}) {
    EXPECT_EQ(error(folder_with(), codec), "opened") << codec;
    EXPECT_THAT(error(even, codec), HasSubstr("a codec that rotates keys of this width mixes")) << codec;
  }
  for (const char* codec : {"f16", "bf16", "f32"}) EXPECT_EQ(error(even, codec), "opened") << codec;
}

}  // namespace
}  // namespace quire
