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

// Copies bytes of memory that a device has and the host does not reach. What was asked of the device before has
// happened before a copy begins, and the copy has happened when a call returns. False: a call to the device failed, and
// what `to` holds counts for nothing. Owner: the engine thread.
class Copier {
 public:
  virtual ~Copier() = default;
  virtual bool copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;   // both the device's
  virtual bool read(std::byte* to, const std::byte* from, int64_t bytes) = 0;   // to the host's memory
  virtual bool write(std::byte* to, const std::byte* from, int64_t bytes) = 0;  // from it
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
