// Hyper-parameters, windows and rope scaling out of untrusted facts: what is wrong is refused by key, before anything
// is allocated.
#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace quire {
namespace {

using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Facts that are right, and an embedding of 105 tokens that nobody reads.
ModelFile good_file() {
  ModelFile file;
  file.path = "m.gguf";
  auto& meta = file.meta.values;
  meta["general.architecture"] = std::string("llama");
  meta["llama.block_count"] = int64_t{4};
  meta["llama.embedding_length"] = int64_t{64};
  meta["llama.feed_forward_length"] = int64_t{96};
  meta["llama.context_length"] = int64_t{128};
  meta["llama.attention.head_count"] = int64_t{4};
  meta["llama.attention.head_count_kv"] = int64_t{2};
  file.tensors.push_back({"token_embd.weight", find_weight_format("f32"), {105, 64}, {}});
  return file;
}

std::string error_with(std::string_view key, MetaValue value) {
  ModelFile file = good_file();
  file.meta.values["llama." + std::string(key)] = std::move(value);
  const auto config = read_decoder_config(file, LoadOptions{});
  return config ? "read" : config.error().message;
}

TEST(DecoderConfig, ReadsAndFillsIn) {
  const auto c = read_decoder_config(good_file(), LoadOptions{});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->n_layers, 4);
  EXPECT_EQ(c->head_dim, 16);
  EXPECT_EQ(c->n_rope, 16);
  EXPECT_EQ(c->n_vocab, 105);
  EXPECT_EQ(c->attn_scale, 0.25F);
  EXPECT_EQ(c->window, 0);
  EXPECT_TRUE(c->is_local.empty());
  ASSERT_EQ(c->rope.freq.size(), 8U);
  EXPECT_EQ(std::bit_cast<double>(c->rope.freq[1]), std::pow(10000.0, -2.0 / 16));
  EXPECT_EQ(c->rope.magnitude, 1.0);
}

ModelFile file_with_experts() {
  ModelFile file = good_file();
  file.meta.values["llama.expert_count"] = int64_t{12};
  file.meta.values["llama.expert_used_count"] = int64_t{4};
  return file;
}

std::string expert_error(std::initializer_list<std::pair<const char*, MetaValue>> facts) {
  ModelFile file = file_with_experts();
  for (const auto& [key, value] : facts) file.meta.values[std::string("llama.") + key] = value;
  const auto config = read_decoder_config(file, LoadOptions{});
  return config ? "read" : config.error().message;
}

TEST(DecoderConfig, ReadsHowExpertsAreChosen) {
  ModelFile file = file_with_experts();
  auto& meta = file.meta.values;
  const auto plain = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->routing.scoring, Routing::Scoring::softmax);
  EXPECT_EQ(plain->routing.n_expert_groups, 1);
  EXPECT_EQ(plain->n_ff_shared, 0);
  meta["llama.expert_gating_func"] = int64_t{2};
  meta["llama.expert_group_count"] = int64_t{4};
  meta["llama.expert_group_used_count"] = int64_t{2};
  meta["llama.expert_shared_count"] = int64_t{2};
  meta["llama.expert_feed_forward_length"] = int64_t{24};
  const auto c = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->routing.scoring, Routing::Scoring::sigmoid);
  EXPECT_EQ(c->routing.n_expert_groups, 4);
  EXPECT_EQ(c->routing.n_expert_groups_used, 2);
  EXPECT_EQ(c->n_ff_shared, 48);
}

TEST(DecoderConfig, RefusesExpertsThatCannotBe) {
  EXPECT_THAT(expert_error({{"expert_used_count", int64_t{13}}}), HasSubstr("llama.expert_used_count"));
  EXPECT_THAT(expert_error({{"expert_gating_func", int64_t{4}}}), HasSubstr("4 is not supported; known: 1 2 3"));
  EXPECT_THAT(expert_error({{"expert_group_count", int64_t{5}}}), HasSubstr("must divide the 12 experts, is 5"));
  EXPECT_THAT(expert_error({{"expert_group_count", int64_t{3}}, {"expert_group_used_count", int64_t{4}}}),
              HasSubstr("llama.expert_group_used_count"));
  EXPECT_THAT(expert_error({{"expert_group_count", int64_t{6}}, {"expert_group_used_count", int64_t{1}}}),
              HasSubstr("must be at most the 2 experts of the groups used, is 4"));
  EXPECT_THAT(expert_error({{"expert_shared_count", int64_t{1000}}, {"expert_feed_forward_length", int64_t{1} << 22}}),
              HasSubstr("llama.expert_shared_count"));
  EXPECT_THAT(expert_error({{"expert_weights_scale", kNaN}}), HasSubstr("llama.expert_weights_scale"));
}

