// Runs a kernel's threads on the host, one block after the other, as fibers whose order a seed permutes, and fails on
// what a device would let pass or answer with anything: a word of shared memory that two threads touch, one to write,
// without a barrier, or for a warp's lanes sync_warp, between them; one that nobody has written, or whose copy nobody
// waited for; addresses outside or misaligned; threads at different barriers, or gone before one; a collective without
// its whole warp; waiting for ever. The first such fault, with its line, ends the launch. What it does not see: races
// in device memory, speed. Owner: the thread that launches.
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

enum class Access : uint8_t { read, write };

// A fault of the program, planted through the door: what tests must notice.
struct Mutation {
  enum class Kind : uint8_t { none, no_barrier, no_wait, late_wait, wrong_lane };
  Kind kind = Kind::none;
  int nth = 0;  // of the barriers, or shuffles, by the order in which their lines are met
};

struct Grid {
  int x = 1, y = 1, z = 1;
};

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
  int n_sites() const { return static_cast<int>(sites_.size()); }  // lines with barriers or shuffles met so far

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

 private:
  struct Copy;
  struct Fiber;
  struct Warp;
  struct Word;
  struct Lane;

  void run_block();
  void make_ready();
  bool run_ready(uint64_t order);
  static void begin(void* machine);
  void check_order(Word& word, Access access, const Site& site);
  template <class Do>
  void collective(const Lane& mine, const Site& site, Do what);
  bool is_mutated(Mutation::Kind kind, const Site& site);
  void yield();
  [[noreturn]] void fault(const std::string& what, const Site& site);
  void end_copy(const Copy& copy);

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
