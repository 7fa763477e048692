#include "backend/cuda/block_copies.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"

namespace quire::cuda {

BlockCopies::~BlockCopies() {
  wait();
  for (const Direction& of : directions_) {
    for (const Slot& slot : of.slots) {
      if (slot.pinned != nullptr) runtime_->release(slot.pinned);
    }
  }
}

// What was asked for and not told to be done counts as failed too: nobody knows which of them it was.
void BlockCopies::fail(Direction& of, const Status& why) {
  if (of.n > 0) static_cast<void>(runtime_->wait_beside(of.stream));
  of.n = 0;
  of.n_done = of.n_asked;
  of.sound_from = of.n_asked + 1;
  if (std::exchange(of.is_failing, true)) return;
  log_warn("copies of cache blocks " + std::string(of.what) + " failed, nothing else is lost: " + why.error().message);
}

// The oldest slot is free again where its copy has happened.
Status BlockCopies::take_oldest(Direction& of, bool waits, bool& has_happened) {
  const Slot& slot = of.at(0);
  has_happened = waits;
  if (waits) {
    QR_TRY_VOID(runtime_->wait_beside(of.stream, of.mark(0)));
  } else {
    QR_TRY(has_happened, runtime_->has_happened(of.stream, of.mark(0)));
  }
  if (!has_happened) return {};
  if (slot.to != nullptr) std::memcpy(slot.to, slot.pinned, static_cast<size_t>(slot.bytes));
  of.n_done = slot.number;
  of.is_failing = false;
  of.first = (of.first + 1) % of.slots.size();
  --of.n;
  return {};
}

// All of them: a ring of some would end at the first that is missing.
Status BlockCopies::take_slots(Direction& of) {
  if (of.slots.back().pinned != nullptr) return {};
  for (Slot& slot : of.slots) {
    if (slot.pinned != nullptr) continue;
    QR_TRY(slot.pinned, runtime_->allocate(kSlotBytes, Place::pinned));
  }
  return {};
}

Status BlockCopies::ask_for(Direction& of, std::byte* device, std::byte* host, int64_t bytes) {
  QR_TRY_VOID(take_slots(of));
  bool has_happened = true;
  if (of.n == of.slots.size()) QR_TRY_VOID(take_oldest(of, true, has_happened));
  Slot& slot = of.at(of.n);
  const bool is_in = of.stream == CopyStream::in;
  if (is_in) std::memcpy(slot.pinned, host, static_cast<size_t>(bytes));
  slot.on_device = device;
  slot.to = is_in ? nullptr : host;
  slot.bytes = bytes;
  slot.number = ++of.n_asked;
  const int mark = of.mark(of.n);
  ++of.n;  // whatever becomes of it, it may be under way
  return runtime_->copy_beside(of.stream, is_in ? device : slot.pinned, is_in ? slot.pinned : device, bytes, mark);
}

int64_t BlockCopies::copy(Direction& of, std::byte* device, std::byte* host, int64_t bytes) {
  for (int64_t done = 0; done < bytes; done += kSlotBytes) {
    const Status asked = ask_for(of, device + done, host + done, std::min(bytes - done, kSlotBytes));
    if (asked) continue;
    fail(of, asked);
    return Copier::kFailed;
  }
  return of.n_asked * kDirections + (&of - directions_.data());
}

int64_t BlockCopies::read(std::byte* to, const std::byte* from, int64_t bytes) {
  return copy(directions_[1], const_cast<std::byte*>(from), to, bytes);
}

int64_t BlockCopies::write(std::byte* to, const std::byte* from, int64_t bytes) {
  return copy(directions_[0], to, const_cast<std::byte*>(from), bytes);
}

CopyState BlockCopies::state(int64_t copy, bool waits) {
  Direction& of = directions_[static_cast<size_t>(copy % kDirections)];
  const int64_t number = copy / kDirections;
  bool has_happened = true;
  while (number >= of.sound_from && number > of.n_done && has_happened) {
    if (const Status taken = take_oldest(of, waits, has_happened); !taken) fail(of, taken);
  }
  if (number < of.sound_from) return CopyState::failed;
  return number > of.n_done ? CopyState::under_way : CopyState::done;
}

bool BlockCopies::begin_writes() {
  const Status put = runtime_->put_behind(CopyStream::in);
  if (!put) log_warn("copies of cache blocks wait for all that the device does: " + put.error().message);
  return put.has_value();
}

// The newest copy of these bytes comes behind the others. Where the device is not told to wait, the host does.
bool BlockCopies::reuse(const std::byte* data, int64_t bytes) {
  bool any = false;
  for (Direction& of : directions_) {
    for (size_t i = of.n; i-- > 0;) {
      const Slot& slot = of.at(i);
      if (slot.on_device + slot.bytes <= data || data + bytes <= slot.on_device) continue;
      any = true;
      if (!runtime_->wait_on_device(of.stream, of.mark(i))) wait();
      break;
    }
  }
  return any;
}

void BlockCopies::wait() {
  bool has_happened = true;
  for (Direction& of : directions_) {
    while (of.n > 0) {
      if (const Status taken = take_oldest(of, true, has_happened); !taken) fail(of, taken);
    }
  }
}

void BlockCopies::give_up() {
  for (Direction& of : directions_) {
    if (of.n > 0) fail(of, quire::fail(Code::internal, "the device failed"));
  }
}

}  // namespace quire::cuda
