// Writes GGUF version 3: facts and tensor entries first, then the tensors' bytes as they come, so that a model of any
// size needs no more memory than its largest piece. Everything goes to a file beside the target that takes its name
// only in finish(), after fsync: a reader meets the old file or the whole new one, never a part. Nothing of it stays
// where the writer, or a signal that ends the process, comes before.
// One thread. Calling out of order is a bug (QR_CHECK).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "base/result.h"

namespace quire {

class GgufWriter {
 public:
  enum class Existing : uint8_t { replaced, kept };  // kept: finish() fails where the path has come to name something

  // Nothing is written yet. A path that cannot be written is found by write() or finish().
  explicit GgufWriter(std::string path, Existing existing = Existing::replaced);
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;
  ~GgufWriter();  // removes what was written unless finish() succeeded

  // Facts. Each key once, 1 to 65535 bytes; "general.alignment" is not for callers (the default, 32, is used).
  void add_bool(std::string_view key, bool value);
  void add_u32(std::string_view key, uint32_t value);
  void add_i32(std::string_view key, int32_t value);
  void add_u64(std::string_view key, uint64_t value);
  void add_f32(std::string_view key, float value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void add_bytes(std::string_view key, std::span<const uint8_t> values);
  // A GgufFact's value: type number and bytes as another file has them.
  void add_raw(std::string_view key, std::span<const std::byte> value);

  // Declares the next tensor; `shape` outermost first. Code::invalid names a name, type or shape that GGUF cannot hold.
  // Facts and declarations come before the first write().
  Status add_tensor(std::string_view name, uint32_t type, const std::vector<int64_t>& shape);
  // The next bytes of the tensors' data, in the order of declaration; a piece may end anywhere within its tensor, and
  // must not reach into the next. Code::io names the file and the system's reason.
  Status write(std::span<const std::byte> piece);
  // Code::invalid when bytes are missing; Code::io as above.
  Status finish();

 private:
  struct Entry {
    std::string name;
    int64_t bytes;
  };
  std::string& begin_fact(std::string_view key, uint32_t type);
  Status open();
  Status take_name();
  Status put(std::span<const std::byte> bytes);
  Status system_error(const char* step) const;

  std::string path_, temporary_;
  const Existing existing_;
  std::optional<RemoveOnSignal> unfinished_;
  std::string facts_, table_;  // as they will stand in the file
  std::vector<std::string> keys_;
  std::vector<Entry> tensors_;
  int64_t data_bytes_ = 0;  // of all tensors, padded
  size_t current_ = 0;      // the tensor that write() is in
  int64_t written_ = 0;     // of its bytes
  int fd_ = -1;
  bool finished_ = false;
};

}  // namespace quire
