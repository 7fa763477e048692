#include "base/line_writer.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/thread.h"

namespace quire {

struct LineWriter::State {
  State(int file, LineLimits most, Notice how) : fd(file), limits(most), notice(how) {
    pending.reserve(limits.bytes);
    batch.reserve(limits.bytes);
  }

  const int fd;
  const LineLimits limits;
  const Notice notice;
  std::atomic<uint64_t> n_dropped{0};

  std::mutex mu;
  std::condition_variable work, done;
  std::string pending;                    // lines with their ends
  size_t n_pending = 0;                   // lines
  size_t busy_bytes = 0, busy_lines = 0;  // in the thread's hands
  uint64_t n_missing = 0;                 // dropped after what is pending
  bool busy = false, closing = false, ended = false;

  std::string batch;       // the thread's
  uint64_t n_unsaid = 0;   // the thread's: lost, and no line says so yet
  bool in_a_line = false;  // the thread's: what was written last was no whole line

  bool idle() const { return pending.empty() && n_missing == 0 && !busy; }
  bool put(std::string_view text);
  void say();
  void deliver(uint64_t n_after);
};

// False at an error of the descriptor; what it took before is gone.
bool LineWriter::State::put(std::string_view text) {
  if (in_a_line && write_within(fd, "\n", -1) == 1) in_a_line = false;
  const size_t n = write_within(fd, text, -1);
  if (n > 0) in_a_line = text[n - 1] != '\n';
  if (n == text.size()) return true;
  const auto n_lost = static_cast<uint64_t>(std::count(text.begin() + static_cast<ptrdiff_t>(n), text.end(), '\n'));
  n_unsaid += n_lost;
  return false;
}

void LineWriter::State::say() {
  const uint64_t n = n_unsaid;
  if (n > 0 && put(notice(n) + "\n")) n_unsaid = 0;
  n_unsaid = std::min(n_unsaid, n);  // a notice that was lost is none of the lines
}

// Writes the batch, and says that `n_after` lines are missing behind it.
void LineWriter::State::deliver(uint64_t n_after) {
  say();
  const uint64_t before = n_unsaid;
  const bool well = put(batch);
  n_dropped += n_unsaid - before;
  n_unsaid += n_after;
  if (well) say();
}

LineWriter::LineWriter(int fd, LineLimits limits, Notice notice)
    : state_(std::make_shared<State>(fd, limits, notice)), thread_([state = state_] { run(*state); }) {}

LineWriter::~LineWriter() {
  std::unique_lock lock(state_->mu);
  state_->closing = true;
  state_->work.notify_one();
  const bool ended = state_->done.wait_for(lock, std::chrono::milliseconds(state_->limits.patience_ms),
                                           [this] { return state_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void LineWriter::run(State& s) {
  // A reader that has gone is an error of write() here, whatever the process does with the signal.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  set_thread_name("quire-lines");
  std::unique_lock lock(s.mu);
  for (;;) {
    s.work.wait(lock, [&s] { return !s.pending.empty() || s.n_missing > 0 || s.closing; });
    if (s.pending.empty() && s.n_missing == 0) break;
    s.busy = true;
    s.batch.swap(s.pending);
    s.busy_bytes = s.batch.size();
    s.busy_lines = std::exchange(s.n_pending, 0);
    const uint64_t n_after = std::exchange(s.n_missing, 0);
    lock.unlock();
    s.deliver(n_after);
    s.batch.clear();
    lock.lock();
    s.busy_bytes = s.busy_lines = 0;
    s.busy = false;
    s.done.notify_all();
  }
  s.ended = true;
  s.done.notify_all();
}

void LineWriter::write(std::string_view line) {
  State& s = *state_;
  {
    std::lock_guard lock(s.mu);
    const bool fits = s.pending.size() + s.busy_bytes + line.size() + 1 <= s.limits.bytes &&
                      s.n_pending + s.busy_lines < s.limits.lines;
    // Once one was dropped, so are those behind it until the thread comes by: the gap is at one place.
    if (!fits || s.n_missing > 0) {
      ++s.n_missing;
      ++s.n_dropped;
    } else {
      s.pending.append(line).push_back('\n');
      ++s.n_pending;
    }
  }
  s.work.notify_one();
}

bool LineWriter::flush(int ms) {
  std::unique_lock lock(state_->mu);
  return state_->done.wait_for(lock, std::chrono::milliseconds(ms), [this] { return state_->idle(); });
}

uint64_t LineWriter::n_dropped() const { return state_->n_dropped; }

size_t write_within(int fd, std::string_view text, int ms) {
  size_t n = 0;
  while (n < text.size()) {
    pollfd ready{fd, POLLOUT, 0};
    const int n_ready = ms < 0 ? 1 : ::poll(&ready, 1, ms);
    if (n_ready == 0) break;
    // A pipe that has room at all has it for so much: no wait in here.
    const size_t most = ms < 0 ? text.size() - n : std::min<size_t>(text.size() - n, PIPE_BUF);
    const ssize_t taken = n_ready < 0 ? -1 : ::write(fd, text.data() + n, most);
    if (taken >= 0) {
      n += static_cast<size_t>(taken);
    } else if (errno == EAGAIN && ms < 0) {  // somebody else's flag on a file that we share
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR && errno != EAGAIN) {
      break;
    }
  }
  return n;
}

}  // namespace quire
