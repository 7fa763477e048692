#include "app/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/mmap.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

bool is_there(const std::string& out) {
  std::error_code error;
  return !out.empty() && fs::exists(fs::symlink_status(out, error));
}

Error refusal(std::string_view said_as, const std::string& out, const std::string& why) {
  return {Code::invalid, std::string(said_as) + " " + out + " is " + why};
}

}  // namespace

Status check_not_read(std::string_view said_as, const std::string& out, std::span<const std::string> read) {
  if (!is_there(out)) return {};
  std::error_code error;
  const fs::path folder = fs::path(out).has_parent_path() ? fs::path(out).parent_path() : fs::path(".");
  for (const std::string& path : read) {
    if (path.empty()) continue;
    if (!fs::equivalent(path, out, error) && !fs::equivalent(path, folder, error)) continue;
    return tl::make_unexpected(
        refusal(said_as, out, "what is read, under this name or another, or lies in its folder; name a new file"));
  }
  return {};
}

Status check_not_part(std::string_view said_as, const std::string& out, const ModelFile& model) {
  if (!is_there(out)) return {};
  std::error_code error;
  for (const auto& map : model.maps) {
    if (!fs::equivalent(map->path(), out, error)) continue;
    return tl::make_unexpected(refusal(said_as, out, "a part of what is read; name a new file"));
  }
  return {};
}

Status check_not_model(std::string_view said_as, const std::string& out, const std::string& path) {
  if (!is_there(out)) return {};
  QR_TRY_VOID(check_not_read(said_as, out, {&path, 1}));
  QR_TRY(const ModelFile model, open_model(path));
  return check_not_part(said_as, out, model);
}

Status check_may_be_replaced(std::string_view said_as, const std::string& out) {
  std::error_code error;
  if (!is_there(out) || fs::is_regular_file(out, error)) return {};
  return tl::make_unexpected(refusal(said_as, out, "there and is no file"));
}

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string& path) {
  std::unique_ptr<OutputFile> out(new OutputFile(path));
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    out->file_ = std::fopen(path.c_str(), "wbe");
    if (out->file_ == nullptr) return tl::make_unexpected(out->system_error("open").error());
    return out;
  }
  // Through a link the file that it names is replaced, and the link stays.
  const fs::path behind = fs::weakly_canonical(path, error);
  out->place_ = error ? path : behind.string();
  const std::string temporary = out->place_ + "." + std::to_string(getpid()) + ".tmp";
  out->unfinished_.emplace(temporary);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return tl::make_unexpected(out->system_error("create").error());
  out->temporary_ = temporary;
  out->file_ = ::fdopen(fd, "wb");
  QR_CHECK(out->file_ != nullptr);
  return out;
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::system_error(const char* step) const {
  return fail(Code::io, path_ + ": cannot " + step + ": " + std::generic_category().message(errno));
}

Status OutputFile::write(const void* data, size_t bytes) {
  return std::fwrite(data, 1, bytes, file_) == bytes ? Status{} : system_error("write");
}

Status OutputFile::finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return system_error("write");
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), place_.c_str()) != 0) return system_error("rename");
  temporary_.clear();
  unfinished_.reset();
  return {};
}

}  // namespace quire
