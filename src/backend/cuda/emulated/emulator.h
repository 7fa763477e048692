// Runs a kernel's threads on the host, one block after the other, as fibers whose order a seed permutes, and fails on
// what a device would let pass or answer with anything: a word of shared memory that two threads touch, one to write,
// without a barrier, or for a warp's lanes sync_warp, between them; one that nobody has written, or whose copy nobody
// waited for, or not this thread at its mbarrier; one that is written while a wgmma may read it; sums of a wgmma that
// nobody waited for; addresses outside or misaligned; threads at different barriers, or gone before one; a collective
// without its whole warp; waiting for ever. The first such fault, with its line, ends the launch. What it does not see:
// races in device memory, speed. Owner: the thread that launches.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

namespace quire::emulated {

using Site = std::source_location;

enum class Access : uint8_t { read, write, add };

// A fault of the program, planted through the door: what tests must notice.
struct Mutation {
  // no_wait, late_wait: of copies, and of wgmma. The last five: of mbarriers, no wait, one for the other parity, one at
  // the next barrier; no fence; sums that differ in their last bit.
  enum class Kind : uint8_t {
    none,
    no_barrier,
    no_wait,
    late_wait,
    wrong_lane,
    no_phase_wait,
    wrong_phase,
    wrong_stage,
    no_fence,
    other_sums
  };
  Kind kind = Kind::none;
  int nth = 0;  // of the lines with such calls, by the order in which they are met
};

struct Grid {
  int x = 1, y = 1, z = 1;
};

struct Known;

// Device memory that kernels may touch.
class DeviceMemory {
 public:
  void add(const void* data, int64_t bytes) { ranges_[reinterpret_cast<uintptr_t>(data)] = bytes; }
  void remove(const void* data) { ranges_.erase(reinterpret_cast<uintptr_t>(data)); }
  bool holds(uintptr_t at, int64_t bytes) const;

 private:
  std::map<uintptr_t, int64_t> ranges_;
  mutable uintptr_t begin_ = 0, end_ = 0;  // where the last one was found
  friend class Machine;
};

class Machine {
 public:
  explicit Machine(uint64_t seed, Mutation mutation = {});
  ~Machine();

  // Runs `body(kernel)` as every thread of the grid. What went wrong first, with its line; empty: nothing.
  struct Work {
    void (*body)(const void* kernel);
    const void* kernel;
    Grid grid;
    int n_threads;
    int shared_bytes;
  };
  std::string run(const Work& work, const DeviceMemory& memory);
  int n_sites() const { return static_cast<int>(sites_.size()); }  // lines that a mutation could be at, met so far

  // The door: called by the kernel's threads.
  int thread() const;
  int block(int axis) const { return block_[static_cast<size_t>(axis)]; }
  void sync(const Site& site);
  std::byte* touch_shared(int at, int bytes, Access access, const Site& site);
  void touch_device(const void* p, int64_t bytes, uintptr_t align, const Site& site);
  uint32_t shuffle_xor(uint32_t x, int n, const Site& site);
  void sync_warp(const Site& site);
  void copy(int to, const void* from, int bytes, bool is_in, const Site& site);
  void copy_commit();
  void copy_wait(int n_left);
  void load_matrix(uint32_t (&r)[4], int at, const Site& site);
  void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Site& site);
  void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Site& site);
  // Of the asynchronous parts (async.cc); `at`: the address of an mbarrier.
  void barrier_init(int at, int n, const Site& site);
  void barrier_arrive(int at, int bytes, const Site& site);
  void barrier_wait(int at, int parity, const Site& site);
  void bulk_copy(int to, const void* from, int bytes, int at, const Site& site);
  void async_fence(const Site& site);
  void wgmma_fence(const Site& site);
  void wgmma_commit();
  void wgmma_wait(int n_left);
  int wgmma_fences();  // that this thread has made
  // d += a · b as m64n128k16; `fences`: those of this thread when d was made. The number of this wgmma.
  int wgmma(float (&d)[64], int fences, uint64_t a, uint64_t b, const Site& site);
  void read_sums(int wgmma, const Site& site);

 private:
  struct Copy;
  struct Fiber;
  struct Warp;
  struct Word;
  struct Lane;
  struct Async;

  void run_block();
  void make_ready();
  bool run_ready(uint64_t order);
  static void begin(void* machine);
  void check_order(size_t word, Access access, const Site& site);
  template <class Do>
  void collective(const Lane& mine, const Site& site, Do what);
  bool is_mutated(Mutation::Kind kind, const Site& site);
  void yield();
  [[noreturn]] void fault(const std::string& what, const Site& site);
  void end_copy(const Copy& copy);
  Async& async();
  void check_async(size_t word, Access access, const Site& site);
  void check_wgmma_reads(size_t word, const Site& site);
  size_t barrier_at(int at, const Site& site);
  void end_phase(size_t barrier);
  bool end_bulk_copies(uint64_t order);
  bool has_bulk_copies() const;
  void share_known(int first, int n);
  void check_fenced(size_t word, const Site& site);
  void read_by_wgmma(int at, const Known& least, const Site& site);
  void multiply(size_t group, const Site& site);

  uint64_t seed_, round_ = 0;
  Mutation mutation_;
  std::vector<std::string> sites_;
  const Work* work_ = nullptr;
  const DeviceMemory* memory_ = nullptr;
  std::array<int, 3> block_{};
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<std::byte> shared_;
  std::vector<Word> words_;
  std::unique_ptr<Async> async_;  // null: nothing of the block is
  Fiber* now_ = nullptr;
  void* main_ = nullptr;  // context of run_ready
  int epoch_ = 1;         // barriers passed
  int n_waiting_ = 0, n_live_ = 0;
  Site barrier_;
  std::string fault_;
};

// The one whose kernel this thread runs.
Machine& machine();

}  // namespace quire::emulated
