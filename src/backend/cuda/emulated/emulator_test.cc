// Every function of the door does on the emulator what an instruction does, and everything that a device would let pass
// is told with its line.
#include <gtest/gtest.h>

#include <array>

#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/cuda/emulated/test_kernel.h"
#include "backend/cuda/kernels/math.cuh"

namespace quire {
namespace {

using cuda::Place;

template <class Fn>
using Kernel = TestKernel<64, 4096, 4096>::Kernel<Fn>;

// As each of 64 threads of 2 blocks.
template <class Fn>
Ran run(Fn fn, uint64_t seed = 1) {
  return TestKernel<64, 4096, 4096>::run(fn, 2, seed);
}

int global_thread() { return dev::block_x() * 64 + dev::thread(); }

TEST(Door, EveryThreadOfEveryBlockRuns) {
  for (const uint64_t seed : {0, 1, 2}) {
    const Ran ran = run([](int32_t* n) { dev::store(n + global_thread(), 7 * global_thread()); }, seed);
    EXPECT_EQ(ran.fault, "");
    for (int i = 0; i < 128; ++i) EXPECT_EQ(ran.numbers[static_cast<size_t>(i)], 7 * i);
  }
}

TEST(Door, SharedMemoryBehindABarrier) {
  const Ran ran = run([](int32_t* n) {
    const dev::Shared<int32_t> s(16);
    s[dev::thread()] = dev::thread();
    dev::sync();
    dev::store(n + global_thread(), s[63 - dev::thread()]);
  });
  EXPECT_EQ(ran.fault, "");
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(ran.numbers[i], 63 - static_cast<int>(i) % 64);
}

TEST(Door, AllThreadsAddToOneWord) {
  const Ran ran = run([](int32_t* n) {
    const dev::Shared<uint32_t> s(16);
    if (dev::thread() == 0) s[1] = 5;
    dev::sync();
    const uint32_t before = dev::add_to(s, 1, 2);  // 5, 7, 9 … in some order
    dev::store(n + 64 * dev::block_x() + static_cast<int>(before - 5) / 2, 1000);
    dev::sync();
    dev::store(n + 128 + global_thread(), static_cast<int32_t>(s[1]));
  });
  EXPECT_EQ(ran.fault, "");
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(ran.numbers[i], 1000);
    EXPECT_EQ(ran.numbers[128 + i], 5 + 2 * 64);
  }
}

TEST(Door, ShuffleTakesOfTheOtherLane) {
  const Ran ran = run([](int32_t* n) {
    const uint32_t got = dev::shuffle_xor(static_cast<uint32_t>(dev::thread()), 5);
    dev::store(n + global_thread(), static_cast<int32_t>(got));
  });
  EXPECT_EQ(ran.fault, "");
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(ran.numbers[i], static_cast<int>(i) ^ 5);
}

TEST(Door, CopiesArriveBehindTheirWaitAndZerosWhereNothingIsIn) {
  const Ran ran = run([](int32_t* n) {
    const dev::Shared<int32_t> s(0);
    const int t = dev::thread();
    dev::copy16(s, 4 * t, n + 4 * t, t % 2 == 0);
    dev::copy_commit();
    dev::copy_wait<0>();
    dev::sync();
    for (int i = 0; i < 4; ++i) dev::store(n + 1024 + 4 * t + i, s[(4 * t + i) ^ 8]);
  });
  EXPECT_EQ(ran.fault, "");
  for (int i = 0; i < 256; ++i) {
    const int from = i ^ 8;
    EXPECT_EQ(ran.numbers[static_cast<size_t>(1024 + i)], from / 4 % 2 == 0 ? from : 0) << i;
  }
}

TEST(Door, CopiesOfFourBytesToo) {
  const Ran ran = run([](int32_t* n) {
    const dev::Shared<int32_t> s(0);
    const int t = dev::fresh(dev::thread());
    dev::copy4(s, t, n + (t ^ 3), t % 4 != 1);
    dev::copy_commit();
    dev::copy_wait<0>();
    dev::sync();
    dev::store(n + 1024 + t, s[t ^ 8]);
  });
  EXPECT_EQ(ran.fault, "");
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(ran.numbers[static_cast<size_t>(1024 + i)], i % 4 == 1 ? 0 : i ^ 11) << i;
  }
}

