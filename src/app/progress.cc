#include "app/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/log.h"
#include "base/size_text.h"

namespace quire {
namespace {

constexpr int64_t kEveryNs = 200'000'000, kEveryLineNs = 10'000'000'000;
constexpr int64_t kWidth = 30;
constexpr double kLongestLeftS = 360'000;  // 100 hours; beyond that a guess says nothing

std::string rate_text(bool bytes, double per_s) {
  if (bytes) return per_s >= 1 ? ", " + size_text(static_cast<int64_t>(per_s)) + "/s" : "";
  char text[32];
  std::snprintf(text, sizeof text, per_s >= 10 ? ", %.0f/s" : ", %.1f/s", std::min(per_s, 1e15));
  return per_s >= 0.05 ? text : "";
}

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

std::string amount_progress(Progress::Unit unit, int64_t done, int64_t total, double per_s) {
  const bool bytes = unit == Progress::Unit::bytes;
  std::string out = "  " + (bytes ? size_text(done) : std::to_string(done));
  if (total > 0) out += " of " + (bytes ? size_text(total) : std::to_string(total));
  if (!(per_s >= 1e-9)) return out;
  out += rate_text(bytes, per_s);
  const double left_s = static_cast<double>(total - done) / per_s;
  if (total <= 0 || !(left_s < kLongestLeftS)) return out;
  const auto s = static_cast<int>(std::max(left_s, 0.0));
  char text[32];
  if (s < 3600) {
    std::snprintf(text, sizeof text, ", %d:%02d left", s / 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, ", %d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
  }
  return out + text;
}

Progress::Progress(std::string what, int64_t total, Unit unit)
    : terminal_(isatty(STDERR_FILENO) != 0), what_(std::move(what)), unit_(unit), total_(total) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  const std::lock_guard lock(mu_);
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
  next_ns_ = 0;
}

void Progress::update(int64_t done) { update(done, total_); }

void Progress::update(int64_t done, int64_t total) {
  const int64_t now = SystemClock().now_ns();
  const std::lock_guard lock(mu_);
  total_ = total;
  if (first_ < 0) {
    first_ = done;
    first_ns_ = now;
    if (!terminal_) next_ns_ = now + kEveryLineNs;
  }
  if (now < next_ns_) return;
  next_ns_ = now + (terminal_ ? kEveryNs : kEveryLineNs);
  const double seconds = static_cast<double>(now - first_ns_) / 1e9;
  const double rate = seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
  if (!terminal_) {
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    log_info(what_ + ":" + (total > 0 ? " " + std::to_string(static_cast<int>(share * 100)) + " %" : "") +
             amount_progress(unit_, done, total, rate));
    return;
  }
  drawn_ = true;
  std::fprintf(stderr, "\r%s%s\x1b[K", progress_line(what_, done, total).c_str(),
               total > 0 || unit_ == Unit::bytes ? amount_progress(unit_, done, total, rate).c_str() : "");
}

}  // namespace quire
