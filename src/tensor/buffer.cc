#include "tensor/buffer.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "base/check.h"

namespace quire {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

// Maps `bytes` (a multiple of kHugePage) at a 2 MiB boundary by mapping one page more and giving the rest back.
std::byte* map_aligned(int64_t bytes) {
  const auto wanted = static_cast<size_t>(bytes + kHugePage);
  void* raw = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t mask = static_cast<uintptr_t>(kHugePage) - 1;
  const uintptr_t aligned = (begin + mask) & ~mask;
  if (aligned > begin) munmap(raw, aligned - begin);
  const uintptr_t end = aligned + static_cast<uintptr_t>(bytes);
  if (begin + wanted > end) munmap(reinterpret_cast<void*>(end), begin + wanted - end);
  return reinterpret_cast<std::byte*>(aligned);
}

// Pages lie on the memory node of the thread that writes them first, and stay there: without a policy of its own the
// kernel takes memory from its readers time and again to see who they are, and may move it. Where that is refused (in
// containers without CAP_SYS_NICE), or unknown, it costs speed only.
void keep_where_written(std::byte* data, size_t bytes) {
  static_cast<void>(syscall(SYS_mbind, data, bytes, MPOL_LOCAL, nullptr, 0, 0));
}

}  // namespace

std::string_view page_kind_name(PageKind kind) {
  switch (kind) {
    case PageKind::huge_explicit: return "explicit";
    case PageKind::huge_advised: return "advised";
    case PageKind::small: return "refused";
  }
  return "?";
}

Result<Buffer> Buffer::allocate(int64_t bytes) {
  QR_CHECK(bytes > 0);
  if (bytes > std::numeric_limits<int64_t>::max() / 2) {
    return fail(Code::exhausted, "cannot allocate " + std::to_string(bytes) + " bytes");
  }
  Buffer out;
  out.bytes_ = bytes;
  out.mapped_ = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const auto mapped = static_cast<size_t>(out.mapped_);
  void* huge = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (huge != MAP_FAILED) {
    out.data_ = static_cast<std::byte*>(huge);
    out.kind_ = PageKind::huge_explicit;
    keep_where_written(out.data_, mapped);
    return out;
  }
  out.data_ = map_aligned(out.mapped_);
  if (out.data_ == nullptr) {
    return fail(Code::exhausted,
                "cannot allocate " + std::to_string(bytes) + " bytes of memory: " + std::strerror(errno));
  }
  keep_where_written(out.data_, mapped);
  // What does not fill a huge page would waste the rest of it.
  const int64_t whole = bytes / kHugePage * kHugePage;
  const bool advised = whole > 0 && madvise(out.data_, static_cast<size_t>(whole), MADV_HUGEPAGE) == 0;
  out.kind_ = advised ? PageKind::huge_advised : PageKind::small;
  return out;
}

Buffer::~Buffer() {
  if (mapped_ > 0) munmap(data_, static_cast<size_t>(mapped_));
}

int64_t Buffer::huge_bytes(std::span<const Buffer> buffers) {
  int64_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.kind_ == PageKind::huge_explicit ? buffer.mapped_ : 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/smaps", "r"), &std::fclose);
  if (!file) return total;
  int64_t inside = 0;  // bytes of the mapping that are the buffers'
  char line[512];
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    uintptr_t lo = 0;
    uintptr_t hi = 0;
    int64_t kib = 0;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &lo, &hi) == 2) {
      inside = 0;  // the kernel merges neighbours, so a mapping may hold several buffers, and more
      for (const Buffer& buffer : buffers) inside += buffer.advised_bytes_within(lo, hi);
    } else if (inside > 0 && std::sscanf(line, "AnonHugePages: %" SCNd64 " kB", &kib) == 1) {
      total += std::min(kib * 1024, inside);
    }
  }
  return total;
}

int64_t Buffer::advised_bytes_within(uintptr_t lo, uintptr_t hi) const {
  if (kind_ == PageKind::huge_explicit) return 0;
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t end = begin + static_cast<uintptr_t>(mapped_);
  return lo < end && hi > begin ? static_cast<int64_t>(std::min(end, hi) - std::max(begin, lo)) : 0;
}

}  // namespace quire
