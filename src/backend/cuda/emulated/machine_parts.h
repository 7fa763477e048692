// What the emulator keeps of a block that runs; of its own files alone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/emulated/emulator.h"

namespace quire::emulated {

inline constexpr int kLanes = 32, kWarpsOfGroup = 4, kGroupThreads = kLanes * kWarpsOfGroup;
inline constexpr size_t kMostWarps = 32, kMostBarriers = 32, kMostGroups = kMostWarps / kWarpsOfGroup;

inline std::string at_line(const Site& site) {
  const std::string file = site.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line());
}

struct Machine::Copy {
  int to;
  const void* from;
  int bytes;
  bool is_in;
};

struct Machine::Fiber {
  enum class State : uint8_t { ready, at_warp, at_barrier, at_phase, done };
  State state = State::ready;
  int thread = 0, warp = 0, lane = 0;
  void* context = nullptr;
  std::unique_ptr<std::byte[]> stack;
  std::vector<Copy> open;                    // since the last commit
  std::vector<std::vector<Copy>> committed;  // the oldest first
};

// What a lane brings to a collective, and where its result goes.
struct Machine::Lane {
  uint32_t value = 0;
  int at = 0;
  uint32_t* r = nullptr;
  int32_t* d = nullptr;
  float* sums = nullptr;
  const uint32_t *a = nullptr, *b = nullptr;
};

struct Machine::Warp {
  int n_arrived = 0, n_live = kLanes;
  int epoch = 1;  // collectives and barriers passed
  Site site;
  std::array<Lane, kLanes> lanes;
};

// Who touched a word of shared memory last.
struct Machine::Word {
  enum : int { nobody = -1, bulk_copy = -2, barrier = -3 };  // in place of a thread that writes
  struct By {
    int thread = nobody, epoch = 0, warp_epoch = 0;
    bool many = false, far = false;  // more than one thread of this epoch, more than one warp
  };
  By writer, reader, adder;  // since it was written
  bool is_pending = false;   // a copy to it is under way
};

// What a thread knows to be over: of each mbarrier so many phases, of each warp so many wgmmas.
struct Known {
  std::array<int, kMostBarriers> phases{};
  std::array<int, kMostWarps> wgmmas{};
  void join(const Known& other);
  void meet(const Known& other);  // what both know
};

// Of a block that has mbarriers or wgmma: who may see what the asynchronous parts of a machine read and write.
struct Machine::Async {
  struct BulkCopy {
    int to;
    const void* from;
    int bytes;
  };
  struct Barrier {
    int at = 0, n = 0;                      // arrivals of a phase
    int n_left = 0;                         // of the phase under way
    int64_t bytes = 0;                      // that it waits for, less those that arrived
    int phase = 0;                          // so many are over
    int thread = 0, fences = 0, epoch = 0;  // who made it, and when
    Known arriving = {}, over = {};         // what those who arrived knew
    std::vector<BulkCopy> copies = {};
  };
  struct Thread {
    Known known;
    int n_fences = 0, n_wgmma_fences = 0;
    int n_issued = 0, n_over = 0;  // wgmmas
    std::vector<int> committed;    // the last of each commit
    int waits_for = -1;            // a barrier
  };
  struct Use {                                  // of a word
    int barrier = -1, phase = 0;                // of the bulk copy that wrote it
    int fences = 0;                             // that the thread which wrote it had made before
    std::array<int, kMostGroups> read_by = {};  // the last wgmma of each warpgroup that reads it
  };
  struct Group {
    int n_arrived = 0;
    Site site;
    uint64_t a = 0, b = 0;
    std::array<float*, kGroupThreads> sums;
  };
  std::vector<Barrier> barriers;
  std::vector<Thread> threads;
  std::vector<Use> words;
  std::vector<Group> groups;
};

}  // namespace quire::emulated
