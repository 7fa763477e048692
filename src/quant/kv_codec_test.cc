// Every KV codec: rows come back as the codec rounds them, from the documented places, and no row disturbs another.
#include "quant/kv_codec.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "quant/f16.h"

namespace quire {
namespace {

// What a codec may make of a value. A new codec fails EveryCodecHasItsRounding until it is added.
float as_stored(std::string_view codec, float x) { return codec == "f16" ? f16_to_f32(f32_to_f16(x)) : x; }

TEST(KvCodecs, EveryCodecHasItsRounding) {
  std::set<std::string> registered;
  for (const KvCodec* codec : kv_codecs()) {
    EXPECT_TRUE(registered.insert(std::string(codec->name)).second) << codec->name;
    EXPECT_EQ(find_kv_codec(codec->name), codec);
  }
  EXPECT_EQ(registered, (std::set<std::string>{"f16", "f32"}));
  EXPECT_EQ(find_kv_codec("f99"), nullptr);
  if (!std::filesystem::exists("src/quant/kv")) GTEST_SKIP() << "not run from the repository's root";
  std::set<std::string> on_disk;
  for (const auto& entry : std::filesystem::directory_iterator("src/quant/kv")) on_disk.insert(entry.path().stem());
  EXPECT_EQ(registered, on_disk);
}

class Codec : public testing::TestWithParam<const KvCodec*> {
 protected:
  using Put = void (*)(std::byte*, int, int, const float*);
  using Get = void (*)(const std::byte*, int, int, float*);

  // Fills a group row by row in a scattered order, twice (the second time over old rows), and reads all of it back.
  static void check_rows(int dim, Put put, Get get) {
    const KvCodec& codec = *GetParam();
    const auto group_bytes = static_cast<size_t>(codec.row_bytes(dim) * kKvGroup);
    constexpr size_t kGuard = 64;
    std::vector<std::byte> memory(group_bytes + 2 * kGuard, std::byte{0xa5});
    std::byte* group = memory.data() + kGuard;
    Rng rng(static_cast<uint64_t>(dim));
    std::vector<std::vector<float>> rows(kKvGroup, std::vector<float>(static_cast<size_t>(dim)));
    std::vector<float> back(static_cast<size_t>(dim));
    for (int i = 0; i < 2 * kKvGroup; ++i) {
      const int t = i * 7 % kKvGroup;
      auto& row = rows[static_cast<size_t>(t)];
      for (float& v : row) v = rng.normal();
      put(group, t, dim, row.data());
    }
    for (int t = 0; t < kKvGroup; ++t) {
      get(group, t, dim, back.data());
      for (size_t d = 0; d < back.size(); ++d) {
        ASSERT_EQ(back[d], as_stored(codec.name, rows[static_cast<size_t>(t)][d])) << "t " << t << " d " << d;
      }
    }
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(memory[i], std::byte{0xa5});
      ASSERT_EQ(memory[kGuard + group_bytes + i], std::byte{0xa5});
    }
  }
};

TEST_P(Codec, KeysComeBack) {
  for (const int dim : {16, 32, 48, 64, 80, 128, 256}) check_rows(dim, GetParam()->put_k, GetParam()->get_k);
}

TEST_P(Codec, ValuesComeBack) {
  for (const int dim : {16, 32, 48, 64, 80, 128, 256}) check_rows(dim, GetParam()->put_v, GetParam()->get_v);
}

TEST_P(Codec, ARowsBytesGrowWithItsWidth) {
  const KvCodec& codec = *GetParam();
  for (int dim = 16; dim <= 512; dim += 16) {
    EXPECT_GT(codec.row_bytes(dim), 0);
    EXPECT_GT(codec.row_bytes(dim + 16), codec.row_bytes(dim));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Codec, testing::ValuesIn(kv_codecs().begin(), kv_codecs().end()), [](const auto& row) {
  return std::string(row.param->name);
});

TEST(KvF16, KeysLieTransposedAndValuesInRows) {
  const KvCodec& codec = *find_kv_codec("f16");
  constexpr int kDim = 32;
  std::vector<uint16_t> group(static_cast<size_t>(kDim * kKvGroup));
  auto* bytes = reinterpret_cast<std::byte*>(group.data());
  std::vector<float> row(kDim);
  for (int d = 0; d < kDim; ++d) row[static_cast<size_t>(d)] = static_cast<float>(d + 1);
  codec.put_k(bytes, 5, kDim, row.data());
  for (int d = 0; d < kDim; ++d)
    EXPECT_EQ(group[static_cast<size_t>(d * kKvGroup + 5)], f32_to_f16(static_cast<float>(d + 1)));
  std::fill(group.begin(), group.end(), uint16_t{0});
  codec.put_v(bytes, 5, kDim, row.data());
  for (int d = 0; d < kDim; ++d)
    EXPECT_EQ(group[static_cast<size_t>(5 * kDim + d)], f32_to_f16(static_cast<float>(d + 1)));
}

}  // namespace
}  // namespace quire
