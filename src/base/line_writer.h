// Lines to a file descriptor whose other end may be slow, stuck or gone: whoever writes a line never waits for it. The
// one idea: lines go to a queue with a bound in bytes and in lines, and one thread of its own hands them on. What does
// not fit, or what the descriptor refuses, is dropped and counted, and once lines flow again one of them says how many
// are missing at that place. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace quire {

struct LineLimits {
  size_t bytes = 1 << 20;  // waiting and being written together, line ends included
  size_t lines = 8192;     // likewise
  int patience_ms = 2000;  // that the end waits for a reader that is stuck
};

class LineWriter {
 public:
  // The line (without its end) that stands where `n` lines are missing.
  using Notice = std::string (*)(uint64_t n);

  // `fd` stays the caller's and must be open as long as the writer lives; longer where the writer's end had to give up.
  LineWriter(int fd, LineLimits limits, Notice notice);
  // Hands on what is queued; after `patience_ms` without an end of it, it leaves the rest and its thread behind.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Queues `line`, to which the end is added. Never waits for the reader, allocates nothing.
  void write(std::string_view line);
  // Whether all that was queued before has been handed on (or dropped), after at most `ms`.
  bool flush(int ms);
  // Since it began. Counts what did not fit at once and what was refused when that is known.
  uint64_t n_dropped() const;

 private:
  struct State;
  static void run(State& state);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive us
  std::thread thread_;
};

// Writes all of `text` to `fd`; gives up after `ms` without room for more (-1: never) and at an error (errno). The
// number of bytes that were written.
size_t write_within(int fd, std::string_view text, int ms);

}  // namespace quire
