// Weights in NVFP4 with factors beside them, in files made here: which become one weight, its numbers, and what is
// refused.
#include "io/gguf_factors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "base/rng.h"
#include "quant/weights/nvfp4.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 6, kColumns = 128;  // of each of 3 experts

struct Parts {
  std::vector<std::byte> blocks, factors;
};

// The experts' weight in random bits, and what lies beside it.
ModelFile file_with(Parts& parts, const std::string& beside, std::vector<float> factors, const char* type = "f32") {
  Rng rng(1);
  parts.blocks.resize(static_cast<size_t>(3 * kRows * kColumns / NVFP4::kBlock * NVFP4::kBytes));
  for (std::byte& b : parts.blocks) b = static_cast<std::byte>(rng.bits());
  parts.factors.resize(factors.size() * 4);
  std::memcpy(parts.factors.data(), factors.data(), parts.factors.size());
  ModelFile file;
  file.tensors.push_back(
      {"blk.0.up.weight", find_weight_format(std::string_view("nvfp4")), {3, kRows, kColumns}, parts.blocks});
  file.tensors.push_back(
      {beside, find_weight_format(std::string_view(type)), {static_cast<int64_t>(factors.size())}, parts.factors});
  file.tensors.push_back({"blk.0.up.input_scale", find_weight_format(std::string_view("f32")), {1}, parts.factors});
  file.sort_tensors();
  return file;
}

std::vector<float> numbers_of(const HostWeight& weight) {
  std::vector<std::byte> room;
  std::vector<float> out(static_cast<size_t>(weight.n_rows() * weight.n_cols()));
  const std::byte* rows = weight.rows(0, weight.n_rows(), room);
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(weight.format->block)) {
    weight.format->decode(
        rows + i / static_cast<size_t>(weight.format->block) * static_cast<size_t>(weight.format->bytes),
        out.data() + i);
  }
  return out;
}

TEST(GgufFactors, AreTheirWeightsOwn) {
  for (const std::string name : {"blk.0.up.scale", "blk.0.up.weight.scale"}) {
    for (const std::vector<float>& factors : {std::vector<float>{0.37F, 5.5F, -2.0F}, std::vector<float>{0.37F}}) {
      Parts parts;
      ModelFile file = file_with(parts, name, factors);
      const std::vector<float> plain = numbers_of(*file.find("blk.0.up.weight"));
      ASSERT_TRUE(take_factors(file));
      EXPECT_EQ(file.find(name), nullptr);
      const HostWeight* weight = file.find("blk.0.up.weight");
      EXPECT_EQ(weight->format->name, "f4_64");
      EXPECT_EQ(weight->shape, (std::vector<int64_t>{3, kRows, kColumns}));
      EXPECT_EQ(weight->stored_bytes(), static_cast<int64_t>(parts.blocks.size() + parts.factors.size()));
      const std::vector<float> numbers = numbers_of(*weight);
      for (size_t i = 0; i < numbers.size(); ++i) {
        const float factor = factors[factors.size() == 1 ? 0 : i / static_cast<size_t>(kRows * kColumns)];
        ASSERT_NEAR(numbers[i], plain[i] * factor, std::abs(plain[i] * factor) * 0x1p-22F) << i;
      }
      std::vector<std::byte> room, all;
      const size_t row_bytes = static_cast<size_t>(weight->row_bytes());
      const std::byte* first = weight->rows(0, weight->n_rows(), all);
      ASSERT_EQ(std::memcmp(weight->rows(7, 2, room), first + 7 * row_bytes, 2 * row_bytes), 0);
    }
  }
}

TEST(GgufFactors, OthersStayAsTheyAre) {
  Parts parts;
  ModelFile file = file_with(parts, "blk.0.down.scale", {2.0F});
  ASSERT_TRUE(take_factors(file));
  EXPECT_EQ(file.find("blk.0.up.weight")->format->name, "nvfp4");
  EXPECT_NE(file.find("blk.0.down.scale"), nullptr);
  file.tensors.front().format = find_weight_format(std::string_view("f32"));
  ASSERT_TRUE(take_factors(file));
}

// A norm's numbers beside one, and gains of what a matrix reads, which are an architecture's own.
TEST(GgufFactors, VectorsAndGainsStayAsTheyAre) {
  Parts parts;
  ModelFile file = file_with(parts, "blk.0.up.scale", {2.0F});
  HostWeight& weight = *std::ranges::find(file.tensors, "blk.0.up.weight", &HostWeight::name);
  weight.shape = {weight.n_rows() * weight.n_cols()};
  ASSERT_TRUE(take_factors(file));
  EXPECT_EQ(file.find("blk.0.up.weight")->format->name, "nvfp4");
  EXPECT_NE(file.find("blk.0.up.scale"), nullptr);

  ModelFile other = file_with(parts, "blk.0.up.scale", std::vector<float>(kColumns, 2.0F));
  ASSERT_TRUE(take_factors(other));
  EXPECT_EQ(other.find("blk.0.up.weight")->format->name, "nvfp4");
  EXPECT_NE(other.find("blk.0.up.scale"), nullptr);
}

TEST(GgufFactors, AreRefusedByName) {
  const auto error = [](const std::vector<float>& factors, const char* type) {
    Parts parts;
    ModelFile file = file_with(parts, "blk.0.up.scale", factors, type);
    const Status taken = take_factors(file);
    return taken ? std::string() : taken.error().message;
  };
  EXPECT_EQ(error({1, 2}, "f32"), "tensor \"blk.0.up.scale\": has shape [2], 1 number wanted or 3");
  EXPECT_EQ(error({1}, "f16"), "tensor \"blk.0.up.scale\": type f16 is not supported (supported: f32)");
  EXPECT_EQ(error({1, std::numeric_limits<float>::infinity(), 1}, "f32"),
            "tensor \"blk.0.up.scale\": number 1: must be finite, is inf");
}

}  // namespace
}  // namespace quire
