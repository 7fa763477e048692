#include "hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/bounded_reader.h"
#include "base/digest.h"
#include "base/fd.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kNameDigits = 12;  // of the digest, in a part's name

Error system_error(const std::string& path, const char* what) {
  const int error = errno;
  return {error == ENOSPC || error == EDQUOT ? Code::exhausted : Code::io,
          path + ": " + what + ": " + std::strerror(error)};
}

// The hub's digest of a file, computed over its bytes.
class Check {
 public:
  explicit Check(const HubFile& file)
      : wanted_(file.digest()),
        // git hashes a header before the bytes.
        header_(file.sha256.empty() ? "blob " + std::to_string(file.size) + std::string(1, '\0') : ""),
        digest_(file.sha256.empty() ? Digest::Kind::sha1 : Digest::Kind::sha256) {
    restart();
  }
  void restart() {
    digest_.restart();
    digest_.update(header_);
  }
  void update(std::string_view bytes) { digest_.update(bytes); }
  const std::string& wanted() const { return wanted_; }  // empty: the hub names none
  std::string found() { return digest_.hex(); }

 private:
  const std::string wanted_, header_;
  Digest digest_;
};

// Adds up the first `n_bytes` of a file. False where there are fewer.
Result<bool> add_up(int fd, int64_t n_bytes, Check& check, const std::function<void(int64_t)>& at) {
  std::vector<char> buffer(kReadBytes);
  for (int64_t done = 0; done < n_bytes;) {
    const ssize_t n = ::pread(fd, buffer.data(), std::min(buffer.size(), static_cast<size_t>(n_bytes - done)), done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return tl::make_unexpected(system_error("", "cannot be read"));
    if (n == 0) return false;
    check.update({buffer.data(), static_cast<size_t>(n)});
    done += n;
    at(done);
  }
  return true;
}

// The part file: what is there is added up, what comes is appended.
class PartFile final : public HubSink {
 public:
  PartFile(const Download& what, const DownloadProgress& progress, std::string path)
      : what_(what),
        progress_(progress),
        path_(std::move(path)),
        check_(what.file),
        fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {}

  Status open() {
    if (fd_.get() < 0) return tl::make_unexpected(system_error(path_, "cannot be written"));
    struct stat info{};
    if (::fstat(fd_.get(), &info) != 0) return tl::make_unexpected(system_error(path_, "cannot be read"));
    // Without a digest nobody knows what a part is the beginning of.
    if (info.st_size == 0 || info.st_size > what_.file.size || check_.wanted().empty()) return restart();
    auto all = add_up(fd_.get(), info.st_size, check_, [&](int64_t done) { progress_(what_, true, done); });
    if (!all) return error_within(path_, all.error());
    have_ = info.st_size;
    return {};
  }

  int64_t from() const override { return have_; }
  bool complete() const override { return have_ == what_.file.size; }
  int64_t fetched_bytes() const { return fetched_; }
  const std::optional<Error>& error() const { return error_; }

  bool begin(const HubAnswer& answer) override {
    const bool whole = answer.status == 200;
    if (!whole && answer.range_from != have_) {
      return stop({Code::corrupt, "the hub sends bytes from " + std::to_string(answer.range_from) + " on, asked were " +
                                      "those from " + std::to_string(have_) + " on"});
    }
    const int64_t all_bytes = whole ? answer.content_bytes : answer.range_of;
    if (all_bytes >= 0 && all_bytes != what_.file.size) {
      return stop({Code::corrupt, "the hub sends a file of " + std::to_string(all_bytes) + " bytes, its listing says " +
                                      std::to_string(what_.file.size)});
    }
    return !whole || have_ == 0 || begin_anew();  // it knows no ranges
  }

  bool begin_anew() override {
    const Status empty = restart();
    return empty || stop(empty.error());
  }

  bool take(std::string_view bytes) override {
    if (static_cast<int64_t>(bytes.size()) > what_.file.size - have_) {
      return stop({Code::corrupt,
                   "the hub sends more than the " + std::to_string(what_.file.size) + " bytes that its listing says"});
    }
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done, have_);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return stop(system_error(path_, "cannot be written"));
      check_.update(bytes.substr(done, static_cast<size_t>(n)));
      done += static_cast<size_t>(n);
      have_ += n;
      fetched_ += n;
    }
    progress_(what_, false, have_);
    return true;
  }

  Status restart() {
    if (::ftruncate(fd_.get(), 0) != 0) return tl::make_unexpected(system_error(path_, "cannot be written"));
    check_.restart();
    have_ = 0;
    return {};
  }

  // The whole file gets its name.
  Status finish() {
    const std::string found = check_.found();
    if (!check_.wanted().empty() && found != check_.wanted()) return wrong(found);
    if (::fsync(fd_.get()) != 0) return tl::make_unexpected(system_error(path_, "cannot be written"));
    if (::rename(path_.c_str(), what_.target.c_str()) != 0)
      return tl::make_unexpected(system_error(what_.target, "cannot be written"));
    return {};
  }

 private:
  bool stop(Error error) {
    error_ = std::move(error);
    return false;
  }
  Status wrong(const std::string& found) {
    const std::string kept = what_.target + ".wrong";
    const bool moved = ::rename(path_.c_str(), kept.c_str()) == 0;
    return fail(Code::corrupt, what_.target + ": its bytes are not those of the hub's listing: expected " +
                                   (what_.file.sha256.empty() ? "git's SHA-1 " : "SHA-256 ") + check_.wanted() +
                                   ", got " + found + "; what came is kept as " + (moved ? kept : path_) +
                                   ", and another pull begins anew");
  }

  const Download& what_;
  const DownloadProgress& progress_;
  const std::string path_;
  Check check_;
  const Fd fd_;
  int64_t have_ = 0, fetched_ = 0;
  std::optional<Error> error_;
};

