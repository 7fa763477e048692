#include "app/sampling_options.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

std::string from(const SamplingDefaults& defaults, std::string_view field) {
  for (const SamplingDefault& row : defaults.rows()) {
    if (row.field == field) return row.from;
  }
  return "";
}

TEST(SamplingDefaults, AreTheTableWhereNobodySays) {
  const SamplingDefaults defaults = model_sampling({});
  EXPECT_EQ(defaults.get("temperature", 1), 0.8);
  EXPECT_EQ(defaults.get("top_k", 0), 40);
  EXPECT_EQ(defaults.get("top_p", 1), 0.95);
  EXPECT_EQ(defaults.get("min_p", 0), 0.05);
  EXPECT_EQ(defaults.get("repetition_penalty", 1), 1);
  EXPECT_EQ(defaults.get("max_tokens", 7), 7);
  EXPECT_EQ(from(defaults, "top_k"), "table");
}

TEST(SamplingDefaults, OptionThenModelThenTable) {
  Metadata folder;
  folder.values = {{"hf_generation.temperature", 0.6}, {"hf_generation.top_k", int64_t{20}}};
  SamplingDefaults defaults = model_sampling(folder);
  EXPECT_EQ(defaults.get("temperature", 1), 0.6);
  EXPECT_EQ(defaults.get("top_k", 0), 20);
  EXPECT_EQ(defaults.get("top_p", 1), 0.95);
  EXPECT_EQ(from(defaults, "temperature"), "generation_config.json");
  SamplingChoice choice;
  choice.numbers["temperature"] = 0;
  choice.integers["top_k"] = 0;
  apply(choice, defaults);
  EXPECT_EQ(defaults.get("temperature", 1), 0);
  EXPECT_EQ(defaults.get("top_k", 1), 0);
  EXPECT_EQ(from(defaults, "top_k"), "option");
  EXPECT_EQ(from(defaults, "top_p"), "table");
  EXPECT_EQ(defaults.rows().size(), 5U) << "each field once";

  Metadata file;
  file.values = {{"general.sampling.temp", 0.3}, {"general.sampling.penalty_repeat", 1.1}};
  EXPECT_EQ(model_sampling(file).get("temperature", 1), 0.3);
  EXPECT_FLOAT_EQ(sampling_params(model_sampling(file)).repetition_penalty, 1.1F);
}

TEST(SamplingDefaults, AFilesNonsenseIsLeftOut) {
  Metadata meta;
  meta.values = {{"hf_generation.temperature", -3.0},
                 {"hf_generation.top_p", std::string("x")},
                 {"general.sampling.top_k", int64_t{-1}}};
  const SamplingDefaults defaults = model_sampling(meta);
  EXPECT_EQ(defaults.get("temperature", 1), 0.8);
  EXPECT_EQ(defaults.get("top_p", 1), 0.95);
  EXPECT_EQ(defaults.get("top_k", 0), 40);
}

TEST(SamplingChoice, NamesWhatIsOutOfRange) {
  EXPECT_TRUE(check(SamplingChoice{}));
  SamplingChoice choice;
  choice.numbers["top_p"] = 1.5;
  EXPECT_EQ(check(choice).error().message, "--top-p must be 0 to 1, got 1.5");
  choice.numbers["top_p"] = -0.5;
  EXPECT_FALSE(check(choice));
}

}  // namespace
}  // namespace quire
