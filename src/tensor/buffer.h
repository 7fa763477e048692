// Owned memory for weights, KV blocks and the step's arena: anonymous pages, 2 MiB pages wherever the system gives
// them: they are read faster (docs/numbers.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace quire {

enum class PageKind : uint8_t { huge_explicit, huge_advised, small };
std::string_view page_kind_name(PageKind);  // how 2 MiB pages were come by: "explicit", "advised" or "refused"

// Memory that a host writes tables of whole numbers into, for a device that takes a copy of what is used of it. There
// are two of it: while the device takes a copy of one, the host writes to the other.
struct Tables {
  std::byte* data = nullptr;
  std::byte* other = nullptr;
  int64_t bytes = 0;  // of each
  int64_t used = 0;   // of `data`, from the first byte on
};

// What has become of a copy that was asked for. Of one that failed the target counts for nothing.
enum class CopyState : uint8_t { under_way, done, failed };

// Copies bytes of memory that a device has and the host does not reach. read() and write() may return before the copy
// has happened, and say by which number state() knows it. Where one fails, those of its direction that were under way
// have failed too, and none is any more. Failures are logged. Owner: the engine thread.
class Copier {
 public:
  static constexpr int64_t kDone = 0, kFailed = -1;  // numbers of copies that are over when the call returns

  virtual ~Copier() = default;
  // Both the device's, behind all that was asked of the device, and done when it returns. False: it failed.
  virtual bool copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  // To the host's memory, which stays and is not looked at until state() says more. `from` is what steps left there
  // that the host has waited for. REQUIRES that no step under way writes to it.
  virtual int64_t read(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  // From the host's memory, which may change when it returns. REQUIRES begin_writes() since `to` was taken, and that no
  // step reads it before state() has said `done`.
  virtual int64_t write(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  // Without waiting, or when it is known: then for copies alone, not for what the device computes behind them. Those of
  // a direction are done in order, so the last one's state is that of all that were asked for since the last failure.
  virtual CopyState state(int64_t copy, bool waits) = 0;
  // What is written from now on comes behind all that was asked of the device so far, which may use what was taken.
  virtual void begin_writes() = 0;
  // These bytes are taken for something else: what is asked of the device from now on comes behind copies of them.
  virtual void reuse(const std::byte* data, int64_t bytes) = 0;
};

class Buffer {
 public:
  Buffer() = default;
  // `bytes` > 0, zero-filled, aligned to 2 MiB. Tries explicit huge pages, then madvise(MADV_HUGEPAGE), then 4 KiB.
  // Code::exhausted names the size.
  static Result<Buffer> allocate(int64_t bytes);
  // A device's memory, given back when the buffer goes. `memory` is not null; `tables`, beside it, may be. With a
  // `copier`, which outlives it, the host does not reach that memory by itself.
  static Buffer of(std::shared_ptr<std::byte> memory,
                   int64_t bytes,
                   std::shared_ptr<Tables> tables = nullptr,
                   Copier* copier = nullptr) {
    Buffer out;
    out.data_ = memory.get();
    out.bytes_ = bytes;
    out.owner_ = std::move(memory);
    out.tables_ = std::move(tables);
    out.copier_ = copier;
    return out;
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Tables* tables() const { return tables_.get(); }  // null: whole numbers lie with all else
  Copier* copier() const { return copier_; }        // null: the host reaches it
  PageKind page_kind() const { return kind_; }
  // How many of these buffers' bytes the kernel backs with 2 MiB pages now; for start-up reports. Reads
  // /proc/self/smaps once, for which the kernel looks at every page of the process.
  static int64_t huge_bytes(std::span<const Buffer> buffers);

 private:
  // Of addresses [lo, hi), those of this buffer, unless its pages are explicit ones.
  int64_t advised_bytes_within(uintptr_t lo, uintptr_t hi) const;
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    std::swap(kind_, other.kind_);
    owner_.swap(other.owner_);
    tables_.swap(other.tables_);
    std::swap(copier_, other.copier_);
  }
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_ = 0;
  PageKind kind_ = PageKind::small;
  std::shared_ptr<std::byte> owner_;  // of a device's memory; else the pages are the buffer's own
  std::shared_ptr<Tables> tables_;
  Copier* copier_ = nullptr;
};

}  // namespace quire