std::string part_path(const Download& what) {
  const std::string& digest = what.file.digest();
  return what.target + (digest.empty() ? "" : "." + digest.substr(0, kNameDigits)) + ".part";
}

// Whether the target is there, whole and right. Another file of its name is an error unless it may be replaced.
Result<bool> is_here(const Download& what, const DownloadProgress& progress) {
  struct stat info{};
  if (::stat(what.target.c_str(), &info) != 0) {
    if (errno == ENOENT) return false;
    return tl::make_unexpected(system_error(what.target, "cannot be read"));
  }
  if (!S_ISREG(info.st_mode)) return fail(Code::invalid, what.target + ": is there and no file");
  Check check(what.file);
  bool same = info.st_size == what.file.size;
  if (same && !check.wanted().empty()) {
    const Fd fd(::open(what.target.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return tl::make_unexpected(system_error(what.target, "cannot be read"));
    auto all = add_up(fd.get(), info.st_size, check, [&](int64_t done) { progress(what, true, done); });
    if (!all) return error_within(what.target, all.error());
    same = *all && check.found() == check.wanted();
  }
  if (same || what.replace) return same;
  return fail(Code::invalid,
              what.target + ": is there with other bytes than the hub's: move it away, or say --replace");
}

}  // namespace

int64_t missing_bytes(const Download& what) {
  std::error_code error;
  if (fs::exists(what.target, error)) return 0;
  const uintmax_t part = fs::file_size(part_path(what), error);
  return error || part > static_cast<uintmax_t>(what.file.size) ? what.file.size
                                                                : what.file.size - static_cast<int64_t>(part);
}

Result<DownloadResult> download(Hub& hub, const Download& what, const DownloadProgress& progress) {
  QR_TRY(const bool here, is_here(what, progress));
  if (here) return DownloadResult{.was_here = true};
  std::error_code error;
  const fs::path folder = fs::path(what.target).parent_path();
  fs::create_directories(folder, error);
  if (error) return fail(Code::io, folder.string() + ": cannot be made: " + error.message());
  PartFile part(what, progress, part_path(what));
  QR_TRY_VOID(part.open());
  Status fetched = hub.fetch(what.id, what.commit, what.file, part);
  if (part.error()) return error_within(what.file.path, *part.error());
  QR_TRY_VOID(fetched);
  QR_TRY_VOID(part.finish());
  return DownloadResult{.fetched_bytes = part.fetched_bytes()};
}

}  // namespace quire