// A matrix of 16 × 32 and one of 8 × 32, byte (r, k) = r + k and r − k, multiplied by a warp.
TEST(Door, MatricesAreMultiplied) {
  const Ran ran = run([](int32_t* n) {
    const dev::Shared<int8_t> s(0);
    for (int i = dev::thread(); i < 24 * 8; i += 64) {
      std::array<int8_t, 4> bytes;
      for (int b = 0; b < 4; ++b) {
        const int r = i / 8, k = i % 8 * 4 + b;
        bytes[static_cast<size_t>(b)] = static_cast<int8_t>(r < 16 ? r + k : r - 16 - k);
      }
      dev::Shared<int32_t>(0)[i] = std::bit_cast<int32_t>(bytes);
    }
    dev::sync();
    if (dev::thread() >= 32) return;
    const int lane = dev::thread();
    uint32_t a[4], b[4];
    dev::load_matrix(a, s, lane % 16 * 32 + lane / 16 * 16);
    dev::load_matrix(b, s, 16 * 32 + lane % 8 * 32 + lane / 8 % 2 * 16);
    int32_t d[4] = {1000, 1000, 1000, 1000};
    const uint32_t two[2] = {b[0], b[1]};
    dev::mma_s8(d, a, two);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      dev::store(n + row * 8 + column, d[i]);
    }
  });
  EXPECT_EQ(ran.fault, "");
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 8; ++c) {
      int32_t sum = 1000;
      for (int k = 0; k < 32; ++k) sum += (r + k) * (c - k);
      EXPECT_EQ(ran.numbers[static_cast<size_t>(r * 8 + c)], sum) << r << ' ' << c;
    }
  }
}

// The first 16 columns alone.
TEST(Door, NarrowMatricesAreMultiplied) {
  const Ran ran = run([](int32_t* n) {
    if (dev::thread() >= 32) return;
    const int lane = dev::thread();
    const auto word = [&](int row, int sign) {
      uint32_t bytes = 0;
      for (int i = 0; i < 4; ++i) bytes |= static_cast<uint32_t>((row + sign * (lane % 4 * 4 + i)) & 0xff) << (8 * i);
      return bytes;
    };
    const uint32_t a[2] = {word(lane / 4, 1), word(lane / 4 + 8, 1)}, b[1] = {word(lane / 4, -1)};
    int32_t d[4] = {};
    dev::mma_s8(d, a, b);
    for (int i = 0; i < 4; ++i) dev::store(n + (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2, d[i]);
  });
  EXPECT_EQ(ran.fault, "");
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 8; ++c) {
      int32_t sum = 0;
      for (int k = 0; k < 16; ++k) sum += (r + k) * (c - k);
      EXPECT_EQ(ran.numbers[static_cast<size_t>(r * 8 + c)], sum) << r << ' ' << c;
    }
  }
}

// 16 × 16 and 16 × 8 of whole numbers as bf16, their sums exact floats: A(r, k) = r + k, B(k, c) = c − k.
TEST(Door, MatricesOfBf16AreMultiplied) {
  const Ran ran = run([](int32_t* n) {
    if (dev::thread() >= 32) return;
    const int lane = dev::thread(), row = lane / 4, k = lane % 4 * 2;
    const auto bf16 = [](int x) { return dev::as_bits(dev::whole(x)) >> 16; };
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; ++i) {
      const int first = row + i % 2 * 8 + k + i / 2 * 8;
      a[i] = bf16(first) | bf16(first + 1) << 16;
    }
    for (int i = 0; i < 2; ++i) b[i] = bf16(row - (k + i * 8)) | bf16(row - (k + i * 8 + 1)) << 16;
    float d[4] = {1000, 1000, 1000, 1000};
    dev::mma_bf16(d, a, b);
    for (int i = 0; i < 4; ++i) dev::store(n + (row + i / 2 * 8) * 8 + k + i % 2, static_cast<int32_t>(d[i]));
  });
  EXPECT_EQ(ran.fault, "");
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 8; ++c) {
      int32_t sum = 1000;
      for (int k = 0; k < 16; ++k) sum += (r + k) * (c - k);
      EXPECT_EQ(ran.numbers[static_cast<size_t>(r * 8 + c)], sum) << r << ' ' << c;
    }
  }
}

TEST(Door, BytesArePicked) {
  EXPECT_EQ(dev::pick_bytes(0x33221100U, 0x77665544U, 0x7042U), 0x77004422U);
  EXPECT_EQ(dev::pick_bytes(0x33221100U, 0x77665544U, 0x3210U), 0x33221100U);
}

