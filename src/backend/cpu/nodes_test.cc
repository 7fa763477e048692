// Where weights come to lie on a machine of several memory nodes, asked of the kernel page by page. `./dev nodes` runs
// this in an emulated machine of two.
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kernels/tables.h"
#include "backend/cpu/pool.h"
#include "base/thread.h"
#include "quant/weight_format.h"

namespace quire {
namespace {

constexpr int64_t kRows = 2048 + 40, kCols = 4096, kPage = 4096;

// The memory node of the page at p, by the system's numbers; -1 where the kernel does not tell.
int system_node_at(const std::byte* p) {
  int node = -1;
  const long rc = syscall(SYS_get_mempolicy, &node, nullptr, 0, p, MPOL_F_NODE | MPOL_F_ADDR);
  return rc == 0 ? node : -1;
}

// The system's numbers of the nodes that n threads sit on, in the order of choose_seats.
std::vector<int> system_nodes(int n) {
  std::vector<int> out;
  for (const int cpu : cpus_for(n)) {
    if (std::find(out.begin(), out.end(), node_of(cpu)) == out.end()) out.push_back(node_of(cpu));
  }
  return out;
}

void expect_weights_at_home(int n_threads, const std::vector<int>& nodes) {
  const WeightFormat& format = *find_weight_format("q8_0");
  const std::vector<std::byte> bytes(static_cast<size_t>(kRows * format.row_bytes(kCols)));
  const HostWeight weight{"w", &format, {kRows, kCols}, bytes};
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = n_threads, .isa = "", .pin = true});
  ASSERT_TRUE(ops);
  EXPECT_NE((*ops)->describe().find("on " + std::to_string(nodes.size()) + " memory nodes"), std::string::npos);
  ASSERT_TRUE(pin_thread(cpus_for(n_threads).front()));  // the caller, to where its seat is
  for (int i = 0; i < 10; ++i) {
    const Linear linear = *(*ops)->load_linear(weight, nullptr, Shard{});
    ASSERT_EQ(linear.w.dim(0), static_cast<int64_t>(nodes.size()));
    int64_t rows_left = kRows;
    for (size_t k = 0; k < nodes.size(); ++k) {
      const std::byte* mine = linear.w.data + static_cast<int64_t>(k) * linear.w.stride[0];
      const int64_t n_rows = std::min(rows_left, linear.w.dim(1) * kPanelRows);
      for (int64_t at = 0; at < n_rows * kCols; at += kPage) ASSERT_EQ(system_node_at(mine + at), nodes[k]) << at;
      rows_left -= n_rows;
    }
    EXPECT_EQ(rows_left, 0);
  }
}

TEST(Nodes, WeightsLieWhereTheirReadersSit) {
  const int n_threads = n_usable_cores();
  const std::vector<int> nodes = system_nodes(n_threads);
  if (nodes.size() < 2) GTEST_SKIP() << "one memory node";
  const std::byte here{1};
  if (system_node_at(&here) < 0) GTEST_SKIP() << "the kernel does not tell where memory lies";
  std::thread([&] { expect_weights_at_home(n_threads, nodes); }).join();  // its pinning ends with it
}

}  // namespace
}  // namespace quire
