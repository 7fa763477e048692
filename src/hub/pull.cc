#include "hub/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/bounded_reader.h"
#include "base/size_text.h"
#include "hub/choice.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// Held while a pull writes into a folder; the kernel drops it with the process. The folder itself is locked: no file
// stays behind.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // True where the file system knows no locks: then nothing can be said.
  bool take() const { return fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

 private:
  const int fd_;
};

// All of it before the first byte comes.
Status check_room(const std::string& folder, const std::vector<Download>& downloads) {
  double wanted = 0;
  for (const Download& one : downloads) wanted += static_cast<double>(missing_bytes(one));
  struct statvfs disk{};
  if (::statvfs(folder.c_str(), &disk) != 0) return {};  // the write itself will say
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (wanted <= free) return {};
  return fail(Code::exhausted, folder + ": does not fit on the disk: needs " + size_text(static_cast<int64_t>(wanted)) +
                                   " more, has " + size_text(static_cast<int64_t>(free)));
}

}  // namespace

Result<Pulled> pull(const PullOptions& options,
                    const DownloadProgress& progress,
                    const std::function<void(const PulledFile&)>& done) {
  QR_TRY(Hub hub, Hub::open(options.hub));
  QR_TRY(const HubListing listing, hub.list(options.repo));
  const auto choice = choose_files(listing.files, options.repo.file);
  if (!choice) return error_within(options.repo.id, choice.error());
  const fs::path folder = options.folder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail(Code::io, options.folder + ": cannot be made: " + error.message());
  const FolderLock lock(options.folder);
  if (!lock.take()) return fail(Code::exhausted, options.folder + ": another quire pull writes into this folder");
  Pulled out{.path = (folder / choice->entry).string(), .commit = listing.commit, .files = {}};
  if (choice->entry.empty()) out.path = folder.string();
  std::vector<Download> downloads;
  downloads.reserve(choice->files.size());
  for (const HubFile& file : choice->files)
    downloads.push_back({options.repo.id, listing.commit, file, (folder / file.path).string(), options.replace});
  QR_TRY_VOID(check_room(options.folder, downloads));
  for (const Download& one : downloads) {
    QR_TRY(const DownloadResult how, download(hub, one, progress));
    done(out.files.emplace_back(PulledFile{one.file, one.target, how}));
  }
  return out;
}

}  // namespace quire