using Heads = std::vector<int64_t>;

TEST(DecoderConfig, LayersWithoutHeadsKeepAState) {
  ModelFile file = good_file();
  auto& meta = file.meta.values;
  meta["llama.attention.head_count_kv"] = Heads{0, 2, 0, 2};
  const auto c = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->n_kv_heads, 2);
  EXPECT_EQ(c->is_state, (std::vector<bool>{true, false, true, false}));
  meta["llama.attention.head_count_kv"] = Heads{2, 2, 2, 2};
  EXPECT_TRUE(read_decoder_config(file, LoadOptions{})->is_state.empty());
  meta["llama.attention.head_count_kv"] = int64_t{2};
  meta["llama.attention.recurrent_layers"] = Heads{0, 0, 0, 1};
  EXPECT_EQ(read_decoder_config(file, LoadOptions{})->is_state, (std::vector<bool>{false, false, false, true}));
}

TEST(DecoderConfig, LayersMayHaveNoUnit) {
  ModelFile file = good_file();
  auto& meta = file.meta.values;
  meta["llama.feed_forward_length"] = Heads{0, 96, 0, 96};
  const auto c = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->n_ff, 96);
  EXPECT_EQ(c->has_unit, (std::vector<bool>{false, true, false, true}));
  EXPECT_TRUE(c->n_ff_of.empty());
  meta["llama.feed_forward_length"] = Heads{64, 96, 0, 96};
  EXPECT_EQ(read_decoder_config(file, LoadOptions{})->n_ff_of, (Heads{64, 96, 0, 96}));
  meta["llama.feed_forward_length"] = Heads{96, 96, 96, 96};
  EXPECT_TRUE(read_decoder_config(file, LoadOptions{})->has_unit.empty());
  meta.erase("llama.feed_forward_length");
  EXPECT_FALSE(read_decoder_config(file, LoadOptions{}));
  meta["llama.expert_feed_forward_length"] = int64_t{24};
  EXPECT_EQ(read_decoder_config(file, LoadOptions{})->n_ff, 24);
}

TEST(DecoderConfig, LayersMayBeStatesAlone) {
  ModelFile file = good_file();
  file.meta.values["llama.feed_forward_length"] = file.meta.values["llama.attention.head_count"] = int64_t{0};
  const auto c = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->n_heads, 0);
  EXPECT_EQ(c->is_state, std::vector<bool>(4, true));
  EXPECT_EQ(c->has_unit, std::vector<bool>(4, false));
}

TEST(DecoderConfig, RefusesLayersThatCannotBe) {
  EXPECT_THAT(error_with("feed_forward_length", Heads{0, 96, 0}), HasSubstr("must have 4 entries, has 3"));
  EXPECT_THAT(error_with("feed_forward_length", Heads{-1, 96, 0, 96}),
              HasSubstr("of 0 to 4194304, and some above 0, has -1"));
  EXPECT_THAT(error_with("feed_forward_length", Heads{0, 0, 0, 0}), HasSubstr("and some above 0, has 0"));
  EXPECT_THAT(error_with("attention.head_count_kv", Heads{0, 2, 0}), HasSubstr("must have 4 entries, has 3"));
  EXPECT_THAT(error_with("attention.recurrent_layers", Heads{0, 1, 0, 1, 0}), HasSubstr("must have 4 entries, has 5"));
  EXPECT_THAT(error_with("attention.head_count_kv", Heads{1, 2, 0, 2}), HasSubstr("for each layer, has 1"));
  EXPECT_THAT(error_with("attention.head_count_kv", Heads{5, 5, 0, 5}), HasSubstr("0 or one number of 1 to 4"));
  EXPECT_THAT(error_with("attention.head_count_kv", Heads{0, -1, 0, 0}), HasSubstr("for each layer, has -1"));
  EXPECT_THAT(error_with("attention.head_count_kv", Heads{3, 3, 0, 3}), HasSubstr("is no multiple of"));
}

