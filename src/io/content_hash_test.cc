#include "io/content_hash.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/mmap.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLater = int64_t{1} << 62;  // nanoseconds of a clock by which every file is old

struct Folder {
  Folder() : path(fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string cache() const { return (path / "cache").string(); }
  fs::path path;
};

// A file of two tensors of bytes: "a" of `n_a` and "b" of what is left.
ModelFile open_tensors(const fs::path& path, std::string bytes, size_t n_a) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  ModelFile file;
  const auto map = MappedFile::open(path.string());
  EXPECT_TRUE(map);
  file.maps.push_back(*map);
  const WeightFormat* format = find_weight_format("f32");
  const auto all = (*map)->bytes();
  file.tensors = {{"a", format, {static_cast<int64_t>(n_a / 4)}, all.first(n_a)},
                  {"b", format, {static_cast<int64_t>((all.size() - n_a) / 4)}, all.subspan(n_a)}};
  return file;
}

Hash128 hash_of(const ModelFile& file, int n_threads = 1) { return ContentHash(file, "", n_threads).finish(); }

TEST(ContentHash, EveryByteOfEveryTensorCounts) {
  const Folder folder;
  std::string bytes(9'000'000, 'x');  // parts of 4 MiB: the last ones are cut
  const size_t n_a = 8'500'000;
  const Hash128 plain = hash_of(open_tensors(folder.path / "m", bytes, n_a));
  for (const size_t at : {size_t{0}, size_t{1023}, size_t{1024}, (size_t{4} << 20) - 1, size_t{4} << 20, n_a - 1, n_a,
                          bytes.size() - 1}) {
    std::string other = bytes;
    other[at] = 'y';
    EXPECT_NE(hash_of(open_tensors(folder.path / "o", other, n_a)), plain) << "byte " << at;
  }
  EXPECT_EQ(hash_of(open_tensors(folder.path / "again", bytes, n_a)), plain);
  EXPECT_NE(hash_of(open_tensors(folder.path / "cut", bytes, n_a - 4)), plain) << "where a tensor ends counts";
}

TEST(ContentHash, NamesShapesAndFormatsCount) {
  const Folder folder;
  ModelFile file = open_tensors(folder.path / "m", std::string(64, 'x'), 32);
  const Hash128 plain = hash_of(file);
  file.tensors[0].name = "c";
  EXPECT_NE(hash_of(file), plain);
  file.tensors[0].name = "a";
  file.tensors[0].shape = {2, 4};
  EXPECT_NE(hash_of(file), plain);
  file.tensors[0].shape = {8};
  file.tensors[0].format = find_weight_format("bf16");
  EXPECT_NE(hash_of(file), plain);
}

// Rows made of two ranges of bytes.
class TwoRanges final : public MadeRows {
 public:
  TwoRanges(std::string kind, std::vector<std::span<const std::byte>> stored)
      : kind_(std::move(kind)), stored_(std::move(stored)) {}
  std::string kind() const override { return kind_; }
  std::vector<std::span<const std::byte>> stored() const override { return stored_; }
  void make(int64_t, int64_t, std::byte*) const override {}

 private:
  std::string kind_;
  std::vector<std::span<const std::byte>> stored_;
};

TEST(ContentHash, OfMadeRowsWhatTheyAreMadeOfCountsAndHow) {
  const Folder folder;
  const auto hash_with = [&](const std::string& bytes, const std::string& kind) {
    ModelFile file = open_tensors(folder.path / "m", bytes, 32);
    const auto all = file.maps[0]->bytes();
    file.tensors[0].data = {};
    file.tensors[0].made = std::make_shared<TwoRanges>(kind, std::vector{all.first(8), all.subspan(16, 8)});
    return hash_of(file, 2);
  };
  std::string bytes(64, 'x');
  const Hash128 plain = hash_with(bytes, "one");
  EXPECT_EQ(hash_with(bytes, "one"), plain);
  EXPECT_NE(hash_with(bytes, "two"), plain);
  bytes[23] = 'y';
  EXPECT_NE(hash_with(bytes, "one"), plain);
}

TEST(ContentHash, ThreadsAndOrderChangeNothing) {
  const Folder folder;
  const ModelFile file = open_tensors(folder.path / "m", std::string(20'000'000, 'z'), 17'000'000);
  const Hash128 plain = hash_of(file, 1);
  EXPECT_EQ(hash_of(file, 3), plain);
  ContentHash other(file, "", 2);
  other.add(file.tensors[1]);
  other.add(file.tensors[0]);
  other.add(file.tensors[1]);
  EXPECT_EQ(other.finish(), plain);
}

TEST(ContentHash, IsRememberedForAFileAsItIs) {
  const Folder folder;
  const ModelFile file = open_tensors(folder.path / "m", std::string(64, 'x'), 32);
  const Hash128 hash{1, 2};
  EXPECT_FALSE(remembered_hash(folder.cache(), file));
  remember_hash(folder.cache(), file, hash, kLater);
  EXPECT_EQ(remembered_hash(folder.cache(), file), hash);
  EXPECT_EQ(ContentHash(file, folder.cache(), 1).finish(), hash) << "what is remembered is not hashed again";
  const ModelFile same_bytes = open_tensors(folder.path / "n", std::string(64, 'x'), 32);
  EXPECT_FALSE(remembered_hash(folder.cache(), same_bytes)) << "another file";
  const ModelFile changed = open_tensors(folder.path / "m", std::string(63, 'x') + "y", 32);
  EXPECT_FALSE(remembered_hash(folder.cache(), changed));
}

TEST(ContentHash, WhatWasJustWrittenIsNotRemembered) {
  const Folder folder;
  const ModelFile file = open_tensors(folder.path / "m", std::string(64, 'x'), 32);
  remember_hash(folder.cache(), file, {1, 2}, file.maps[0]->identity().changed_ns + 1'000'000'000);
  EXPECT_FALSE(remembered_hash(folder.cache(), file));
}

TEST(ContentHash, RemembersABoundedNumberAndPassesOverNonsense) {
  const Folder folder;
  const ModelFile first = open_tensors(folder.path / "first", std::string(64, 'x'), 32);
  remember_hash(folder.cache(), first, {1, 2}, kLater);
  std::ofstream(fs::path(folder.cache()) / "tensor-hashes", std::ios::app) << "nonsense\n"
                                                                           << std::string(65, ' ') << '\n';
  EXPECT_TRUE(remembered_hash(folder.cache(), first));
  for (size_t i = 0; i < kMaxRemembered; ++i) {
    const ModelFile next = open_tensors(folder.path / "next", std::string(64 + 4 * i, 'x'), 32);
    remember_hash(folder.cache(), next, {i, 0}, kLater);
  }
  EXPECT_FALSE(remembered_hash(folder.cache(), first)) << "the oldest is forgotten";
  EXPECT_LT(fs::file_size(fs::path(folder.cache()) / "tensor-hashes"), 66 * kMaxRemembered + 1);
}

TEST(ContentHash, AFolderThatCannotBeWrittenCostsNothingElse) {
  const Folder folder;
  const ModelFile file = open_tensors(folder.path / "m", std::string(64, 'x'), 32);
  std::ofstream(folder.path / "cache") << "a file where the folder should be";
  remember_hash(folder.cache(), file, {1, 2}, kLater);
  EXPECT_FALSE(remembered_hash(folder.cache(), file));
  EXPECT_EQ(ContentHash(file, folder.cache(), 1).finish(), hash_of(file));
}

}  // namespace
}  // namespace quire
