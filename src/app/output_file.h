// Files that commands write: never in place of what they read, and never left half written.
#pragma once
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/process.h"
#include "base/result.h"
#include "io/model_file.h"

namespace quire {

// `said_as` is the argument or option that names `out`: "OUT", "--out". All are Code::invalid with both, and pass where
// `out` is empty or nothing has this name yet. They read names alone, and write nothing.

// Where `out` is one of `read` (one device and inode, whatever the names), or lies in a folder that is one of `read`.
// Empty names in `read` are none.
Status check_not_read(std::string_view said_as, const std::string& out, std::span<const std::string> read);
// Where `out` is a file of a model that is open: its other parts, too.
Status check_not_part(std::string_view said_as, const std::string& out, const ModelFile& model);
// Both for the model at `path`. A model of several files is opened for it; errors as open_model's.
Status check_not_model(std::string_view said_as, const std::string& out, const std::string& path);
// Where `out` is a folder, pipe or device, for what takes a file's place as a whole.
Status check_may_be_replaced(std::string_view said_as, const std::string& out);

// A file that is written from its beginning to its end. A regular one is written beside its place, which it takes in
// finish(): readers meet the old file or the whole new one, and nothing stays of it where the owner, or a signal that
// ends the process, comes before (a signal removes the first alone of several at once). A pipe or device is written as
// it is. One thread.
class OutputFile {
 public:
  // Code::io names the file and the system's reason, as in all that follow.
  static Result<std::unique_ptr<OutputFile>> create(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  Status write(const void* data, size_t bytes);
  Status finish();  // once; nothing is written after it

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  Status system_error(const char* step) const;

  const std::string path_;                    // as it was given
  std::string place_, temporary_;             // the file behind links; empty for what is no regular file
  std::optional<RemoveOnSignal> unfinished_;  // of temporary_
  std::FILE* file_ = nullptr;
};

}  // namespace quire