TEST(DecoderConfig, AFactorAloneIsLinear) {
  for (const char* key : {"llama.rope.scale_linear", "llama.rope.scaling.factor"}) {
    ModelFile file = good_file();
    file.meta.values[key] = 4.0;
    const auto c = read_decoder_config(file, LoadOptions{});
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(std::bit_cast<double>(c->rope.freq[0]), 0.25) << key;
  }
}

TEST(DecoderConfig, RefusesWhatIsOutOfRange) {
  const std::pair<const char*, MetaValue> cases[] = {
      {"block_count", int64_t{0}},
      {"block_count", int64_t{1000000}},
      {"block_count", std::string("4")},
      {"embedding_length", int64_t{-1}},
      {"feed_forward_length", int64_t{0}},
      {"context_length", int64_t{0}},
      {"attention.head_count", int64_t{0}},
      {"attention.head_count_kv", int64_t{0}},
      {"attention.head_count_kv", int64_t{5}},
      {"attention.key_length", int64_t{0}},
      {"attention.key_length", int64_t{577}},
      {"rope.freq_base", 0.0},
      {"rope.freq_base", kNaN},
      {"rope.freq_base", kInf},
      {"attention.layer_norm_rms_epsilon", kNaN},
      {"attention.layer_norm_rms_epsilon", -1.0},
      {"attention.sliding_window", int64_t{-1}},
      {"attention.scale", 0.0},
      {"rope.scaling.type", std::string("magic")},
      {"rope.scaling.original_context_length", int64_t{0}},
  };
  for (const auto& [key, value] : cases) {
    const std::string error = error_with(key, value);
    EXPECT_THAT(error, HasSubstr("m.gguf: ")) << key;
    EXPECT_THAT(error, HasSubstr(key)) << key;
  }
  EXPECT_THAT(
      error_with("attention.head_count_kv", int64_t{3}),
      HasSubstr("\"llama.attention.head_count\": 4 is no multiple of \"llama.attention.head_count_kv\", which is 3"));
  EXPECT_THAT(error_with("rope.dimension_count", int64_t{15}), HasSubstr("rope.dimension_count\": must be even"));
  EXPECT_THAT(error_with("rope.dimension_count", int64_t{18}), HasSubstr("at most 16, is 18"));
  ModelFile file = good_file();  // where all of a head turns, the key that gives its width
  file.meta.values.erase("llama.rope.dimension_count");
  file.meta.values["llama.embedding_length"] = int64_t{36};
  EXPECT_EQ(
      read_decoder_config(file, LoadOptions{}).error().message,
      "m.gguf: key \"llama.embedding_length\": 36 by \"llama.attention.head_count\", which is 4, makes heads of 9 "
      "numbers: must be even, at least 2");
  file.meta.values["llama.attention.key_length"] = int64_t{15};
  EXPECT_EQ(read_decoder_config(file, LoadOptions{}).error().message,
            "m.gguf: key \"llama.attention.key_length\": must be even, at least 2, is 15");
}

TEST(DecoderConfig, LayersWithAWindowMayHaveHeadsOfTheirOwn) {
  using Numbers = std::vector<int64_t>;
  ModelFile file = good_file();
  auto& meta = file.meta.values;
  meta["llama.attention.value_length"] = int64_t{8};
  auto config = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->v_dim, 8);
  EXPECT_EQ(config->local.n_kv, 0);

  const int64_t n_layers = config->n_layers;
  Numbers heads(static_cast<size_t>(n_layers), 2), is_local(static_cast<size_t>(n_layers), 1);
  heads.back() = 1;
  is_local.back() = 0;
  meta["llama.attention.head_count_kv"] = heads;
  meta["llama.attention.sliding_window"] = int64_t{32};
  EXPECT_FALSE(read_decoder_config(file, LoadOptions{}));  // which layers have a window is not said
  meta["llama.attention.sliding_window_pattern"] = is_local;
  config = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->n_kv_heads, 1);
  EXPECT_EQ(config->local.n_kv, 2);
  EXPECT_EQ(config->local.k_dim, 16);
  EXPECT_EQ(config->local.v_dim, 8);
  meta["llama.attention.key_length_swa"] = int64_t{24};
  meta["llama.rope.dimension_count_swa"] = int64_t{32};
  config = read_decoder_config(file, LoadOptions{});
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("attention.key_length_swa\": layers with a window have 2 heads of 24"));
  meta["llama.rope.dimension_count_swa"] = int64_t{12};
  config = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->local.n_rope, 12);
}

