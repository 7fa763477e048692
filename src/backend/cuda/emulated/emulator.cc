#include "backend/cuda/emulated/emulator.h"

#include <algorithm>
#include <bit>
#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "backend/cuda/emulated/machine_parts.h"
#include "backend/cuda/emulated/tensor_core.h"
#include "base/check.h"

namespace quire::emulated {
namespace context = boost::context::detail;

namespace {

constexpr size_t kStackBytes = 64 << 10;

thread_local Machine* g_machine = nullptr;

uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return x ^ x >> 31;
}

}  // namespace

Machine& machine() { return *g_machine; }

bool DeviceMemory::holds(uintptr_t at, int64_t bytes) const {
  const auto end = at + static_cast<uintptr_t>(bytes);
  if (at >= begin_ && end <= end_) return true;
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return false;
  --range;
  if (end > range->first + static_cast<uintptr_t>(range->second)) return false;
  begin_ = range->first;
  end_ = range->first + static_cast<uintptr_t>(range->second);
  return true;
}

Machine::Machine(uint64_t seed, Mutation mutation) : seed_(seed), mutation_(mutation) {}
Machine::~Machine() = default;

std::string Machine::run(const Work& work, const DeviceMemory& memory) {
  QR_CHECK(work.n_threads % kLanes == 0);
  memory.begin_ = memory.end_ = 0;  // a range may be gone since
  work_ = &work;
  memory_ = &memory;
  fault_.clear();
  shared_.resize(static_cast<size_t>(work.shared_bytes));
  Machine* outer = std::exchange(g_machine, this);
  const int64_t n = int64_t{work.grid.x} * work.grid.y * work.grid.z;
  // Blocks by a step that meets each of them once.
  int64_t step = seed_ == 0 ? 1 : static_cast<int64_t>(mixed(seed_) % static_cast<uint64_t>(n)) + 1;
  while (std::gcd(step, n) != 1) ++step;
  for (int64_t i = 0; i < n && fault_.empty(); ++i) {
    const int64_t b = i * step % n;
    block_ = {static_cast<int>(b % work.grid.x), static_cast<int>(b / work.grid.x % work.grid.y),
              static_cast<int>(b / work.grid.x / work.grid.y)};
    run_block();
  }
  g_machine = outer;
  return fault_;
}

void Machine::run_block() {
  make_ready();
  while (n_live_ > 0 && fault_.empty()) {
    const uint64_t order = seed_ == 0 ? 0 : mixed(seed_ + ++round_);
    if (run_ready(order) || !fault_.empty() || end_bulk_copies(order)) continue;
    fault_ = "threads wait for others that never come (deadlock)";
  }
  if (fault_.empty() && has_bulk_copies()) fault_ = "a block has ended while a bulk copy was under way";
}

void Machine::make_ready() {
  const auto n = static_cast<size_t>(work_->n_threads);
  warps_.assign(n / kLanes, Warp());
  async_.reset();
  if (fibers_.size() < n) fibers_.resize(n);
  words_.assign(shared_.size() / 4 + 1, Word());
  std::ranges::fill(shared_, std::byte{0xff});
  n_live_ = work_->n_threads;
  n_waiting_ = 0;
  ++epoch_;
  for (int t = 0; t < work_->n_threads; ++t) {
    Fiber& fiber = fibers_[static_cast<size_t>(t)];
    if (!fiber.stack) fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    fiber.thread = t;
    fiber.warp = t / kLanes;
    fiber.lane = t % kLanes;
    fiber.state = Fiber::State::ready;
    fiber.open.clear();
    fiber.committed.clear();
    fiber.context = context::make_fcontext(fiber.stack.get() + kStackBytes, kStackBytes, [](context::transfer_t from) {
      auto* self = static_cast<Machine*>(from.data);
      self->main_ = from.fctx;
      begin(self);
    });
  }
}

void Machine::begin(void* self) {
  auto& machine = *static_cast<Machine*>(self);
  machine.work_->body(machine.work_->kernel);
  Fiber& mine = *machine.now_;
  mine.state = Fiber::State::done;
  --machine.n_live_;
  --machine.warps_[static_cast<size_t>(mine.warp)].n_live;
  machine.yield();
  std::abort();  // nobody resumes one that is done
}

// Every warp in turn, from one that `order` names, its lanes by `order` too. False: nobody could go on.
bool Machine::run_ready(uint64_t order) {
  bool any = false;
  const size_t n = warps_.size();
  const auto flip = static_cast<size_t>(order >> 20 & (kLanes - 1));
  for (size_t i = 0; i < n; ++i) {
    const size_t first = (i + order % n) % n * kLanes;
    for (bool ran = true; ran;) {
      ran = false;
      for (size_t l = 0; l < kLanes; ++l) {
        Fiber& fiber = fibers_[first + (l ^ flip)];
        if (fiber.state != Fiber::State::ready) continue;
        now_ = &fiber;
        fiber.context = context::jump_fcontext(fiber.context, this).fctx;
        if (!fault_.empty()) return false;
        ran = any = true;
      }
    }
  }
  return any;
}

