// Decoding against the gguf package (of formats that GGUF has not, against their formula in numpy):
// tests/golden/weights, made by tools/fixtures/make_weight_fixtures.py.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "quant/f16.h"
#include "quant/weight_format.h"

namespace quire {
namespace {

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

TEST(WeightGolden, EveryFormatDecodesAsTheReferenceDoes) {
  const std::filesystem::path folder = "tests/golden/weights";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "not run from the repository's root";
  for (const WeightFormat* format : weight_formats()) {
    if (format->block == 1) continue;
    SCOPED_TRACE(format->name);
    const std::vector<std::byte> file = read_file(folder / (std::string(format->name) + ".bin"));
    ASSERT_GT(file.size(), 16U) << "no fixture";
    const auto n_blocks = static_cast<size_t>(load_as<uint32_t>(file.data() + 4));
    ASSERT_EQ(load_as<uint32_t>(file.data()), 1U);
    ASSERT_EQ(load_as<uint32_t>(file.data() + 8), static_cast<uint32_t>(format->block));
    ASSERT_EQ(load_as<uint32_t>(file.data() + 12), static_cast<uint32_t>(format->bytes));
    const auto block_bytes = static_cast<size_t>(format->bytes);
    const size_t number_bytes = static_cast<size_t>(format->block) * sizeof(float);
    ASSERT_EQ(file.size(), 16 + n_blocks * (block_bytes + number_bytes));
    std::vector<float> numbers(static_cast<size_t>(format->block));
    for (size_t b = 0; b < n_blocks; ++b) {
      format->decode(file.data() + 16 + b * block_bytes, numbers.data());
      const std::byte* wanted = file.data() + 16 + n_blocks * block_bytes + b * number_bytes;
      for (size_t i = 0; i < numbers.size(); ++i) {
        const auto want = load_as<uint32_t>(wanted + i * sizeof(float));
        ASSERT_EQ(std::bit_cast<uint32_t>(numbers[i]), want)
            << "block " << b << " number " << i << ": " << numbers[i] << " for " << std::bit_cast<float>(want);
      }
    }
  }
}

}  // namespace
}  // namespace quire
