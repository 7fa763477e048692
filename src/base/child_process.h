// Another program that runs for this one and never outlives it. The one idea: the kernel itself kills the child when
// the thread that started it ends, so whatever becomes of us, nothing is left behind. It is a group of its own: a
// signal from the terminal reaches it through its owner alone. Of the thread that started it, which must live as long
// as the child is to.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace quire {

struct ChildSpec {
  std::string program;                   // a path
  std::vector<std::string> arguments;    // the first is what it is called
  std::vector<std::string> environment;  // NAME=VALUE, all of it
  std::string input;                     // what its standard input holds, and then ends
};

// Lines from a pipe that is not waited for; one that is longer than kMostBytes comes cut to it.
class PipeLines {
 public:
  static constexpr size_t kMostBytes = 4096;
  explicit PipeLines(Fd fd) : fd_(std::move(fd)) {}
  PipeLines(const PipeLines&) = delete;
  PipeLines& operator=(const PipeLines&) = delete;

  // Calls line() for every line that is there, without its end; a last one without an end too, when the writer is gone.
  void take(const std::function<void(std::string_view line)>& line);
  // To wait for; −1: nothing comes any more.
  int fd() const { return fd_.get(); }

 private:
  void add(std::string_view bytes, const std::function<void(std::string_view)>& line);
  Fd fd_;
  std::string held_;
  bool cut_ = false;  // the rest of the line is passed over
};

class ChildProcess {
 public:
  // Fails (Code::io) where the program cannot be started, saying why.
  static Result<std::unique_ptr<ChildProcess>> start(const ChildSpec& spec);
  ~ChildProcess();  // kills it, if it has not ended, and waits
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Nothing where it has ended.
  void signal(int number) const;
  // How it ended, "exit code 1" or "signal 9"; nullopt while it runs. Never waits.
  std::optional<std::string> ended();
  PipeLines& out() { return out_; }
  PipeLines& err() { return err_; }

 private:
  ChildProcess(pid_t pid, Fd out, Fd err) : pid_(pid), out_(std::move(out)), err_(std::move(err)) {}
  const pid_t pid_;
  std::optional<std::string> end_;
  PipeLines out_, err_;
};

// The variables of this process, without those whose name begins so.
std::vector<std::string> environment_without(std::string_view prefix);

}  // namespace quire
