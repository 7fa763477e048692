// Rows of experts, which files keep by themselves, all of a layer in one tensor, or gates with ups.
#include "model/base_rows.h"

#include <gmock/gmock.h>

#include "io/gguf_writer.h"

namespace quire {
namespace {

constexpr int64_t kIn = 4, kOut = 3, kExperts = 2;

// Numbers from `first` on.
std::vector<float> counted(int64_t n, float first) {
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(first + static_cast<float>(i));
  return out;
}

class BaseRowsFile : public testing::Test {
 protected:
  void add(const std::string& name, std::vector<int64_t> shape, float first) {
    int64_t n = 1;
    for (const int64_t dim : shape) n *= dim;
    tensors_.push_back({name, std::move(shape), counted(n, first)});
  }
  BaseRows write() {
    const std::string path = testing::TempDir() + "base_rows.gguf";
    GgufWriter out(path);
    out.add_string("general.architecture", "llama");
    for (const One& one : tensors_) EXPECT_TRUE(out.add_tensor(one.name, 0, one.shape));
    for (const One& one : tensors_) EXPECT_TRUE(out.write(std::as_bytes(std::span(one.values))));
    EXPECT_TRUE(out.finish());
    return BaseRows({path});
  }
  static std::vector<float> all(BaseRows& rows, const std::string& tensor) {
    std::vector<float> out;
    const auto done = rows.each_row(tensor, kOut, kIn, [&](int64_t r, std::span<const float> row) {
      EXPECT_EQ(r * kIn, std::ssize(out));
      out.insert(out.end(), row.begin(), row.end());
    });
    if (!done) ADD_FAILURE() << done.error().message;
    return out;
  }

 private:
  struct One {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::vector<One> tensors_;
};

TEST_F(BaseRowsFile, OfAnExpertInATensorOfAll) {
  add("blk.0.ffn_up_exps.weight", {kExperts, kOut, kIn}, 0);
  add("blk.0.ffn_up_exps.bias", {kExperts, kOut}, 100);
  add("blk.0.ffn_gate_up_exps.weight", {kExperts, 2 * kOut, kIn}, 200);
  add("blk.0.ffn_gate_up_exps.bias", {kExperts, 2 * kOut}, 300);
  add("blk.1.ffn_gate_up_exps.weight", {kExperts, 2 * kOut, kIn}, 400);
  add("blk.1.ffn_down.1.weight", {kOut, kIn}, 500);
  BaseRows rows = write();
  EXPECT_EQ(all(rows, "blk.0.ffn_up.1.weight"), counted(kOut * kIn, 12));
  EXPECT_EQ(*rows.bias_of("blk.0.ffn_up.1.weight", kOut), counted(kOut, 103));
  EXPECT_EQ(all(rows, "blk.0.ffn_gate.1.weight"), counted(kOut * kIn, 224));
  EXPECT_EQ(*rows.bias_of("blk.0.ffn_gate.1.weight", kOut), counted(kOut, 306));
  EXPECT_EQ(all(rows, "blk.1.ffn_up.0.weight"), counted(kOut * kIn, 412));
  EXPECT_EQ(*rows.bias_of("blk.1.ffn_up.0.weight", kOut), std::vector<float>(kOut));
  EXPECT_EQ(all(rows, "blk.1.ffn_down.1.weight"), counted(kOut * kIn, 500));
}

TEST_F(BaseRowsFile, NamesWhatIsNotThere) {
  add("blk.0.ffn_up_exps.weight", {kExperts, kOut, kIn}, 0);
  BaseRows rows = write();
  const auto nothing = [](int64_t, std::span<const float>) {};
  EXPECT_THAT(rows.each_row("blk.0.ffn_up.2.weight", kOut, kIn, nothing).error().message,
              testing::HasSubstr("has shape [2, 3, 4], [3, 3, 4] wanted"));
  EXPECT_THAT(rows.each_row("blk.0.ffn_down.0.weight", kOut, kIn, nothing).error().message,
              testing::HasSubstr("blk.0.ffn_down.0.weight"));
  EXPECT_THAT(rows.each_row("blk.0.ffn_up.0.weight", kOut, kIn + 1, nothing).error().message,
              testing::HasSubstr("has shape [2, 3, 4], [2, 3, 5] wanted"));
}

}  // namespace
}  // namespace quire
