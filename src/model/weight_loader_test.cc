// What a file's tensors become on their way into a backend, and which are refused.
#include "model/weight_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

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
  WeightLoader numbers(file, ops, options), transposed(file, ops, options);
  numbers.numbers(out, "ssm_norm.weight", 64);
  transposed.load_transposed(out, "ssm_norm.weight", 1, 64);
  for (const WeightLoader* load : {&numbers, &transposed}) {
    ASSERT_FALSE(load->status());
    EXPECT_EQ(load->status().error().message,
              "folder: tensor \"ssm_norm.weight\": is quantised, which is not supported here");
  }
  EXPECT_EQ(ops.n, 0);
}

TEST(WeightLoader, ProductsOfAFewColumnsAreNotRounded) {
  class Noting final : public NoOps {
   public:
    Result<Linear> load_linear(const HostWeight& weight, const HostWeight*, Shard) override {
      formats.emplace_back(weight.format->name);
      return Linear();
    }
    std::vector<std::string> formats;
  };
  ModelFile file;
  const std::vector<std::byte> zeros(256);
  for (const int64_t n_cols : {15, 16}) {
    HostWeight& weight = file.tensors.emplace_back();
    weight.name = std::to_string(n_cols) + ".weight";
    weight.format = find_weight_format(std::string_view("bf16"));
    weight.shape = {3, n_cols};
    weight.data = std::span(zeros).first(static_cast<size_t>(3 * n_cols * 2));
  }
  file.sort_tensors();
  Noting ops;
  const LoadOptions options;
  std::vector<Linear> out;
  WeightLoader load(file, ops, options);
  for (const int64_t n_cols : {15, 16}) load.linear(out, std::to_string(n_cols), 3, n_cols);
  ASSERT_TRUE(load.status());
  EXPECT_EQ(ops.formats, (std::vector<std::string>{"f32", "bf16"}));
}

// Notes what comes: the first of the rows, how many they are, their numbers of the bias.
class Parts final : public NoOps {
 public:
  struct Part {
    int64_t first_made, n_rows;
    std::vector<float> row, bias;
    bool operator==(const Part&) const = default;
  };
  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard) override {
    Part& one = all.emplace_back(Part{weight.first_made, weight.n_rows(), {}, {}});
    if (weight.made == nullptr) one.row = numbers(weight, weight.n_cols());
    if (bias != nullptr) one.bias = numbers(*bias, bias->n_rows() * bias->n_cols());
    return Linear{};
  }
  std::vector<Part> all;

 private:
  static std::vector<float> numbers(const HostWeight& weight, int64_t n) {
    std::vector<float> out(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i += weight.format->block)
      weight.format->decode(weight.data.data() + i / weight.format->block * weight.format->bytes, out.data() + i);
    return out;
  }
};

// Rows of q8_0 that count: every number of row r is r + 1.
class CountedRows final : public MadeRows {
 public:
  explicit CountedRows(std::vector<int32_t> order) : order_(std::move(order)) {}
  std::string kind() const override { return "counted"; }
  std::vector<std::span<const std::byte>> stored() const override { return {}; }
  std::span<const int32_t> order() const override { return order_; }
  void make(int64_t first, int64_t n, std::byte* out) const override {
    const WeightFormat& format = *find_weight_format(std::string_view("q8_0"));
    for (int64_t i = 0; i < 2 * n; ++i) {
      std::vector<float> block(32, static_cast<float>(first + i / 2 + 1));
      format.encode(block.data(), out + i * format.bytes);
    }
  }

 private:
  std::vector<int32_t> order_;
};

// As one that lies in a file is.
TEST(WeightLoader, AQuantisedMatrixIsTakenApartByHeads) {
  ModelFile made = file_of_made("attn_kv_b.weight", "q8_0", 2 * (32 + 16), 64), stored = made;
  made.tensors[0].made = std::make_shared<CountedRows>(std::vector<int32_t>());
  std::vector<std::byte> rows(static_cast<size_t>(96 * stored.tensors[0].row_bytes()));
  made.tensors[0].made->make(0, 96, rows.data());
  stored.tensors[0].made = nullptr;
  stored.tensors[0].data = rows;
  Parts of_made, of_stored;
  const LoadOptions options;
  std::vector<Linear> transposed, kept;
  WeightLoader one(made, of_made, options), other(stored, of_stored, options);
  one.cut_by_heads(transposed, kept, "attn_kv_b", {2, 32, 16, 64});
  other.cut_by_heads(transposed, kept, "attn_kv_b", {2, 32, 16, 64});
  ASSERT_TRUE(one.status()) << one.status().error().message;
  ASSERT_EQ(of_made.all.size(), 4U);
  ASSERT_EQ(of_stored.all.size(), 4U);
  for (const size_t keys : {0U, 2U}) EXPECT_EQ(of_made.all[keys].row, of_stored.all[keys].row);
  EXPECT_NEAR(of_made.all[2].row[31], 80, 0.01);  // the last key of the second head
  EXPECT_EQ(of_made.all[1].first_made, 32);
  EXPECT_EQ(of_made.all[3].first_made, 80);
}

