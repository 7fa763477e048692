#include "tensor/buffer.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace quire {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kHugePage = 2 * kMiB;

// Of the whole process, as the kernel counts it.
int64_t anonymous_huge_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  int64_t kib = 0;
  while (file >> word) {
    if (word == "AnonHugePages:") file >> kib;
  }
  return kib * 1024;
}

// While it lives the kernel gives this process no 2 MiB pages, whatever is advised.
class NoHugePages {
 public:
  NoHugePages() : refused_(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0) {}
  ~NoHugePages() { prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }
  NoHugePages(const NoHugePages&) = delete;
  NoHugePages& operator=(const NoHugePages&) = delete;
  bool refused() const { return refused_; }

 private:
  bool refused_;
};

Buffer filled(int64_t bytes) {
  Buffer out = *Buffer::allocate(bytes);
  std::memset(out.data(), 1, static_cast<size_t>(bytes));
  return out;
}

TEST(Buffer, IsZeroedAndAlignedWhateverItsSize) {
  for (const int64_t bytes : {int64_t{1}, int64_t{4096}, kHugePage - 1, kHugePage, 5 * kMiB + 3}) {
    const Buffer buffer = *Buffer::allocate(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePage, 0U);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(Buffer, WhatIsSmallerThanAHugePageIsNotAdvised) {
  const Buffer buffer = *Buffer::allocate(kHugePage - 1);
  EXPECT_TRUE(buffer.page_kind() == PageKind::small || buffer.page_kind() == PageKind::huge_explicit);
}

TEST(Buffer, HugeBytesAreTheKernelsCount) {
  const int64_t before = anonymous_huge_bytes();
  std::vector<Buffer> buffers;
  for (const int64_t bytes : {3 * kMiB, 8 * kMiB, 64 * kMiB}) buffers.push_back(filled(bytes));
  int64_t explicit_bytes = 0;
  for (const Buffer& b : buffers) {
    if (b.page_kind() == PageKind::huge_explicit) explicit_bytes += (b.bytes() + kHugePage - 1) / kHugePage * kHugePage;
  }
  EXPECT_EQ(Buffer::huge_bytes(buffers), anonymous_huge_bytes() - before + explicit_bytes);
  EXPECT_EQ(Buffer::huge_bytes(std::span(buffers).first(0)), 0);
}

TEST(Buffer, PagesThatAreNotTouchedAreNotCounted) {
  const Buffer buffer = *Buffer::allocate(64 * kMiB);
  if (buffer.page_kind() == PageKind::huge_explicit) GTEST_SKIP() << "explicit pages are there from the beginning";
  EXPECT_EQ(Buffer::huge_bytes({&buffer, 1}), 0);
  std::memset(buffer.data(), 1, static_cast<size_t>(kHugePage));
  EXPECT_LE(Buffer::huge_bytes({&buffer, 1}), kHugePage);
}

TEST(Buffer, WhereHugePagesAreRefusedSmallOnesDo) {
  const NoHugePages none;
  if (!none.refused()) GTEST_SKIP() << "this kernel cannot be told to refuse them";
  const Buffer buffer = filled(8 * kMiB);
  if (buffer.page_kind() == PageKind::huge_explicit) GTEST_SKIP() << "the system has explicit ones";
  EXPECT_EQ(Buffer::huge_bytes({&buffer, 1}), 0);
  EXPECT_EQ(buffer.data()[8 * kMiB - 1], std::byte{1});
}

TEST(Buffer, TooMuchIsAnErrorWithItsSize) {
  for (const int64_t bytes : {std::numeric_limits<int64_t>::max(), int64_t{1} << 52}) {
    const Result<Buffer> none = Buffer::allocate(bytes);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Code::exhausted);
    EXPECT_NE(none.error().message.find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(Buffer, MovesItsMemory) {
  Buffer a = filled(4096);
  const std::byte* data = a.data();
  Buffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  Buffer c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.bytes(), 4096);
  EXPECT_EQ(c.data()[4095], std::byte{1});
}

// Moved or not, it is given back once.
TEST(Buffer, GivesADevicesMemoryBack) {
  std::byte memory[8];
  int n_given_back = 0;
  {
    Buffer buffer = Buffer::of({memory, [&](std::byte* p) { n_given_back += p == memory ? 1 : 0; }}, 8);
    EXPECT_EQ(buffer.data(), memory);
    EXPECT_EQ(buffer.bytes(), 8);
    const Buffer moved = std::move(buffer);
    EXPECT_EQ(moved.data(), memory);
    EXPECT_EQ(n_given_back, 0);
  }
  EXPECT_EQ(n_given_back, 1);
}

}  // namespace
}  // namespace quire
