// One line on stderr that tells how far long work is, rewritten a few times a second. Nothing is printed unless stderr
// is a terminal. Any thread.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>

namespace quire {

class Progress {
 public:
  // `what` stands before the bar: "model.gguf". `total` 0: unknown, only a count is shown.
  Progress(std::string what, int64_t total);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t done);
  void update(int64_t done, int64_t total);

 private:
  const bool shown_;
  const std::string what_;
  std::mutex mu_;
  int64_t total_, next_ns_ = 0;
  bool drawn_ = false;
};

// What the line says: "x [#####.....] 50 %", or "x 17" where the total is not known.
std::string progress_line(const std::string& what, int64_t done, int64_t total);

}  // namespace quire
