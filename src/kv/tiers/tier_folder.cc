#include "kv/tiers/tier_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/fd.h"

namespace quire {
namespace {

constexpr const char* kLock = "lock";

tl::unexpected<Error> failed(const std::string& what) {
  return fail(Code::io, what + ": " + std::generic_category().message(errno));
}

class SystemFile final : public TierFile {
 public:
  SystemFile(Fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  Status write(int64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failed("cannot write to " + name_);
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += n;
    }
    return {};
  }
  Result<size_t> read(int64_t offset, std::span<std::byte> out) const override {
    size_t n_read = 0;
    while (n_read < out.size()) {
      const auto at = static_cast<off_t>(offset + static_cast<int64_t>(n_read));
      const ssize_t n = ::pread(fd_.get(), out.data() + n_read, out.size() - n_read, at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("cannot read " + name_);
      if (n == 0) break;
      n_read += static_cast<size_t>(n);
    }
    return n_read;
  }
  Result<int64_t> size() const override {
    struct stat info = {};
    if (::fstat(fd_.get(), &info) != 0) return failed("cannot look at " + name_);
    return int64_t{info.st_size};
  }
  Status sync() override {
    if (::fdatasync(fd_.get()) != 0) return failed("cannot sync " + name_);
    return {};
  }

 private:
  Fd fd_;
  std::string name_;
};

class SystemFolder final : public TierFolder {
 public:
  SystemFolder(std::string path, Fd folder, Fd lock)
      : path_(std::move(path)), folder_(std::move(folder)), lock_(std::move(lock)) {}

  Result<std::vector<std::string>> names() const override {
    DIR* dir = ::opendir(path_.c_str());
    if (dir == nullptr) return failed("cannot list " + path_);
    std::vector<std::string> out;
    errno = 0;
    while (const dirent* entry = ::readdir(dir)) {
      struct stat info = {};
      const std::string name = entry->d_name;
      if (::fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
        out.push_back(name);
      errno = 0;
    }
    const int error = errno;
    ::closedir(dir);
    errno = error;
    if (error != 0) return failed("cannot list " + path_);
    std::sort(out.begin(), out.end());
    return out;
  }
  Result<std::shared_ptr<TierFile>> create(const std::string& name) override {
    return open_file(name, O_RDWR | O_CREAT | O_EXCL);
  }
  Result<std::shared_ptr<TierFile>> open(const std::string& name) const override { return open_file(name, O_RDONLY); }
  Status remove(const std::string& name) override {
    if (::unlinkat(folder_.get(), name.c_str(), 0) != 0 && errno != ENOENT) return failed("cannot remove " + name);
    return {};
  }
  Status sync() override {
    if (::fsync(folder_.get()) != 0) return failed("cannot sync " + path_);
    return {};
  }

 private:
  Result<std::shared_ptr<TierFile>> open_file(const std::string& name, int flags) const {
    Fd fd(::openat(folder_.get(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd.get() < 0) return failed("cannot open " + name);
    return std::make_shared<SystemFile>(std::move(fd), name);
  }

  std::string path_;
  Fd folder_, lock_;
};

}  // namespace

Result<std::unique_ptr<TierFolder>> open_tier_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed("cannot make the folder " + path);
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return failed("cannot open the folder " + path);
  Fd lock(::openat(folder.get(), kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.get() < 0) return failed("cannot open the file \"lock\" in " + path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failed("cannot lock " + path);
    return fail(Code::exhausted, "the folder " + path + " is in use by another process; each needs one of its own");
  }
  return std::make_unique<SystemFolder>(path, std::move(folder), std::move(lock));
}

}  // namespace quire
