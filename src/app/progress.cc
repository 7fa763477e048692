#include "app/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"

namespace quire {
namespace {

constexpr int64_t kEveryNs = 200'000'000;
constexpr int64_t kWidth = 30;

}  // namespace

std::string progress_line(const std::string& what, int64_t done, int64_t total) {
  if (total <= 0) return what + " " + std::to_string(done);
  const int64_t at = std::clamp<int64_t>(done, 0, total);
  // In floating point: the product of two byte counts need not fit.
  const double share = static_cast<double>(at) / static_cast<double>(total);
  const auto filled = static_cast<size_t>(share * static_cast<double>(kWidth));
  return what + " [" + std::string(filled, '#') + std::string(static_cast<size_t>(kWidth) - filled, '.') + "] " +
         std::to_string(static_cast<int>(share * 100)) + " %";
}

Progress::Progress(std::string what, int64_t total)
    : shown_(isatty(STDERR_FILENO) != 0), what_(std::move(what)), total_(total) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(int64_t done) { update(done, total_); }

void Progress::update(int64_t done, int64_t total) {
  if (!shown_) return;
  const int64_t now = SystemClock().now_ns();
  const std::lock_guard lock(mu_);
  total_ = total;
  if (now < next_ns_) return;
  next_ns_ = now + kEveryNs;
  drawn_ = true;
  std::fprintf(stderr, "\r%s\x1b[K", progress_line(what_, done, total).c_str());
}

}  // namespace quire
