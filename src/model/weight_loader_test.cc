// What a file's tensors become on their way into a backend, and which are refused.
#include "model/weight_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/no_ops.h"

namespace quire {
namespace {

// Rows that are made of several tensors: what they are is known when a backend asks for them.
class NoRows final : public MadeRows {
 public:
  std::string kind() const override { return "none"; }
  std::vector<std::span<const std::byte>> stored() const override { return {}; }
  void make(int64_t, int64_t, std::byte*) const override {}
};

ModelFile file_of_made(const std::string& name, const char* format, int64_t n_rows, int64_t n_cols) {
  ModelFile file;
  file.path = "folder";
  HostWeight& weight = file.tensors.emplace_back();
  weight.name = name;
  weight.format = find_weight_format(std::string_view(format));
  weight.shape = {n_rows, n_cols};
  weight.made = std::make_shared<NoRows>();
  return file;
}

TEST(WeightLoader, NumbersOfAQuantisedTensorAreRefused) {
  class Counting final : public NoOps {
   public:
    Result<Tensor> load_vector(const HostWeight&) override {
      ++n;
      return Tensor();
    }
    int n = 0;
  };
  const ModelFile file = file_of_made("ssm_norm.weight", "f32", 1, 64);
  Counting ops;
  const LoadOptions options;
  Tensor out;
  WeightLoader numbers(file, ops, options), turned(file, ops, options);
  numbers.numbers(out, "ssm_norm.weight", 64);
  turned.turned(out, "ssm_norm.weight", 1, 64);
  for (const WeightLoader* load : {&numbers, &turned}) {
    ASSERT_FALSE(load->status());
    EXPECT_EQ(load->status().error().message,
              "folder: tensor \"ssm_norm.weight\": is quantised, which is not supported here");
  }
  EXPECT_EQ(ops.n, 0);
}

}  // namespace
}  // namespace quire
