// One hash of all bytes of all tensors, made while a model is loaded: XXH3-128 of parts of 4 MiB, of a tensor's parts,
// of the tensors by name. Parts are hashed by several threads, so it costs what reading the bytes once more from memory
// does. A file that has not changed since (device, inode, size, times) is not hashed again: a small file in a folder
// remembers the last ones. Where the folder cannot be written nothing is remembered, and nothing fails.
// One thread, which forks and joins inside.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hash128.h"
#include "io/model_file.h"

namespace quire {

class ContentHash {
 public:
  // `folder` empty: nothing is remembered. REQUIRES the file to outlive it.
  ContentHash(const ModelFile& file, std::string folder, int n_threads);

  // A tensor of the file whose bytes are at hand; may be called again for the same one.
  void add(const HostWeight& weight);
  // Of all tensors, those that were not added too.
  Hash128 finish();

 private:
  const ModelFile& file_;
  std::string folder_;
  int n_threads_;
  std::optional<Hash128> known_;
  std::vector<std::optional<Hash128>> tensors_;  // as in the file
};

// What `folder` remembers of the file that is opened as this; nothing where it has changed since.
std::optional<Hash128> remembered_hash(const std::string& folder, const ModelFile& file);
// Remembers it among the last kMaxRemembered. Not what was written less than two seconds before `now_ns` (of the
// system's clock): a later write within the same tick of the file system's clock would go unseen. Failures are silent.
inline constexpr size_t kMaxRemembered = 256;
void remember_hash(const std::string& folder, const ModelFile& file, const Hash128& hash, int64_t now_ns);

}  // namespace quire
