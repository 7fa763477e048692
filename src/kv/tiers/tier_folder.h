// A folder of files as the disk tier uses them: written from the front and never twice, synced, read at any place,
// removed whole. A seam, so that tests can fail every call, drop what was not synced and count. Every call says what
// became of it; a read that is short says so by its number. Any thread, but for one that writes each file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

class TierFile {
 public:
  virtual ~TierFile() = default;
  virtual Status write(int64_t offset, std::span<const std::byte> bytes) = 0;  // all of them
  // How many were read: fewer than wanted where the file ends.
  virtual Result<size_t> read(int64_t offset, std::span<std::byte> out) const = 0;
  virtual Result<int64_t> size() const = 0;
  virtual Status sync() = 0;  // what was written is safe when this has returned
};

class TierFolder {
 public:
  virtual ~TierFolder() = default;
  virtual Result<std::vector<std::string>> names() const = 0;  // of plain files
  // Fails where there is one.
  virtual Result<std::shared_ptr<TierFile>> create(const std::string& name) = 0;
  virtual Result<std::shared_ptr<TierFile>> open(const std::string& name) const = 0;  // to be read
  virtual Status remove(const std::string& name) = 0;
  virtual Status sync() = 0;  // which files there are is safe when this has returned
};

// The folder at `path`, made if it is not there, readable by its owner alone: what it will hold are conversations. This
// process's until the folder is destroyed: Code::exhausted while another has it. Other failures are Code::io.
Result<std::unique_ptr<TierFolder>> open_tier_folder(const std::string& path);

}  // namespace quire
