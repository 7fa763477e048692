// What of a device works beside its threads: mbarriers, bulk copies and wgmma do on the emulator what the instructions
// do, and what a device would let pass is told with its line.
#include <gtest/gtest.h>

#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/cuda/emulated/test_kernel.h"
#include "backend/cuda/kernels/math.cuh"

namespace quire {
namespace {

constexpr int kBarriers = 60 << 10, kNumbers = 16384;
constexpr int kA = 0, kB = 16 << 10, kMoreA = 48 << 10;  // places of operands

// As each of 160 threads.
template <class Fn>
Ran run(Fn fn, uint64_t seed = 1) {
  return TestKernel<160, 64 << 10, kNumbers>::run(fn, 1, seed);
}

template <class Fn>
void expect_fault(const std::string& what, Fn fn) {
  for (const uint64_t seed : {0, 1, 2}) {
    const std::string fault = run(fn, seed).fault;
    EXPECT_NE(fault.find(what), std::string::npos) << "got \"" << fault << '"';
    const bool has_line = what.find("deadlock") == std::string::npos && what.find("has ended") == std::string::npos;
    EXPECT_EQ(fault.find("async_test.cc:") == 0, has_line) << fault;
  }
}

const dev::Shared<int32_t> kWords(0);
dev::Shared<uint64_t> barrier(int i) { return dev::Shared<uint64_t>(kBarriers + 8 * i); }

// Thread 128 makes barriers of so many arrivals, which all may use then.
void make_barriers(std::initializer_list<int> arrivals) {
  if (dev::thread() == 128) {
    int i = 0;
    for (const int n : arrivals) dev::barrier_init(barrier(i++), n);
    dev::async_fence();
  }
  dev::sync();
}

// It asks for so many bytes, which the first barrier counts.
void ask(const int32_t* from, int bytes, int to = 0) {
  if (dev::thread() != 128) return;
  dev::barrier_expect(barrier(0), bytes);
  dev::bulk_copy(dev::Shared<int32_t>(to * 4), from, bytes, barrier(0));
}

TEST(BulkCopy, ArrivesBehindAWaitForItsPhase) {
  for (const uint64_t seed : {0, 1, 2}) {
    const Ran ran = run(
        [](int32_t* n) {
          make_barriers({1});
          ask(n + 4, 1024);
          dev::barrier_wait(barrier(0), 0);
          for (int i = dev::thread(); i < 256; i += 160) dev::store(n + 1024 + i, kWords[i]);
          dev::sync();
          ask(n + 8, 512, 64);  // of the next phase
          dev::barrier_wait(barrier(0), 1);
          if (dev::thread() < 128) dev::store(n + 2048 + dev::thread(), kWords[64 + dev::thread()]);
        },
        seed);
    EXPECT_EQ(ran.fault, "");
    for (int i = 0; i < 256; ++i) EXPECT_EQ(ran.numbers[static_cast<size_t>(1024 + i)], i + 4);
    for (int i = 0; i < 128; ++i) EXPECT_EQ(ran.numbers[static_cast<size_t>(2048 + i)], i + 8);
  }
}

// A barrier of a thread's knows what that thread had waited for; so does sync().
TEST(BulkCopy, IsSeenByWhoWaitedForOneWhoDid) {
  const Ran ran = run([](int32_t* n) {
    make_barriers({1, 1});
    ask(n, 64);
    if (dev::thread() == 5) {
      dev::barrier_wait(barrier(0), 0);
      dev::barrier_arrive(barrier(1));
    }
    if (dev::thread() == 40) {
      dev::barrier_wait(barrier(1), 0);
      dev::store(n + 1000, kWords[3]);
    }
    dev::sync();
    if (dev::thread() == 70) dev::store(n + 1001, kWords[4]);
  });
  EXPECT_EQ(ran.fault, "");
  EXPECT_EQ(ran.numbers[1000], 3);
  EXPECT_EQ(ran.numbers[1001], 4);
}

TEST(BulkCopy, ReadsBeforeItsPhaseIsOverAreTold) {
  expect_fault("a copy is under way", [](int32_t* n) {
    make_barriers({1});
    ask(n, 64);
    if (dev::thread() == 128) dev::store(n, kWords[0]);
    dev::barrier_wait(barrier(0), 0);
  });
  expect_fault("this thread has not waited", [](int32_t* n) {
    make_barriers({1});
    ask(n, 64);
    if (dev::thread() == 7) dev::barrier_wait(barrier(0), 0);
    static_cast<void>(dev::shuffle_xor(0U, 1));  // orders nothing
    if (dev::thread() == 3) dev::store(n, kWords[0]);
    dev::barrier_wait(barrier(0), 0);
  });
  // Of a new barrier the phase of parity 1 is over.
  expect_fault("a copy is under way", [](int32_t* n) {
    make_barriers({1});
    ask(n, 64);
    dev::sync();
    dev::barrier_wait(barrier(0), 1);
    dev::store(n + 1000 + dev::thread(), kWords[0]);
  });
}

TEST(BulkCopy, OverWhatAThreadWroteTakesItsFence) {
  const auto overwritten = [](bool has_fence) {
    return [has_fence](int32_t* n) {
      make_barriers({1});
      if (dev::thread() < 16) kWords[dev::thread()] = 1;
      if (has_fence) dev::async_fence();
      dev::sync();
      ask(n, 64);
      dev::barrier_wait(barrier(0), 0);
    };
  };
  EXPECT_EQ(run(overwritten(true)).fault, "");
  expect_fault("no async_fence behind it", overwritten(false));
}

TEST(BulkCopy, BadPlacesAndSizesAreTold) {
  const auto copies = [](int to, int from, int bytes) {
    return [=](int32_t* n) {
      make_barriers({1});
      ask(n + from, bytes, to);
      dev::barrier_wait(barrier(0), 0);
    };
  };
  expect_fault("a bulk copy of 24 bytes", copies(0, 0, 24));
  expect_fault("not aligned to 16 bytes", copies(1, 0, 64));
  expect_fault("misaligned access to device memory", copies(0, 1, 64));
  expect_fault("shared memory has 65536 bytes", copies(16380, 0, 64));
  expect_fault("outside of device memory", copies(0, kNumbers - 8, 64));
  expect_fault("no more than 1048575 bytes", copies(0, 0, 1 << 20));
  expect_fault("the bytes of an mbarrier", copies(kBarriers / 4, 0, 64));
}

TEST(Mbarrier, UsesBeforeItIsThereAreTold) {
  expect_fault("there is no mbarrier here", [](int32_t*) { dev::barrier_arrive(barrier(0)); });
  expect_fault("without async_fence and sync", [](int32_t*) {
    if (dev::thread() == 0) dev::barrier_init(barrier(0), 160);
    dev::sync();
    dev::barrier_arrive(barrier(0));
  });
  expect_fault("without async_fence and sync", [](int32_t*) {
    if (dev::thread() == 0) {
      dev::barrier_init(barrier(0), 160);
      dev::async_fence();
    }
    dev::sync_warp();
    if (dev::thread() == 0) dev::barrier_arrive(barrier(0));
    dev::sync_warp();
    if (dev::thread() == 1) dev::barrier_arrive(barrier(0));
  });
  expect_fault("8 aligned bytes", [](int32_t*) { dev::barrier_init(dev::Shared<uint64_t>(4), 1); });
  expect_fault("the bytes of an mbarrier", [](int32_t* n) {
    make_barriers({1});
    dev::store(n, dev::Shared<int32_t>(kBarriers)[1]);
  });
}

TEST(Mbarrier, PhasesThatCannotEndAreTold) {
  expect_fault("more arrivals", [](int32_t* n) {
    make_barriers({1});
    if (dev::thread() != 128) return;
    dev::barrier_expect(barrier(0), 32);
    dev::barrier_arrive(barrier(0));
    dev::bulk_copy(kWords, n, 32, barrier(0));
  });
  expect_fault("deadlock", [](int32_t* n) {  // more bytes are expected than come
    make_barriers({1});
    if (dev::thread() == 128) {
      dev::barrier_expect(barrier(0), 48);
      dev::bulk_copy(kWords, n, 32, barrier(0));
    }
    dev::barrier_wait(barrier(0), 0);
  });
  expect_fault("deadlock", [](int32_t*) {
    make_barriers({2});
    if (dev::thread() == 128) dev::barrier_arrive(barrier(0));
    dev::barrier_wait(barrier(0), 0);
  });
  expect_fault("has ended while a bulk copy", [](int32_t* n) {
    make_barriers({1});
    ask(n, 64);
  });
}

// ---- wgmma ---------------------------------------------------------------------------------------------------------

uint64_t operand(int at, int stride = 1024, uint64_t swizzle = 1) {
  return static_cast<uint64_t>(at) >> 4 | static_cast<uint64_t>(stride >> 4) << 32 | swizzle << 62;
}

uint32_t bf16(int x) { return dev::as_bits(dev::whole(x)) >> 16; }
int a_number(int row, int k) { return row - 2 * k; }
int b_number(int column, int k) { return column % 16 + k - 60; }

// 64 lines of A and 128 of B, 64 k each, with a 128-byte swizzle, written by the first 128 threads.
void fill(int a = kA, int b = kB) {
  for (int line = dev::thread(); line < 192 && dev::thread() < 128; line += 128) {
    const bool is_a = line < 64;
    const int row = is_a ? line : line - 64, base = (is_a ? a : b) + row * 128;
    for (int k = 0; k < 64; k += 2) {
      const auto number = [&](int at) { return bf16(is_a ? a_number(row, at) : b_number(row, at)); };
      const int piece = (k / 8 ^ row % 8) * 16;
      dev::Shared<uint32_t>(base + piece)[k % 8 / 2] = number(k) | number(k + 1) << 16;
    }
  }
}

// Sums over 64 k, each step of 16 by advancing where operands begin.
void multiply(dev::WgmmaSums& sums, uint64_t a = operand(kA), uint64_t b = operand(kB)) {
  for (int k = 0; k < 4; ++k) dev::wgmma(sums, a + static_cast<uint64_t>(2 * k), b + static_cast<uint64_t>(2 * k));
}

TEST(Wgmma, MultipliesWhatDescriptorsName) {
  const Ran ran = run([](int32_t* n) {
    fill();
    dev::async_fence();
    dev::sync();
    if (dev::thread() >= 128) return;
    dev::WgmmaSums sums[1];
    dev::wgmma_fence();
    multiply(sums[0]);
    dev::wgmma_commit();
    dev::wgmma_wait<0>(sums);
    const int lane = dev::thread() % 32;
    for (int i = 0; i < 64; ++i) {
      const int row = dev::thread() / 32 * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      dev::store(n + row * 128 + column, static_cast<int32_t>(sums[0][i]));
    }
  });
  EXPECT_EQ(ran.fault, "");
  for (int r = 0; r < 64; ++r) {
    for (int c = 0; c < 128; ++c) {
      int32_t sum = 0;
      for (int k = 0; k < 64; ++k) sum += a_number(r, k) * b_number(c, k);
      ASSERT_EQ(ran.numbers[static_cast<size_t>(r * 128 + c)], sum) << r << ' ' << c;
    }
  }
}

// A whole product but for what `Wrong` leaves out or does else.
enum class Wrong : uint8_t { nothing, async_fence, fence, wait, sync, line, operand, half, swizzle, begin, stride };
template <Wrong kWrong>
void product(int32_t* n) {
  fill();
  if (kWrong != Wrong::async_fence) dev::async_fence();
  if (kWrong != Wrong::sync) dev::sync();
  if (dev::thread() >= 128 || (kWrong == Wrong::half && dev::thread() >= 64)) return;
  dev::WgmmaSums sums[1];
  if (kWrong != Wrong::fence) dev::wgmma_fence();
  uint64_t a = operand(kA);
  if (kWrong == Wrong::operand && dev::thread() == 9) a += 2;
  if (kWrong == Wrong::swizzle) a = operand(kA, 1024, 2);
  if (kWrong == Wrong::begin) a = operand(kA + 128);
  if (kWrong == Wrong::stride) a = operand(kA, 1040);
  if (kWrong == Wrong::line && dev::thread() >= 96) {
    dev::wgmma(sums[0], a, operand(kB));
  } else {
    multiply(sums[0], a);
  }
  dev::wgmma_commit();
  if (kWrong == Wrong::wait) {
    dev::wgmma_wait<1>(sums);
  } else {
    dev::wgmma_wait<0>(sums);
  }
  dev::store(n + dev::thread(), static_cast<int32_t>(sums[0][0]));
}

TEST(Wgmma, WhatADeviceWouldLetPassIsTold) {
  EXPECT_EQ(run([](int32_t* n) { product<Wrong::nothing>(n); }).fault, "");
  expect_fault("no async_fence behind it", [](int32_t* n) { product<Wrong::async_fence>(n); });
  expect_fault("no wgmma_fence", [](int32_t* n) { product<Wrong::fence>(n); });
  expect_fault("sums of a wgmma that nobody waited for", [](int32_t* n) { product<Wrong::wait>(n); });
  expect_fault("race with a write", [](int32_t* n) { product<Wrong::sync>(n); });
  expect_fault("different wgmmas", [](int32_t* n) { product<Wrong::line>(n); });
  expect_fault("different operands", [](int32_t* n) { product<Wrong::operand>(n); });
  for (const uint64_t seed : {0, 1, 2, 3}) {  // the others may have left before or may leave then
    const std::string fault = run([](int32_t* n) { product<Wrong::half>(n); }, seed).fault;
    EXPECT_TRUE(fault.find("whole warpgroup") != std::string::npos || fault.find("deadlock") != std::string::npos);
  }
  expect_fault("128-byte swizzle alone", [](int32_t* n) { product<Wrong::swizzle>(n); });
  expect_fault("multiples of 1024", [](int32_t* n) { product<Wrong::begin>(n); });
  expect_fault("multiples of 1024", [](int32_t* n) { product<Wrong::stride>(n); });
  expect_fault("outside of shared memory", [](int32_t*) {
    fill();
    dev::async_fence();
    dev::sync();
    if (dev::thread() >= 128) return;
    dev::WgmmaSums sums;
    dev::wgmma_fence();
    dev::wgmma(sums, operand(kA), operand(63 << 10));
  });
  expect_fault("nobody has written", [](int32_t*) {
    if (dev::thread() >= 128) return;
    dev::WgmmaSums sums;
    dev::wgmma_fence();
    dev::wgmma(sums, operand(kA), operand(kB));
  });
}

// Warps read an operand; then thread 128, or one of them, overwrites it.
enum class Behind : uint8_t { barrier, wait_alone, nothing };
template <Behind kBehind, bool kByCopy>
void overwrite(int32_t* n) {
  fill();
  dev::async_fence();
  make_barriers({1, 4});
  if (dev::thread() < 128) {
    dev::WgmmaSums sums[1];
    dev::wgmma_fence();
    multiply(sums[0]);
    dev::wgmma_commit();
    if (kBehind != Behind::nothing) dev::wgmma_wait<0>(sums);
    if (dev::thread() % 32 == 0) dev::barrier_arrive(barrier(1));
    if (!kByCopy && dev::thread() == 31) kWords[kA / 4] = 1;
    dev::wgmma_wait<0>(sums);
  } else if (kByCopy) {
    if (kBehind != Behind::wait_alone) dev::barrier_wait(barrier(1), 0);
    if (kBehind == Behind::wait_alone) dev::sync_warp();
    ask(n, 1024);
    dev::barrier_wait(barrier(0), 0);
  }
}

TEST(Wgmma, OperandsAreOverwrittenBehindAWaitAlone) {
  // The barrier takes word of the wait to who overwrites.
  for (const uint64_t seed : {0, 1, 2}) {
    const std::string fault = run([](int32_t* n) { overwrite<Behind::barrier, true>(n); }, seed).fault;
    EXPECT_EQ(fault, "");
  }
  expect_fault("a wgmma of warp 0 may be reading", [](int32_t* n) { overwrite<Behind::nothing, true>(n); });
  expect_fault("may be reading", [](int32_t* n) { overwrite<Behind::nothing, false>(n); });
  // Thread 31 knows of its own warp alone.
  expect_fault("a wgmma of warp 1 may be reading", [](int32_t* n) { overwrite<Behind::barrier, false>(n); });
}

// One of the warpgroup has not waited for what all of it multiply.
TEST(Wgmma, ABulkCopyIsWaitedForByTheWholeWarpgroup) {
  const auto copied = [](bool waits) {
    return [waits](int32_t* n) {
      fill();
      dev::async_fence();
      make_barriers({1});
      ask(n, 8192, kMoreA / 4);
      if (dev::thread() >= 128) return dev::barrier_wait(barrier(0), 0);
      if (waits || dev::thread() != 77) dev::barrier_wait(barrier(0), 0);
      dev::WgmmaSums sums[1];
      dev::wgmma_fence();
      multiply(sums[0], operand(kMoreA));
      dev::wgmma_commit();
      dev::wgmma_wait<0>(sums);
    };
  };
  EXPECT_EQ(run(copied(true)).fault, "");
  expect_fault("not all of the warpgroup", copied(false));
}

}  // namespace
}  // namespace quire
