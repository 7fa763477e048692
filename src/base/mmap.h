// A file mapped read-only. Reading a page that the file no longer has (it was truncated, or the disk failed) raises
// SIGBUS; a process-wide handler answers it inside our maps with zero pages and marks the map, so a reader goes on with
// zeros and learns of it from check_unchanged(). That keeps readers plain spans: the rejected alternative, pread into a
// bounce buffer, would cost every loader a copy. Signals from elsewhere go to whoever handled them before.
// Immutable; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace quire {

// Which file it is and as of when: another one, or a later one, differs.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t modified_ns = 0, changed_ns = 0;
};

class MappedFile {
 public:
  // A regular file. Code::not_found when there is none; Code::invalid when it is a directory, pipe or device; Code::io
  // names the system's reason; Code::exhausted beyond 256 maps at once. The message starts with `path`.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  std::span<const std::byte> bytes() const { return bytes_; }
  FileIdentity identity() const { return identity_; }  // when it was opened
  // Fails with Code::corrupt when the file was truncated, extended or written since open, or a page could not be read.
  // To be asked after the last read of what was taken from bytes().
  Status check_unchanged() const;
  // Gives the memory of the whole pages in `part` back to the system; they are read from the file again when touched.
  // A loader that has copied a tensor says so here, else its memory counts twice. REQUIRES a part of bytes().
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  std::string path_;
  std::span<const std::byte> bytes_;
  int fd_ = -1;
  int slot_ = -1;  // in the handler's table, -1 for an empty file
  FileIdentity identity_;
};

}  // namespace quire
