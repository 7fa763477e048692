// The emulator's mbarriers, bulk copies and wgmma. What they do happens as late as a device may let it: bulk copies
// arrive when no thread can go on without them, and a thread sees what they brought once it has waited for the phase of
// their barrier, itself or by way of one who had. A wgmma reads its operands until a wait for it, and whoever writes to
// them before knows of no such wait and is told. Source of what may be relied on, of descriptors and of the 128-byte
// swizzle: NVIDIA's PTX ISA, "mbarrier", "cp.async.bulk" and "Asynchronous Warpgroup Level Matrix Instructions".
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "backend/cuda/emulated/machine_parts.h"
#include "backend/cuda/emulated/tensor_core.h"
#include "base/check.h"

namespace quire::emulated {

void Known::join(const Known& other) {
  for (size_t i = 0; i < phases.size(); ++i) phases[i] = std::max(phases[i], other.phases[i]);
  for (size_t i = 0; i < wgmmas.size(); ++i) wgmmas[i] = std::max(wgmmas[i], other.wgmmas[i]);
}

void Known::meet(const Known& other) {
  for (size_t i = 0; i < phases.size(); ++i) phases[i] = std::min(phases[i], other.phases[i]);
  for (size_t i = 0; i < wgmmas.size(); ++i) wgmmas[i] = std::min(wgmmas[i], other.wgmmas[i]);
}

Machine::Async& Machine::async() {
  if (async_) return *async_;
  QR_CHECK(warps_.size() <= kMostWarps);
  async_ = std::make_unique<Async>();
  async_->threads.resize(static_cast<size_t>(work_->n_threads));
  async_->words.resize(words_.size());
  async_->groups.resize(warps_.size() / kWarpsOfGroup);
  return *async_;
}

// The threads first … know what each of them did.
void Machine::share_known(int first, int n) {
  if (!async_) return;
  Known all;
  const auto threads = std::span(async_->threads).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
  for (const Async::Thread& thread : threads) all.join(thread.known);
  for (Async::Thread& thread : threads) thread.known = all;
}

// Before a thread touches a word itself, or asks for a copy to it.
void Machine::check_async(size_t w, Access access, const Site& site) {
  const int writer = words_[w].writer.thread;
  Async::Use& use = async_->words[w];
  const Async::Thread& mine = async_->threads[static_cast<size_t>(now_->thread)];
  if (writer == Word::barrier) fault("these are the bytes of an mbarrier", site);
  if (writer == Word::bulk_copy && mine.known.phases[static_cast<size_t>(use.barrier)] <= use.phase) {
    fault("a bulk copy, for whose phase this thread has not waited", site);
  }
  if (access == Access::read) return;
  check_wgmma_reads(w, site);
  use = {.fences = mine.n_fences};
}

void Machine::check_wgmma_reads(size_t w, const Site& site) {
  const Async::Thread& mine = async_->threads[static_cast<size_t>(now_->thread)];
  const Async::Use& use = async_->words[w];
  for (size_t warp = 0; warp < async_->groups.size() * kWarpsOfGroup; ++warp) {
    if (mine.known.wgmmas[warp] >= use.read_by[warp / kWarpsOfGroup]) continue;
    fault("a wgmma of warp " + std::to_string(warp) + " may be reading this", site);
  }
}

// ---- mbarriers -----------------------------------------------------------------------------------------------------

void Machine::barrier_init(int at, int n, const Site& site) {
  Async& of = async();
  if (at % 8 != 0 || n <= 0) fault("an mbarrier has 8 aligned bytes and some arrivals", site);
  if (of.barriers.size() == kMostBarriers) fault("more mbarriers than the emulator knows", site);
  static_cast<void>(touch_shared(at, 8, Access::write, site));
  for (int w = at / 4; w < at / 4 + 2; ++w) words_[static_cast<size_t>(w)].writer.thread = Word::barrier;
  const int thread = now_->thread, fences = of.threads[static_cast<size_t>(thread)].n_fences;
  of.barriers.push_back({.at = at, .n = n, .n_left = n, .thread = thread, .fences = fences, .epoch = epoch_});
}

// Its number. It has to be there for this thread.
size_t Machine::barrier_at(int at, const Site& site) {
  const Async& of = async();
  const auto found = std::ranges::find(of.barriers, at, &Async::Barrier::at);
  if (found == of.barriers.end()) fault("there is no mbarrier here", site);
  const bool is_fenced = of.threads[static_cast<size_t>(found->thread)].n_fences > found->fences;
  if (!is_fenced || (found->thread != now_->thread && found->epoch == epoch_)) {
    fault("an mbarrier without async_fence and sync since it was made", site);
  }
  return static_cast<size_t>(found - of.barriers.begin());
}

// Where nothing is left to come.
void Machine::end_phase(size_t i) {
  Async::Barrier& barrier = async_->barriers[i];
  if (barrier.n_left > 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.n_left = barrier.n;
  barrier.over.join(barrier.arriving);
  for (Fiber& fiber : fibers_) {
    if (fiber.state != Fiber::State::at_phase) continue;
    if (async_->threads[static_cast<size_t>(fiber.thread)].waits_for == static_cast<int>(i)) {
      fiber.state = Fiber::State::ready;
    }
  }
}

void Machine::barrier_arrive(int at, int bytes, const Site& site) {
  constexpr int kMostBytes = (1 << 20) - 1;  // what a barrier can count
  const size_t i = barrier_at(at, site);
  Async::Barrier& barrier = async_->barriers[i];
  if (barrier.n_left == 0) fault("more arrivals at an mbarrier than its phase has", site);
  if (bytes > kMostBytes) fault("an mbarrier counts no more than " + std::to_string(kMostBytes) + " bytes", site);
  --barrier.n_left;
  barrier.bytes += bytes;
  barrier.arriving.join(async_->threads[static_cast<size_t>(now_->thread)].known);
  end_phase(i);
}

void Machine::barrier_wait(int at, int parity, const Site& site) {
  if (is_mutated(Mutation::Kind::no_phase_wait, site)) return;
  if (is_mutated(Mutation::Kind::wrong_phase, site)) parity ^= 1;
  if (is_mutated(Mutation::Kind::wrong_stage, site)) at += 8;
  const size_t i = barrier_at(at, site);
  Async::Thread& mine = async_->threads[static_cast<size_t>(now_->thread)];
  mine.waits_for = static_cast<int>(i);
  // Of the phases that are over the last one has the other parity than the one under way.
  while ((async_->barriers[i].phase & 1) == parity) {
    now_->state = Fiber::State::at_phase;
    yield();
  }
  mine.known.join(async_->barriers[i].over);
  mine.known.phases[i] = async_->barriers[i].phase;
}

// ---- bulk copies ---------------------------------------------------------------------------------------------------

void Machine::bulk_copy(int to, const void* from, int bytes, int at, const Site& site) {
  const size_t i = barrier_at(at, site);
  if (bytes <= 0 || bytes % 16 != 0) fault("a bulk copy of " + std::to_string(bytes) + " bytes, not of 16 · n", site);
  if (to % 16 != 0) fault("a bulk copy to " + std::to_string(to) + ", which is not aligned to 16 bytes", site);
  if (to < 0 || to > work_->shared_bytes - bytes) {
    fault("shared memory has " + std::to_string(work_->shared_bytes) + " bytes, not " + std::to_string(to + bytes),
          site);
  }
  touch_device(from, bytes, 16, site);
  Async::Barrier& barrier = async_->barriers[i];
  for (auto w = static_cast<size_t>(to / 4); w < static_cast<size_t>((to + bytes) / 4); ++w) check_fenced(w, site);
  for (auto w = static_cast<size_t>(to / 4); w < static_cast<size_t>((to + bytes) / 4); ++w) {
    check_order(w, Access::write, site);
    words_[w].writer.thread = Word::bulk_copy;
    words_[w].is_pending = true;
    async_->words[w].barrier = static_cast<int>(i);
    async_->words[w].phase = barrier.phase;
  }
  std::memset(shared_.data() + to, 0xff, static_cast<size_t>(bytes));
  barrier.copies.push_back({to, from, bytes});
}

bool Machine::has_bulk_copies() const {
  return async_ && std::ranges::any_of(async_->barriers, [](const Async::Barrier& b) { return !b.copies.empty(); });
}

// Those of one barrier, which `order` names, arrive. False: none is under way.
bool Machine::end_bulk_copies(uint64_t order) {
  if (!has_bulk_copies()) return false;
  const size_t n = async_->barriers.size();
  size_t i = order % n;
  while (async_->barriers[i].copies.empty()) i = (i + 1) % n;
  Async::Barrier& barrier = async_->barriers[i];
  for (const Async::BulkCopy& copy : barrier.copies) {
    std::memcpy(shared_.data() + copy.to, copy.from, static_cast<size_t>(copy.bytes));
    for (int w = copy.to / 4; w < (copy.to + copy.bytes) / 4; ++w) words_[static_cast<size_t>(w)].is_pending = false;
    barrier.bytes -= copy.bytes;
  }
  barrier.copies.clear();
  end_phase(i);
  return true;
}

void Machine::async_fence(const Site& site) {
  if (is_mutated(Mutation::Kind::no_fence, site)) return;
  ++async().threads[static_cast<size_t>(now_->thread)].n_fences;
}

// ---- wgmma ---------------------------------------------------------------------------------------------------------

int Machine::wgmma_fences() { return async().threads[static_cast<size_t>(now_->thread)].n_wgmma_fences; }

void Machine::wgmma_fence(const Site& site) {
  if (is_mutated(Mutation::Kind::no_fence, site)) return;
  ++async().threads[static_cast<size_t>(now_->thread)].n_wgmma_fences;
}

void Machine::wgmma_commit() {
  Async::Thread& mine = async().threads[static_cast<size_t>(now_->thread)];
  mine.committed.push_back(mine.n_issued);
}

void Machine::wgmma_wait(int n_left) {
  if (mutation_.kind == Mutation::Kind::no_wait) return;
  if (mutation_.kind == Mutation::Kind::late_wait) ++n_left;
  Async::Thread& mine = async().threads[static_cast<size_t>(now_->thread)];
  while (static_cast<int>(mine.committed.size()) > n_left) {
    mine.n_over = mine.committed.front();
    mine.committed.erase(mine.committed.begin());
  }
  mine.known.wgmmas[static_cast<size_t>(now_->warp)] = mine.n_over;
}

void Machine::read_sums(int wgmma, const Site& site) {
  if (wgmma > async().threads[static_cast<size_t>(now_->thread)].n_over) {
    fault("sums of a wgmma that nobody waited for", site);
  }
}

// The last thread that arrives does the work of all.
int Machine::wgmma(float (&d)[64], int fences, uint64_t a, uint64_t b, const Site& site) {
  Async& of = async();
  const auto warp = static_cast<size_t>(now_->warp), g = warp / kWarpsOfGroup;
  Async::Thread& mine = of.threads[static_cast<size_t>(now_->thread)];
  if (g >= of.groups.size()) fault("a wgmma without its whole warpgroup", site);
  for (size_t w = g * kWarpsOfGroup; w < (g + 1) * kWarpsOfGroup; ++w) {
    if (warps_[w].n_live != kLanes) fault("a wgmma without its whole warpgroup", site);
  }
  if (fences == mine.n_wgmma_fences) fault("no wgmma_fence since these sums were made", site);
  Async::Group& group = of.groups[g];
  if (group.n_arrived == 0) {
    group.site = site;
    group.a = a;
    group.b = b;
  }
  if (group.site.line() != site.line()) {
    fault("threads of a warpgroup at different wgmmas, some at " + at_line(group.site), site);
  }
  if (group.a != a || group.b != b) fault("threads of a warpgroup name different operands", site);
  ++mine.n_issued;
  const int number = mine.n_issued;
  group.sums[static_cast<size_t>(now_->thread) % kGroupThreads] = d;
  if (++group.n_arrived < kGroupThreads) {
    now_->state = Fiber::State::at_warp;
    yield();
    return number;
  }
  group.n_arrived = 0;
  multiply(g, site);
  for (size_t t = g * kGroupThreads; t < (g + 1) * kGroupThreads; ++t) fibers_[t].state = Fiber::State::ready;
  return number;
}

namespace {

// A matrix in shared memory by its descriptor: rows of k numbers next to each other, 128-byte swizzle.
struct Operand {
  explicit Operand(uint64_t descriptor)
      : begin(static_cast<int>(descriptor & 0x3fff) << 4),
        stride(static_cast<int>(descriptor >> 32 & 0x3fff) << 4),
        base_offset(static_cast<int>(descriptor >> 49 & 7)),
        swizzle(static_cast<int>(descriptor >> 62)) {}
  // Where byte `byte` of a row lies: eight rows of 128 bytes follow each other, `stride` from one eight to the next;
  // bits 4 to 6 of an address are changed by bits 7 to 9.
  int at(int row, int byte) const {
    const int plain = begin + row / 8 * stride + row % 8 * 128 + byte;
    return plain ^ (plain >> 7 & 7) << 4;
  }
  int begin, stride, base_offset, swizzle;
};

// Of each row 16 numbers of BF16.
template <size_t kRows>
std::array<std::array<uint16_t, 16>, kRows> gathered(const std::vector<std::byte>& shared, const Operand& from) {
  std::array<std::array<uint16_t, 16>, kRows> out;
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t half = 0; half < 2; ++half) {
      const int at = from.at(static_cast<int>(r), static_cast<int>(half) * 16);
      std::memcpy(&out[r][half * 8], shared.data() + at, 16);
    }
  }
  return out;
}

}  // namespace