void Machine::yield() { main_ = context::jump_fcontext(main_, this).fctx; }

// The block's other threads are left where they are: kernels hold nothing that has to be given back.
void Machine::fault(const std::string& what, const Site& site) {
  fault_ = at_line(site) + ": " + what + " (thread " + std::to_string(now_->thread) + ", block " +
           std::to_string(block_[0]) + "," + std::to_string(block_[1]) + "," + std::to_string(block_[2]) + ")";
  yield();
  std::abort();
}

int Machine::thread() const { return now_->thread; }

bool Machine::is_mutated(Mutation::Kind kind, const Site& site) {
  if (mutation_.kind != kind) return false;
  const std::string line = at_line(site);
  const auto found = std::ranges::find(sites_, line);
  const auto nth = static_cast<int>(found - sites_.begin());
  if (found == sites_.end()) sites_.push_back(line);
  return nth == mutation_.nth;
}

void Machine::sync(const Site& site) {
  if (is_mutated(Mutation::Kind::no_barrier, site)) return;
  if (n_live_ != work_->n_threads) fault("a barrier after a thread has returned", site);
  if (n_waiting_ == 0) barrier_ = site;
  if (barrier_.line() != site.line()) fault("threads wait at different barriers, some at " + at_line(barrier_), site);
  now_->state = Fiber::State::at_barrier;
  if (++n_waiting_ == n_live_) {
    n_waiting_ = 0;
    ++epoch_;
    for (Warp& warp : warps_) ++warp.epoch;
    share_known(0, work_->n_threads);
    for (Fiber& fiber : fibers_) fiber.state = Fiber::State::ready;
  }
  yield();
}

std::byte* Machine::touch_shared(int at, int bytes, Access access, const Site& site) {
  if (at < 0 || at + bytes > work_->shared_bytes) {
    fault("shared memory has " + std::to_string(work_->shared_bytes) + " bytes, not " + std::to_string(at), site);
  }
  if (at % bytes != 0) fault("misaligned access to shared memory at " + std::to_string(at), site);
  for (int w = at / 4; w <= (at + bytes - 1) / 4; ++w) check_order(static_cast<size_t>(w), access, site);
  return shared_.data() + at;
}

void Machine::check_order(size_t w, Access access, const Site& site) {
  Word& word = words_[w];
  const int mine = now_->thread;
  const int warp_epoch = warps_[static_cast<size_t>(now_->warp)].epoch;
  const auto is_ordered = [&](const Word::By& by) {
    if (by.thread < 0 || by.epoch != epoch_ || (by.thread == mine && !by.many)) return true;
    return !by.far && by.thread / kLanes == now_->warp && by.warp_epoch != warp_epoch;
  };
  const auto joined = [&](const Word::By& by) {
    const bool is_now = by.thread >= 0 && by.epoch == epoch_;
    return Word::By{mine, epoch_, warp_epoch, is_now && (by.many || by.thread != mine),
                    is_now && (by.far || by.thread / kLanes != now_->warp)};
  };
  const auto race_with = [&](const char* what, const Word::By& by) {
    fault(std::string("race with ") + what + " of thread " + std::to_string(by.thread), site);
  };
  if (word.is_pending) fault("a copy is under way that nobody waited for", site);
  if (async_) check_async(w, access, site);
  if (!is_ordered(word.writer)) race_with("a write", word.writer);
  if (access != Access::add && !is_ordered(word.adder)) race_with("an addition", word.adder);
  if (access != Access::read && !is_ordered(word.reader)) race_with("a read", word.reader);
  if (access == Access::write) {
    word = Word();
    word.writer = {mine, epoch_, warp_epoch};
    return;
  }
  if (word.writer.thread == Word::nobody) fault("nobody has written this word of shared memory", site);
  Word::By& by = access == Access::read ? word.reader : word.adder;
  by = joined(by);
}

void Machine::touch_device(const void* p, int64_t bytes, uintptr_t align, const Site& site) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  if (at % align != 0) fault("misaligned access to device memory", site);
  if (!memory_->holds(at, bytes)) fault("an address outside of device memory", site);
}

void Machine::copy(int to, const void* from, int bytes, bool is_in, const Site& site) {
  if (is_in) touch_device(from, bytes, static_cast<uintptr_t>(bytes), site);
  std::memset(touch_shared(to, bytes, Access::write, site), 0xff, static_cast<size_t>(bytes));
  for (int w = to / 4; w < (to + bytes) / 4; ++w) words_[static_cast<size_t>(w)].is_pending = true;
  now_->open.push_back({to, from, bytes, is_in});
}

void Machine::copy_commit() {
  now_->committed.push_back(std::move(now_->open));
  now_->open.clear();
}

void Machine::copy_wait(int n_left) {
  if (mutation_.kind == Mutation::Kind::no_wait) return;
  if (mutation_.kind == Mutation::Kind::late_wait) ++n_left;
  std::vector<std::vector<Copy>>& committed = now_->committed;
  while (static_cast<int>(committed.size()) > n_left) {
    for (const Copy& copy : committed.front()) end_copy(copy);
    committed.erase(committed.begin());
  }
}

