#include "base/mmap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <system_error>

#include "base/check.h"

namespace quire {
namespace {

// The handler's view of the living maps: plain atomics, because a signal handler may take no lock.
struct Slot {
  std::atomic<uintptr_t> begin{0};  // 0: free; kTaken: being filled
  std::atomic<uintptr_t> end{0};    // rounded up to a page
  std::atomic<bool> damaged{false};
};
constexpr uintptr_t kTaken = 1;
std::array<Slot, 256> slots;
uintptr_t page_bytes = 4096;
struct sigaction previous;

// Puts zero pages from `address` to the end of the map that holds it. False when it is in none.
bool cover_with_zeros(uintptr_t address) {
  for (Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (begin <= kTaken || address < begin || address >= end) continue;
    const uintptr_t page = address / page_bytes * page_bytes;
    slot.damaged.store(true, std::memory_order_release);
    return mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
  }
  return false;
}

void on_sigbus(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool handled = info->si_code > 0 && cover_with_zeros(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = saved_errno;
  if (handled) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  } else {
    sigaction(SIGBUS, &previous, nullptr);  // the instruction, or the raise below, meets the default action
    if (info->si_code <= 0) raise(number);
  }
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action{};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
  });
}

int claim_slot() {
  for (size_t i = 0; i < slots.size(); ++i) {
    uintptr_t expected = 0;
    if (slots[i].begin.compare_exchange_strong(expected, kTaken)) return static_cast<int>(i);
  }
  return -1;
}

tl::unexpected<Error> system_error(const std::string& path, const char* step) {
  const int number = errno;
  const Code code = number == ENOENT ? Code::not_found : Code::io;
  return fail(code, path + ": " + step + ": " + std::generic_category().message(number));
}

int64_t nanoseconds(const struct timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileIdentity identity_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block us before it is refused
  if (file->fd_ < 0) return system_error(path, "open");
  struct stat status{};
  if (fstat(file->fd_, &status) != 0) return system_error(path, "stat");
  if (!S_ISREG(status.st_mode)) return fail(Code::invalid, path + ": is no regular file");
  file->identity_ = identity_of(status);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return file;

  install_handler();
  file->slot_ = claim_slot();
  if (file->slot_ < 0) return fail(Code::exhausted, path + ": " + std::to_string(slots.size()) + " files are mapped");
  Slot& slot = slots[static_cast<size_t>(file->slot_)];
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->fd_, 0);
  if (data == MAP_FAILED) return system_error(path, "map");
  file->bytes_ = {static_cast<const std::byte*>(data), size};
  const auto begin = reinterpret_cast<uintptr_t>(data);
  slot.damaged.store(false);
  slot.end.store((begin + size + page_bytes - 1) / page_bytes * page_bytes);
  slot.begin.store(begin, std::memory_order_release);
  return file;
}

MappedFile::~MappedFile() {
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].begin.store(kTaken);
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].begin.store(0);
  if (fd_ >= 0) close(fd_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  QR_CHECK(part.empty() ||
           (part.data() >= bytes_.data() && part.data() + part.size() <= bytes_.data() + bytes_.size()));
  const auto from = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = (from + page_bytes - 1) / page_bytes * page_bytes;
  const uintptr_t end = (from + part.size()) / page_bytes * page_bytes;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // advice: may fail
}

Status MappedFile::check_unchanged() const {
  if (slot_ >= 0 && slots[static_cast<size_t>(slot_)].damaged.load(std::memory_order_acquire)) {
    return fail(Code::corrupt, path_ + ": a page could not be read; the file was truncated or the disk failed");
  }
  struct stat status{};
  if (fstat(fd_, &status) != 0) return system_error(path_, "stat");
  if (status.st_size != size()) {
    return fail(Code::corrupt, path_ + ": changed while it was read: " + std::to_string(size()) + " bytes at first, " +
                                   std::to_string(status.st_size) + " now");
  }
  if (nanoseconds(status.st_mtim) != identity_.modified_ns)
    return fail(Code::corrupt, path_ + ": was written while it was read");
  return {};
}

}  // namespace quire