TEST(Door, NumbersAreRoundedOnce) {
  const float a = 1.0F + 0x1p-12F;
  EXPECT_EQ(dev::fma(a, a, -1.0F), 0x1p-11F + 0x1p-24F);
  EXPECT_EQ(dev::sub(dev::mul(a, a), 1.0F), 0x1p-11F);
  EXPECT_EQ(dev::add(0x1p24F, 1.0F), 0x1p24F);
  EXPECT_EQ(dev::div(1.0F, 3.0F), 0x1.555556p-2F);
  EXPECT_EQ(dev::root(2.0F), 0x1.6a09e6p0F);
  EXPECT_EQ(dev::to_float(dev::to_half(1.0F + 0x1p-11F)), 1.0F);
  EXPECT_EQ(dev::to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(dev::as_float(dev::as_bits(-0.0F) & 0x7fffffffU), 0.0F);
  EXPECT_EQ(dev::whole(-7), -7.0F);
  EXPECT_EQ(dev::add(dev::widened(0x1p-24F), 1.0), 0x1.000001p0);
  EXPECT_EQ(dev::mul(dev::widened(0x1.000002p0F), 0x1.000002p0), 0x1.000004000004p0);
  EXPECT_EQ(dev::as_double(0x9abcdef0U, 0x3ff12345U), 0x1.123459abcdefp0);
  EXPECT_EQ(dev::widened((uint64_t{1} << 60) + 129), 0x1p60 + 256);
  EXPECT_EQ(dev::widened((uint64_t{1} << 60) + 128), 0x1p60);
  EXPECT_EQ(dev::narrowed(1.0 + 0x1p-24), 1.0F);
  EXPECT_EQ(dev::narrowed(1.0 + 0x1.8p-24), 1.0F + 0x1p-23F);
  EXPECT_EQ(dev::truncated(0x1p60 + 0x1p20), (uint64_t{1} << 60) + (1 << 20));
  EXPECT_EQ(dev::truncated(6.99), 6U);
}

// The fault of a kernel; it names this file.
template <class Fn>
void expect_fault(const std::string& what, Fn fn) {
  const std::string fault = run(fn).fault;
  EXPECT_NE(fault.find(what), std::string::npos) << "got \"" << fault << '"';
  if (what.find("deadlock") == std::string::npos) {
    EXPECT_EQ(fault.find("emulator_test.cc:"), 0U) << fault;
  }
}

TEST(Emulator, TellsRaces) {
  expect_fault("race with a ", [](int32_t* n) {
    const dev::Shared<int32_t> s(0);
    s[dev::thread()] = 0;
    dev::sync();
    s[dev::thread()] = 1;
    dev::store(n, s[dev::thread() ^ 1]);
  });
  expect_fault("race with a read", [](int32_t*) {
    const dev::Shared<int32_t> s(0);
    if (dev::thread() == 0) s[0] = 1;
    dev::sync();
    const int32_t seen = s[0];
    if (dev::thread() == 40) s[0] = seen + 1;
  });
  expect_fault("race with a write", [](int32_t*) {
    const dev::Shared<int32_t> s(0);
    s[0] = dev::thread();
  });
}

// Additions are ordered among themselves and with nothing else.
TEST(Emulator, TellsRacesWithAdditions) {
  expect_fault("race with an addition", [](int32_t* n) {
    const dev::Shared<uint32_t> s(0);
    if (dev::thread() == 0) s[0] = 0;
    dev::sync();
    dev::add_to(s, 0, 1);
    if (dev::thread() == 63) dev::store(n, static_cast<int32_t>(s[0]));  // its own is not the only one
    dev::sync();
  });
  expect_fault("race with an addition", [](int32_t*) {
    const dev::Shared<uint32_t> s(0);
    if (dev::thread() == 0) s[0] = 0;
    dev::sync();
    if (dev::thread() > 0) dev::add_to(s, 0, 1);
    dev::sync_warp();
    if (dev::thread() == 0) s[0] = 0;
  });
  expect_fault("race with a", [](int32_t*) {
    const dev::Shared<uint32_t> s(0);
    s[dev::thread()] = 0;
    dev::sync();
    s[dev::thread()] = 1;
    dev::add_to(s, dev::thread() ^ 1, 1);
  });
  expect_fault("race with a", [](int32_t* n) {
    const dev::Shared<uint32_t> s(0);
    s[dev::thread()] = 0;
    dev::sync();
    dev::store(n, static_cast<int32_t>(s[dev::thread()]));
    dev::add_to(s, dev::thread() ^ 1, 1);
  });
  expect_fault("nobody has written", [](int32_t*) { dev::add_to(dev::Shared<uint32_t>(0), dev::thread(), 1); });
}

// sync_warp orders a warp's lanes, not those of other warps; a shuffle orders nothing.
template <int kApart, bool kSyncs = true>
void pass_on(int32_t* n) {
  const dev::Shared<int32_t> s(0);
  s[dev::thread()] = 0;
  dev::sync();
  s[dev::thread()] = dev::thread();
  static_cast<void>(dev::shuffle_xor(0U, 1));
  if constexpr (kSyncs) dev::sync_warp();
  dev::store(n + global_thread(), s[dev::thread() ^ kApart]);
}
TEST(Emulator, KnowsWhatAWarpOrders) {
  EXPECT_EQ(run([](int32_t* n) { pass_on<1>(n); }).fault, "");
  expect_fault("race with a ", [](int32_t* n) { pass_on<32>(n); });
  expect_fault("race with a ", [](int32_t* n) { pass_on<1, false>(n); });
}

TEST(Emulator, TellsWhatNobodyWroteOrWaitedFor) {
  expect_fault("nobody has written", [](int32_t* n) { dev::store(n, dev::Shared<int32_t>(0)[dev::thread()]); });
  expect_fault("nobody waited for", [](int32_t* n) {
    const dev::Shared<int32_t> s(0);
    dev::copy16(s, 4 * dev::thread(), n, true);
    dev::copy_commit();
    dev::store(n, s[4 * dev::thread()]);
  });
}

TEST(Emulator, TellsBadAddresses) {
  expect_fault("shared memory has 4096 bytes", [](int32_t*) { dev::Shared<int32_t>(0)[1024] = 1; });
  expect_fault("misaligned access to shared", [](int32_t*) { dev::Shared<int32_t>(2)[dev::thread()] = 1; });
  expect_fault("outside of device memory", [](int32_t* n) { dev::store(n + 4096, 1); });
  expect_fault("outside of device memory", [](int32_t* n) { static_cast<void>(dev::load(n - 1)); });
  expect_fault("misaligned access to device", [](int32_t* n) {
    static_cast<void>(dev::load(reinterpret_cast<int32_t*>(reinterpret_cast<char*>(n) + 2)));
  });
}

TEST(Emulator, TellsThreadsThatDoNotMeet) {
  expect_fault("different barriers", [](int32_t*) {
    if (dev::thread() < 32) dev::sync();
    if (dev::thread() >= 32) dev::sync();
  });
  expect_fault("after a thread has returned", [](int32_t*) {
    if (dev::thread() < 32) return;
    for (int i = 0; i < 2; ++i) static_cast<void>(dev::shuffle_xor(0U, 1));
    dev::sync();
  });
  expect_fault("without its whole warp", [](int32_t*) {
    if (dev::thread() % 32 == 5) return;
    static_cast<void>(dev::shuffle_xor(0U, 1));
    static_cast<void>(dev::shuffle_xor(0U, 1));
  });
  expect_fault("deadlock", [](int32_t*) {
    if (dev::thread() % 32 < 16) {
      dev::sync();
    } else {
      static_cast<void>(dev::shuffle_xor(0U, 1));
    }
  });
}

TEST(FakeRuntime, WorkRunsWhenAWaitForcesIt) {
  const auto runtime = cuda::make_fake_runtime({});
  auto* at = *runtime->allocate(8, Place::device);
  auto* shared = *runtime->allocate(8, Place::shared);
  int64_t source = 1;
  runtime->upload(at, &source, 8);
  source = 2;  // too early: the upload has not been made
  runtime->wait();
  const auto copy = [](const std::byte* from, std::byte* to) {
    return Kernel{[from, to](int32_t*) {
                    dev::store(reinterpret_cast<int64_t*>(to), dev::load(reinterpret_cast<const int64_t*>(from)));
                  },
                  static_cast<int32_t*>(nullptr)};
  };
  runtime->launch(cuda::unnamed_launch(copy(at, shared), {}));
  runtime->wait();
  EXPECT_EQ(*reinterpret_cast<int64_t*>(shared), 2);
}

TEST(FakeRuntimeDeathTest, MemoryIsOutOfTheHostsReach) {
  const auto runtime = cuda::make_fake_runtime({});
  auto* device = *runtime->allocate(8, Place::device);
  auto* shared = *runtime->allocate(8, Place::shared);
  const int64_t source = 1;
  EXPECT_DEATH(*device = std::byte{1}, "");
  *shared = std::byte{1};
  runtime->upload(device, &source, 8);
  EXPECT_DEATH(*shared = std::byte{1}, "");
  runtime->wait();
  *shared = std::byte{1};
}

TEST(FakeRuntime, MemoryEndsWhereItIsSaid) {
  const auto runtime = cuda::make_fake_runtime({.bytes = 8192});
  auto* first = *runtime->allocate(4096, Place::device);
  const auto refused = runtime->allocate(5000, Place::shared);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_EQ(refused.error().message, "cannot allocate 5000 bytes on the device, 4096 are left");
  runtime->release(first);
  EXPECT_TRUE(runtime->allocate(5000, Place::shared));
}

}  // namespace
}  // namespace quire