// Device memory is read now, not when the copy was asked for.
void Machine::end_copy(const Copy& copy) {
  std::byte* at = shared_.data() + copy.to;
  const auto n = static_cast<size_t>(copy.bytes);
  if (copy.is_in) std::memcpy(at, copy.from, n);
  if (!copy.is_in) std::memset(at, 0, n);
  for (int w = copy.to / 4; w < (copy.to + copy.bytes) / 4; ++w) {
    Word& word = words_[static_cast<size_t>(w)];
    word.is_pending = false;
    word.writer = {now_->thread, epoch_, warps_[static_cast<size_t>(now_->warp)].epoch};
  }
}

// The last lane that arrives does the work of all.
template <class Do>
void Machine::collective(const Lane& mine, const Site& site, Do what) {
  Warp& warp = warps_[static_cast<size_t>(now_->warp)];
  if (warp.n_live != kLanes) fault("a collective without its whole warp", site);
  if (warp.n_arrived == 0) warp.site = site;
  if (warp.site.line() != site.line()) fault("lanes at different collectives, some at " + at_line(warp.site), site);
  warp.lanes[static_cast<size_t>(now_->lane)] = mine;
  if (++warp.n_arrived < kLanes) {
    now_->state = Fiber::State::at_warp;
    yield();
    return;
  }
  warp.n_arrived = 0;
  what(warp.lanes);
  for (size_t l = 0; l < kLanes; ++l) {
    fibers_[static_cast<size_t>(now_->warp) * kLanes + l].state = Fiber::State::ready;
  }
}

uint32_t Machine::shuffle_xor(uint32_t x, int n, const Site& site) {
  if (is_mutated(Mutation::Kind::wrong_lane, site)) n = 0;
  uint32_t out = 0;
  collective(Lane{.value = x, .at = n, .r = &out}, site, [](std::array<Lane, kLanes>& lanes) {
    for (size_t l = 0; l < kLanes; ++l) *lanes[l].r = lanes[l ^ static_cast<size_t>(lanes[l].at)].value;
  });
  return out;
}

void Machine::sync_warp(const Site& site) {
  collective(Lane{}, site, [this](std::array<Lane, kLanes>&) {
    ++warps_[static_cast<size_t>(now_->warp)].epoch;
    share_known(now_->warp * kLanes, kLanes);
  });
}

void Machine::load_matrix(uint32_t (&r)[4], int at, const Site& site) {
  static_cast<void>(touch_shared(at, 16, Access::read, site));
  collective(Lane{.at = at, .r = r}, site, [this](std::array<Lane, kLanes>& lanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      for (size_t m = 0; m < 4; ++m) {
        const int row = lanes[m * 8 + l / 4].at;
        std::memcpy(&lanes[l].r[m], shared_.data() + row + l % 4 * 4, 4);
      }
    }
  });
}

namespace {

// The rows of A and the columns of B, as their lanes hold them; a register holds four bytes.
template <class T, size_t kWide, class Lanes>
void gather(const Lanes& lanes, T (&left)[16][kWide], T (&right)[8][kWide]) {
  static_assert(sizeof left[0] == 32);
  constexpr size_t kOf4 = 4 / sizeof(T);
  for (size_t l = 0; l < kLanes; ++l) {
    for (size_t q = 0; q < 4; ++q) {
      std::memcpy(&left[l / 4 + q % 2 * 8][l % 4 * kOf4 + q / 2 * 4 * kOf4], &lanes[l].a[q], 4);
    }
    for (size_t q = 0; q < 2; ++q) std::memcpy(&right[l / 4][l % 4 * kOf4 + q * 4 * kOf4], &lanes[l].b[q], 4);
  }
}

}  // namespace

void Machine::mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Site& site) {
  collective(Lane{.d = d, .a = a, .b = b}, site, [](std::array<Lane, kLanes>& lanes) {
    alignas(64) int8_t left[16][32], right[8][32];
    gather(lanes, left, right);
    for (size_t l = 0; l < kLanes; ++l) {
      for (size_t q = 0; q < 4; ++q) {
        const int8_t* x = left[l / 4 + q / 2 * 8];
        const int8_t* y = right[l % 4 * 2 + q % 2];
        int32_t sum = 0;
        for (int k = 0; k < 32; ++k) sum += x[k] * y[k];
        lanes[l].d[q] += sum;
      }
    }
  });
}

void Machine::mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Site& site) {
  collective(Lane{.sums = d, .a = a, .b = b}, site, [](std::array<Lane, kLanes>& lanes) {
    uint16_t left[16][16], right[8][16];
    gather(lanes, left, right);
    for (size_t l = 0; l < kLanes; ++l) {
      for (size_t q = 0; q < 4; ++q) {
        float& sum = lanes[l].sums[q];
        sum = std::bit_cast<float>(sum_of_products(kHopperCore, left[l / 4 + q / 2 * 8], right[l % 4 * 2 + q % 2], 16,
                                                   std::bit_cast<uint32_t>(sum)));
      }
    }
  });
}

}  // namespace quire::emulated
