#include "hub/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/bounded_reader.h"
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
  for (const HubFile& file : choice->files) {
    const std::string target = (folder / file.path).string();
    QR_TRY(const DownloadResult how,
           download(hub, {options.repo.id, listing.commit, file, target, options.replace}, progress));
    done(out.files.emplace_back(PulledFile{file, target, how}));
  }
  return out;
}

}  // namespace quire
