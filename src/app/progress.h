// One line on stderr that tells how far long work is: on a terminal rewritten a few times a second, elsewhere a line of
// the log every ten seconds. Any thread.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>

namespace quire {

class Progress {
 public:
  enum class Unit { none, bytes };

  // `what` stands before the bar: "model.gguf". `total` 0: unknown, only a count is shown.
  Progress(std::string what, int64_t total, Unit unit = Unit::none);
  ~Progress();  // clears a terminal's line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t done);
  void update(int64_t done, int64_t total);
  void clear();  // what is printed next begins a terminal's line; the next update draws again

 private:
  const bool terminal_;
  const std::string what_;
  const Unit unit_;
  std::mutex mu_;
  int64_t total_, next_ns_ = 0;
  int64_t first_ns_ = 0, first_ = -1;  // what had been done when the first was told
  bool drawn_ = false;
};

// What the line says: "x [#####.....] 50 %", or "x 17" where the total is not known.
std::string progress_line(const std::string& what, int64_t done, int64_t total);

// What follows it: "  1.2 GB of 2.4 GB, 60.0 MB/s, 0:20 left" where bytes are counted, "  17 of 272, 0.5/s, 8:30 left"
// otherwise. `per_s` below 1e-9: not known yet.
std::string amount_progress(Progress::Unit unit, int64_t done, int64_t total, double per_s);

}  // namespace quire
