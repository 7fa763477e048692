#include "model/adapter_builder.h"

#include <gtest/gtest.h>

#include "io/gguf_writer.h"
#include "model/test_adapted_model.h"

namespace quire {
namespace {

// Of an embedding W whose columns are √5 · 2 long: with A all zeros that is what the magnitude's factor comes from.
TEST(AdapterBuilder, ColumnsAreScaledToNumbers) {
  const std::string path = testing::TempDir() + "adapter_columns.gguf";
  GgufWriter file(path);
  file.add_string("general.architecture", "llama");
  ASSERT_TRUE(file.add_tensor("token_embd.weight", 0, {5, 8}));
  const std::vector<float> twos(40, 2.0F);
  ASSERT_TRUE(file.write(std::as_bytes(std::span(twos))));
  ASSERT_TRUE(file.finish());
  const SmallModel model;
  KeepingOps ops;
  std::vector<float> magnitude(8, 1e30F);
  const auto add = [&] {
    AdapterBuilder builder(model, ops, {.path = path}, kRoom);
    const LoraMatrices matrices{2, std::vector<float>(10, 0.0F), counted(16, 101), magnitude};
    const auto added = builder.add(builder.place_of("token_embd.weight"), matrices, 3, "\"a\"", "\"b\"");
    return added ? std::string() : added.error().message;
  };
  EXPECT_EQ(add(), "");
  magnitude[3] = 3e38F;  // the factor is a number, times B it is none
  EXPECT_EQ(add(), "tensor \"b\": with it column 3 of \"token_embd.weight\" has a length that no magnitude can scale");
}

// How far an embedding that an adapter brings along may be off depends on what the model's has lost.
TEST(AdapterBuilder, AnEmbeddingThatComesAlongIsOffByRoundingAlone) {
  const SmallModel model;
  KeepingOps ops;
  constexpr int64_t kColumns = 32;
  const std::vector<float> rows = counted(2 * kColumns);
  const auto check = [&](const std::string& format_name, float by, const WeightFormat* loaded = nullptr) {
    const WeightFormat& format = *find_weight_format(std::string_view(format_name));
    std::vector<std::byte> stored(static_cast<size_t>(2 * format.row_bytes(kColumns)));
    for (int64_t i = 0; i < 2 * kColumns; i += format.block)
      format.encode(rows.data() + i, stored.data() + i / format.block * format.bytes);
    const std::string path = testing::TempDir() + "lora_same.gguf";
    GgufWriter file(path);
    file.add_string("general.architecture", "llama");
    EXPECT_TRUE(file.add_tensor("token_embd.weight", format.ggml_type, {2, kColumns}));
    EXPECT_TRUE(file.write(stored));
    EXPECT_TRUE(file.finish());
    std::vector<float> theirs = rows;
    for (float& value : theirs) value *= by;
    AdapterBuilder builder(model, ops, {.path = path, .weights = loaded}, kRoom);
    const auto same = builder.check_same(
        "token_embd.weight",
        {"w", find_weight_format(std::string_view("f32")), {2, kColumns}, std::as_bytes(std::span(theirs))});
    return same ? std::string() : same.error().message.substr(0, 40);
  };
  const std::string other = "tensor \"w\": row 0 is not the model's: it";
  for (const char* floats : {"f32", "f16", "bf16"}) {
    EXPECT_EQ(check(floats, 1), "") << floats;
    EXPECT_EQ(check(floats, 1.02F), other) << floats;
    EXPECT_EQ(check(floats, 1.4F, find_weight_format(std::string_view("q8_0"))), "") << floats;
  }
  EXPECT_EQ(check("q8_0", 1.4F), "");
  EXPECT_EQ(check("q8_0", 2.1F), other);
}

}  // namespace
}  // namespace quire