TEST(WeightLoader, ReorderedColumnsAreNotTakenApartByHeads) {
  ModelFile file = file_of_made("attn_kv_b.weight", "q8_0", 2 * (32 + 32), 64);
  file.tensors[0].made = std::make_shared<CountedRows>(std::vector<int32_t>(64));
  NoOps ops;
  const LoadOptions options;
  WeightLoader load(file, ops, options);
  std::vector<Linear> transposed, kept;
  load.cut_by_heads(transposed, kept, "attn_kv_b", {2, 32, 32, 64});
  ASSERT_FALSE(load.status());
  EXPECT_EQ(load.status().error().message,
            "folder: tensor \"attn_kv_b.weight\": its columns are reordered, which is not supported here");
}

TEST(WeightLoader, PartsOfAQuantisedMatrixAreItsOwnRows) {
  const ModelFile file = file_of_made("attn_kv_a_mqa.weight", "q4_0", 64 + 32, 64);
  Parts ops;
  const LoadOptions options;
  WeightLoader load(file, ops, options);
  std::vector<Linear> parts;
  load.last_rows_first(parts, "attn_kv_a_mqa", {64, 32}, 64);
  ASSERT_TRUE(load.status()) << load.status().error().message;
  EXPECT_EQ(ops.all, (std::vector<Parts::Part>{{64, 32, {}, {}}, {0, 64, {}, {}}}));
}

// Four rows of two numbers, 0 to 7, and a bias of four, 10 to 13.
struct Numbered {
  explicit Numbered(const std::vector<int64_t>& shape) {
    const WeightFormat& f32 = *find_weight_format(std::string_view("f32"));
    file.path = "m.gguf";
    file.tensors.push_back({"a.bias", &f32, {shape.begin(), shape.end() - 1}, std::as_bytes(std::span(bias))});
    file.tensors.push_back({"a.weight", &f32, shape, std::as_bytes(std::span(rows))});
  }
  std::vector<float> rows = {0, 1, 2, 3, 4, 5, 6, 7}, bias = {10, 11, 12, 13};
  ModelFile file;
};

TEST(WeightLoader, PartsHaveTheirNumbersOfTheBias) {
  const Numbered two({4, 2}), three({2, 2, 2});
  Parts ops;
  const LoadOptions options;
  std::vector<Linear> out;
  const std::vector<Parts::Part> parts = {{0, 2, {0, 1}, {10, 11}}, {2, 2, {4, 5}, {12, 13}}};
  WeightLoader halves(two.file, ops, options);
  halves.halves(out, "a", 2, 2);
  EXPECT_EQ(std::exchange(ops.all, {}), parts);
  ASSERT_EQ(halves.taken().size(), 2U);
  EXPECT_EQ(halves.taken()[1].tensor, "a.weight");
  EXPECT_EQ(halves.taken()[1].first_row, 2);
  EXPECT_EQ(halves.taken()[1].index, 1U);
  halves.enter("blk.1.");
  EXPECT_TRUE(halves.taken().empty());
  WeightLoader stacked(three.file, ops, options);
  stacked.stacked(out, "a", {2, 2, 2});
  EXPECT_EQ(std::exchange(ops.all, {}), parts);
  WeightLoader transposed(two.file, ops, options);
  transposed.last_rows_first(out, "a", {2, 2}, 2);
  EXPECT_EQ(std::exchange(ops.all, {}), (std::vector<Parts::Part>{parts[1], parts[0]}));
  WeightLoader whole(two.file, ops, options);
  whole.linear(out, "a", 4, 2);
  EXPECT_EQ(ops.all, (std::vector<Parts::Part>{{0, 4, {0, 1}, {10, 11, 12, 13}}}));
}

// A part of blocks need not be whole ones.
TEST(WeightLoader, ABiasInBlocksIsNotTakenApart) {
  const WeightFormat& f32 = *find_weight_format(std::string_view("f32"));
  const WeightFormat& q8_0 = *find_weight_format(std::string_view("q8_0"));
  const std::vector<float> rows(std::size_t{64} * 2);
  const std::vector<std::byte> bias(static_cast<size_t>(q8_0.row_bytes(64)));
  ModelFile file;
  file.path = "m.gguf";
  file.tensors.push_back({"a.bias", &q8_0, {64}, bias});
  file.tensors.push_back({"a.weight", &f32, {64, 2}, std::as_bytes(std::span(rows))});
  Parts ops;
  const LoadOptions options;
  std::vector<Linear> out;
  WeightLoader load(file, ops, options);
  load.linear(out, "a", 64, 2);
  ASSERT_TRUE(load.status());
  EXPECT_EQ(ops.all[0].bias, std::vector<float>(64));
  load.halves(out, "a", 32, 2);
  ASSERT_FALSE(load.status());
  EXPECT_EQ(load.status().error().message, "m.gguf: tensor \"a.bias\": its type q8_0 is not supported here");
}

TEST(WeightLoader, ANumberThatCannotBeConvertedIsNamedWithItsFile) {
  const std::vector<float> rows(64, INFINITY);
  ModelFile file;
  file.path = "m.gguf";
  file.tensors.push_back(
      {"a.weight", find_weight_format(std::string_view("f32")), {2, 32}, std::as_bytes(std::span(rows))});
  Parts ops;
  LoadOptions options;
  options.weights = find_weight_format(std::string_view("q8_0"));
  std::vector<Linear> out;
  WeightLoader load(file, ops, options);
  load.linear(out, "a", 2, 32);
  ASSERT_FALSE(load.status());
  EXPECT_THAT(load.status().error().message, testing::StartsWith("m.gguf: tensor \"a.weight\": row 0, column 0: "));
}

}  // namespace
}  // namespace quire
