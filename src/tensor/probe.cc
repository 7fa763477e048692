#include "tensor/probe.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "tensor/buffer.h"

namespace quire {
namespace {

constexpr int64_t kBytes = int64_t{512} << 20;
constexpr int kPasses = 4;

// Sums whole lines in independent chains; the compiler turns it into vector loads. (Several streams a thread read no
// more with two threads and much less with one: tried.)
uint64_t read_all(const std::byte* data, int64_t bytes) {
  uint64_t sums[8] = {};
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  for (int64_t i = 0; i + 8 <= bytes / 8; i += 8) {
    for (int64_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

}  // namespace

Result<double> probe_read_bandwidth(int n_threads) {
  QR_TRY(const Buffer buffer, Buffer::allocate(kBytes));
  const std::vector<int> cpus = cpus_for(n_threads);
  const auto in_shares = [&](auto&& fn) {
    std::vector<std::thread> threads;
    for (int t = 0; t < n_threads; ++t) {
      const int64_t begin = kBytes / 64 * t / n_threads * 64;
      const int64_t end = kBytes / 64 * (t + 1) / n_threads * 64;
      threads.emplace_back([&, t, begin, end] {
        if (!cpus.empty()) static_cast<void>(pin_thread(cpus[static_cast<size_t>(t)]));
        fn(buffer.data() + begin, end - begin);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  // A share lies on the memory node of the thread that writes it first, which reads it too.
  in_shares([](std::byte* data, int64_t bytes) { std::memset(data, 1, static_cast<size_t>(bytes)); });
  SystemClock clock;
  double best = 0;
  std::atomic<uint64_t> sink{0};
  for (int pass = 0; pass < kPasses; ++pass) {
    const int64_t start = clock.now_ns();
    in_shares([&](const std::byte* data, int64_t bytes) { sink += read_all(data, bytes); });
    best = std::max(best, static_cast<double>(kBytes) / (static_cast<double>(clock.now_ns() - start) * 1e-9));
  }
  return best;
}

}  // namespace quire