// What does not go by way of the threads sees what one of them wrote behind a fence of that one.
void Machine::check_fenced(size_t w, const Site& site) {
  const int writer = words_[w].writer.thread;
  if (writer < 0 || async_->threads[static_cast<size_t>(writer)].n_fences > async_->words[w].fences) return;
  fault("thread " + std::to_string(writer) + " has written this, and no async_fence behind it", site);
}

// 16 bytes of an operand, by the warpgroup of the thread that runs; `least`: what all of it know.
void Machine::read_by_wgmma(int at, const Known& least, const Site& site) {
  Async& of = *async_;
  const size_t first = static_cast<size_t>(at) / 4;
  for (size_t w = first; w < first + 4; ++w) {
    const Word& word = words_[w];
    Async::Use& use = of.words[w];
    const int writer = word.writer.thread;
    if (word.is_pending) fault("a copy is under way that nobody waited for", site);
    if (writer == Word::nobody) fault("nobody has written this word of shared memory", site);
    if (writer == Word::barrier) fault("these are the bytes of an mbarrier", site);
    if (writer == Word::bulk_copy && least.phases[static_cast<size_t>(use.barrier)] <= use.phase) {
      fault("a bulk copy, for whose phase not all of the warpgroup have waited", site);
    }
    if (writer >= 0 && word.writer.epoch == epoch_)
      fault("race with a write of thread " + std::to_string(writer), site);
    if (word.adder.thread >= 0) fault("thread " + std::to_string(word.adder.thread) + " has added to this", site);
    check_fenced(w, site);
    use.read_by[static_cast<size_t>(now_->warp) / kWarpsOfGroup] =
        of.threads[static_cast<size_t>(now_->thread)].n_issued;
  }
}