std::string error_with_experts(std::string_view key, MetaValue value) {
  ModelFile file = good_file();
  file.meta.values["llama.expert_count"] = int64_t{8};
  file.meta.values["llama.expert_used_count"] = int64_t{2};
  file.meta.values["llama." + std::string(key)] = std::move(value);
  const auto config = read_decoder_config(file, LoadOptions{});
  return config ? "read" : config.error().message;
}

TEST(DecoderConfig, Experts) {
  EXPECT_EQ(error_with_experts("expert_used_count", int64_t{8}), "read");
  EXPECT_EQ(error_with_experts("expert_weights_scale", 0.0), "read");
  const std::pair<const char*, MetaValue> cases[] = {
      {"expert_count", int64_t{-1}},     {"expert_count", int64_t{1} << 40},
      {"expert_count", int64_t{1}},      {"expert_used_count", int64_t{0}},
      {"expert_used_count", int64_t{9}}, {"expert_feed_forward_length", int64_t{0}},
      {"expert_weights_scale", kNaN},    {"expert_weights_norm", std::string("yes")},
      {"expert_weights_scale", -1.0},
  };
  for (const auto& [key, value] : cases) EXPECT_THAT(error_with_experts(key, value), HasSubstr("\"llama.expert_"));
  EXPECT_TRUE(is_of_experts("blk.0.ffn_up_exps.weight"));
  EXPECT_TRUE(is_of_experts("blk.0.ffn_down.12.weight"));
  EXPECT_FALSE(is_of_experts("blk.0.ffn_down.weight"));
  EXPECT_FALSE(is_of_experts("blk.0.ffn_gate_inp.weight"));
}

TEST(DecoderConfig, RefusesFilesWithoutAnEmbedding) {
  ModelFile file = good_file();
  file.tensors.clear();
  EXPECT_THAT(read_decoder_config(file, LoadOptions{}).error().message, HasSubstr("token_embd.weight"));
}

std::string windows_of(const ModelFile& file, int period) {
  auto config = read_decoder_config(file, LoadOptions{});
  if (!config) return config.error().message;
  const auto done = read_windows(file, period, *config);
  if (!done) return done.error().message;
  std::string out;
  for (const bool local : config->is_local) out += local ? 'w' : '-';
  return out;
}

TEST(DecoderConfig, WindowsFollowThePatternOrThePeriod) {
  ModelFile file = good_file();
  EXPECT_EQ(windows_of(file, 2), "");
  file.meta.values["llama.attention.sliding_window"] = int64_t{16};
  EXPECT_EQ(windows_of(file, 1), "wwww");
  EXPECT_EQ(windows_of(file, 2), "w-w-");
  EXPECT_EQ(windows_of(file, 6), "wwww");
  file.meta.values["llama.attention.sliding_window_pattern"] = int64_t{3};
  EXPECT_EQ(windows_of(file, 1), "ww-w");
  file.meta.values["llama.attention.sliding_window_pattern"] = std::vector<int64_t>{0, 1, 1, 0};
  EXPECT_EQ(windows_of(file, 1), "-ww-");
  file.meta.values["llama.attention.sliding_window_pattern"] = std::vector<int64_t>{0, 1, 1};
  EXPECT_THAT(windows_of(file, 1), HasSubstr("sliding_window_pattern\": must have 4 entries, has 3"));
  file.meta.values["llama.attention.sliding_window_pattern"] = int64_t{0};
  EXPECT_THAT(windows_of(file, 1), HasSubstr("sliding_window_pattern"));
}

