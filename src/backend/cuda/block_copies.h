// Copies of cache blocks between the device and the host's memory, on streams beside the one that computes: bytes go
// through a ring of pinned memory for each direction, of kCopyMarks slots that are taken when one is first wanted.
// Where a ring is full its oldest copy is waited for, and nothing else. Copier (tensor/buffer.h) has the contract; this
// is what it does but for copies within the device. Owner: the engine thread.
#pragma once
#include <array>
#include <memory>

#include "backend/cuda/runtime.h"
#include "tensor/buffer.h"

namespace quire::cuda {

class BlockCopies {
 public:
  static constexpr int64_t kSlotBytes = int64_t{1} << 20;  // larger copies go piece by piece

  explicit BlockCopies(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  BlockCopies(const BlockCopies&) = delete;
  BlockCopies& operator=(const BlockCopies&) = delete;
  ~BlockCopies();

  int64_t read(std::byte* to, const std::byte* from, int64_t bytes);
  int64_t write(std::byte* to, const std::byte* from, int64_t bytes);
  CopyState state(int64_t copy, bool waits);
  // False: all else that was asked of the device is to be waited for before anything is written.
  bool begin_writes();
  // Whether the device's other work may have been told to wait.
  bool reuse(const std::byte* data, int64_t bytes);
  void wait();  // for all that is under way; what was read is there, or has failed
  // Something else that was asked of the device failed: so has all that is under way.
  void give_up();

 private:
  struct Slot {
    std::byte* pinned = nullptr;
    const std::byte* on_device = nullptr;
    std::byte* to = nullptr;  // of the host, where it is read
    int64_t bytes = 0, number = 0;
  };
  // Slots in use are a ring; slot i has mark i.
  struct Direction {
    CopyStream stream;
    std::string_view what;
    std::array<Slot, kCopyMarks> slots{};
    size_t first = 0, n = 0;
    int64_t n_asked = 0, n_done = 0;  // pieces, by number from 1 on
    int64_t sound_from = 1;           // those before failed, or were told to be done
    bool is_failing = false;          // the log says so, and nothing was done since
    Slot& at(size_t i) { return slots[(first + i) % slots.size()]; }
    int mark(size_t i) const { return static_cast<int>((first + i) % slots.size()); }
  };
  static constexpr int64_t kDirections = 2;  // a copy's number: that of its last piece, times that, and its direction

  int64_t copy(Direction& of, std::byte* device, std::byte* host, int64_t bytes);
  Status take_slots(Direction& of);
  Status ask_for(Direction& of, std::byte* device, std::byte* host, int64_t bytes);
  Status take_oldest(Direction& of, bool waits, bool& has_happened);
  void fail(Direction& of, const Status& why);

  const std::shared_ptr<Runtime> runtime_;
  std::array<Direction, kDirections> directions_{
      {{.stream = CopyStream::in, .what = "from the host"}, {.stream = CopyStream::out, .what = "to the host"}}};
};

}  // namespace quire::cuda
