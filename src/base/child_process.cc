#include "base/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/line_writer.h"

namespace quire {
namespace {

struct Pipe {
  Fd read, write;
};

tl::unexpected<Error> failed(const std::string& what) { return fail(Code::io, what + ": " + std::strerror(errno)); }

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed("a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// A file without a name, so that a child which opens its input again finds all of it.
Result<Fd> make_input(const std::string& bytes) {
  if (bytes.empty()) return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Fd out(::memfd_create("input", MFD_CLOEXEC));
  if (out.get() < 0 || write_within(out.get(), bytes, -1) != bytes.size() || ::lseek(out.get(), 0, SEEK_SET) != 0)
    return failed("a file in memory");
  return out;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// What the child does until it is the program: what may be done between fork and exec, so no memory is asked for.
struct Birth {
  pid_t parent;
  int in, out, err, trouble;
  const char* program;
  char* const* arguments;
  char* const* environment;

  [[noreturn]] void run() const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);  // it ended before it could be named
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGXFSZ}) ::signal(number, SIG_DFL);
    if (::dup2(in, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2) {
      (void)::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
      ::execve(program, arguments, environment);
    }
    const int error = errno;
    (void)!::write(trouble, &error, sizeof error);
    ::_exit(127);
  }
};

}  // namespace

void PipeLines::add(std::string_view bytes, const std::function<void(std::string_view)>& line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (!cut_) held_ += bytes.substr(0, std::min(end, kMostBytes - held_.size()));
    const bool is_whole = end != std::string_view::npos;
    if (!cut_ && (is_whole || held_.size() == kMostBytes)) {
      line(held_);
      held_.clear();
      cut_ = !is_whole;
    } else if (is_whole) {
      cut_ = false;
    }
    bytes.remove_prefix(is_whole ? end + 1 : bytes.size());
  }
}

void PipeLines::take(const std::function<void(std::string_view)>& line) {
  std::array<char, 4096> bytes;
  while (fd_.get() >= 0) {
    const ssize_t n = ::read(fd_.get(), bytes.data(), bytes.size());
    if (n > 0) {
      add({bytes.data(), static_cast<size_t>(n)}, line);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    fd_ = Fd();
    if (!held_.empty()) line(held_);
    held_.clear();
  }
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildSpec& spec) {
  QR_TRY(const Fd in, make_input(spec.input));
  if (in.get() < 0) return failed("/dev/null");
  QR_TRY(Pipe out, make_pipe());
  QR_TRY(Pipe err, make_pipe());
  QR_TRY(Pipe trouble, make_pipe());
  const std::vector<char*> arguments = pointers_to(spec.arguments), environment = pointers_to(spec.environment);
  const Birth birth{::getpid(),           in.get(),         out.write.get(),   err.write.get(), trouble.write.get(),
                    spec.program.c_str(), arguments.data(), environment.data()};
  const pid_t pid = ::fork();
  if (pid < 0) return failed("a process");
  if (pid == 0) birth.run();
  trouble.write = Fd();
  int error = 0;
  ssize_t n = 0;
  while ((n = ::read(trouble.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  for (const Pipe* pipe : {&out, &err}) ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  std::unique_ptr<ChildProcess> child(new ChildProcess(pid, std::move(out.read), std::move(err.read)));
  if (n == sizeof error) return fail(Code::io, spec.program + ": " + std::strerror(error));
  return child;
}

ChildProcess::~ChildProcess() {
  if (ended()) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::signal(int number) const {
  if (!end_) ::kill(pid_, number);
}

std::optional<std::string> ChildProcess::ended() {
  int status = 0;
  if (end_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return end_;
  end_ = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit code " + std::to_string(WEXITSTATUS(status));
  return end_;
}

std::vector<std::string> environment_without(std::string_view prefix) {
  std::vector<std::string> out;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at)
    if (!std::string_view(*at).starts_with(prefix)) out.emplace_back(*at);
  return out;
}

}  // namespace quire