void Machine::multiply(size_t g, const Site& site) {
  constexpr size_t kA = 64, kB = 128;
  const Async::Group& group = async_->groups[g];
  const std::array operands = {Operand(group.a), Operand(group.b)};
  const auto& [a, b] = operands;
  for (const Operand& operand : operands) {
    if (operand.swizzle != 1) fault("the emulator knows operands with a 128-byte swizzle alone", site);
    if (operand.base_offset != 0 || (operand.begin & 0x380) != 0 || operand.stride % 1024 != 0) {
      fault("an operand whose eights of rows do not begin at multiples of 1024 bytes", site);
    }
    const int eights = static_cast<int>(&operand == &a ? kA : kB) / 8;
    if (operand.begin / 1024 * 1024 + (eights - 1) * operand.stride + 1024 > work_->shared_bytes) {
      fault("an operand of wgmma outside of shared memory", site);
    }
  }
  const size_t first = g * kGroupThreads;
  Known least = async_->threads[first].known;
  for (size_t t = 1; t < kGroupThreads; ++t) least.meet(async_->threads[first + t].known);
  for (int half = 0; half < 2; ++half) {
    for (int r = 0; r < static_cast<int>(kA); ++r) read_by_wgmma(a.at(r, half * 16), least, site);
    for (int r = 0; r < static_cast<int>(kB); ++r) read_by_wgmma(b.at(r, half * 16), least, site);
  }
  const auto left = gathered<kA>(shared_, a);
  const auto right = gathered<kB>(shared_, b);
  const uint32_t wrong = is_mutated(Mutation::Kind::other_sums, site) ? 1 : 0;
  for (size_t t = 0; t < kGroupThreads; ++t) {
    for (size_t i = 0; i < 64; ++i) {
      const size_t r = t / kLanes * 16 + t % kLanes / 4 + i / 2 % 2 * 8, c = i / 4 * 8 + t % 4 * 2 + i % 2;
      float& sum = group.sums[t][i];
      sum = std::bit_cast<float>(
          sum_of_products(kHopperCore, left[r].data(), right[c].data(), 16, std::bit_cast<uint32_t>(sum)) ^ wrong);
    }
  }
}

}  // namespace quire::emulated