ModelFile scaled(const std::string& type, std::vector<std::pair<std::string, MetaValue>> facts) {
  ModelFile file = good_file();
  file.meta.values["llama.rope.scaling.type"] = type;
  for (auto& [key, value] : facts) file.meta.values["llama.rope.scaling." + key] = std::move(value);
  return file;
}

std::string rope_error(const ModelFile& file) {
  const auto config = read_decoder_config(file, LoadOptions{});
  return config ? "read" : config.error().message;
}

TEST(RopeScaling, RefusesWrongFactors) {
  for (const char* type : {"linear", "dynamic", "yarn", "llama3"}) {
    EXPECT_THAT(rope_error(scaled(type, {})), HasSubstr("rope.scaling.factor")) << type;
    for (const double factor : {0.0, -1.0, kNaN, kInf}) {
      EXPECT_THAT(rope_error(scaled(type, {{"factor", factor}})), HasSubstr("rope.scaling.factor")) << type << factor;
    }
  }
  EXPECT_THAT(rope_error(scaled("llama3", {{"factor", 8.0}, {"low_freq_factor", 4.0}, {"high_freq_factor", 4.0}})),
              HasSubstr("high_freq_factor"));
  EXPECT_THAT(rope_error(scaled("longrope", {})), HasSubstr("short_factor"));
  EXPECT_THAT(rope_error(scaled("longrope", {{"short_factor", std::vector<double>(7, 1.0)}})),
              HasSubstr("must hold 8 positive numbers, has 7"));
  for (const double bad : {0.0, -1.0, kNaN, kInf}) {
    EXPECT_THAT(rope_error(scaled("longrope", {{"short_factor", std::vector<double>(8, bad)}})),
                HasSubstr("must hold 8 positive numbers"));
  }
}

TEST(RopeScaling, StretchesTheContextWhereTheKindDoes) {
  const auto n_ctx = [](const ModelFile& file) { return read_decoder_config(file, LoadOptions{})->n_ctx; };
  EXPECT_EQ(n_ctx(scaled("linear", {{"factor", 4.0}})), 128);
  EXPECT_EQ(n_ctx(scaled("yarn", {{"factor", 4.0}})), 512);
  EXPECT_EQ(n_ctx(scaled("yarn", {{"factor", 4.0}, {"original_context_length", int64_t{32}}})), 128);
  EXPECT_EQ(n_ctx(scaled("dynamic", {{"factor", 2.0}})), 256);
}

TEST(RopeScaling, LongropeChoosesByTheServedContext) {
  const ModelFile file = scaled("longrope", {{"short_factor", std::vector<double>(8, 2.0)},
                                             {"long_factor", std::vector<int64_t>(8, 4)},
                                             {"original_context_length", int64_t{32}}});
  const auto first = [&](int n_ctx) {
    LoadOptions options;
    options.n_ctx = n_ctx;
    return std::bit_cast<double>(read_decoder_config(file, options)->rope.freq[0]);
  };
  EXPECT_EQ(first(32), 0.5);
  EXPECT_EQ(first(33), 0.25);
  EXPECT_EQ(first(0), 0.25);
  EXPECT_EQ(read_decoder_config(file, LoadOptions{})->rope.magnitude, std::sqrt(1 + std::log(4.0) / std::log(32.0)));
}

TEST(RopeScaling, ATensorDividesTheFrequencies) {
  ModelFile file = good_file();
  const std::vector<float> by = {1, 2, 4, 8, 16, 32, 64, 128};
  file.tensors.insert(file.tensors.begin(),
                      {"rope_freqs.weight", find_weight_format("f32"), {8}, std::as_bytes(std::span(by))});
  const auto config = read_decoder_config(file, LoadOptions{});
  ASSERT_TRUE(config) << config.error().message;
  const Rope plain = plain_rope(16, 10000.0);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::bit_cast<double>(config->rope.freq[i]),
              std::bit_cast<double>(plain.freq[i]) / static_cast<double>(by[i]));
  }
  file.tensors[0].shape = {4};
  EXPECT_THAT(rope_error(file), HasSubstr("rope_freqs.weight"));
}

}  // namespace
}  // namespace quire
