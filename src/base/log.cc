// A line is made printable before it is written, so that no text from outside can forge a second one or drive the
// terminal: control characters, C1 controls and broken UTF-8 are escaped.
#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>

#include "base/check.h"

namespace quire {
namespace {

struct LogState {
  std::atomic<LogLevel> level{LogLevel::info};
  std::atomic<uint64_t> n_dropped{0};  // by writers that have ended, and without one
  std::mutex mu;
  std::unique_ptr<LineWriter> writer;  // guarded by mu
};

LogState& state() {
  // Never destroyed: threads that outlive main may still log.
  static LogState* const instance = new LogState;
  return *instance;
}

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warn: return "warning";
    case LogLevel::error: return "error";
  }
  return "error";
}

// 2026-01-31T12:34:56.789Z
std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(now));
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(ms));
  return text;
}

void append_hex(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\x";
  out += kHex[c >> 4];
  out += kHex[c & 15];
}

// Bytes of the UTF-8 sequence that `lead` opens; 0 for a byte that opens none.
size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

bool is_printable(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.empty() || byte(0) < 0x20 || byte(0) == 0x7f) return false;
  if (sequence.size() != sequence_length(byte(0))) return false;
  for (size_t i = 1; i < sequence.size(); ++i) {
    if ((byte(i) & 0xc0) != 0x80) return false;
  }
  if (byte(0) == 0xc2 && byte(1) < 0xa0) return false;                             // C1 controls
  const bool line_end = sequence == "\xE2\x80\xA8" || sequence == "\xE2\x80\xA9";  // LINE and PARAGRAPH SEPARATOR
  return !line_end;
}

std::string printable(std::string_view message) {
  std::string out;
  out.reserve(message.size());
  for (size_t at = 0; at < message.size();) {
    const auto c = static_cast<unsigned char>(message[at]);
    const std::string_view sequence = message.substr(at, std::max<size_t>(sequence_length(c), 1));
    if (is_printable(sequence)) {
      out += sequence;
      at += sequence.size();
      continue;
    }
    if (c == '\n') {
      out += "\\n";
    } else {
      append_hex(out, c);
    }
    ++at;
  }
  return out;
}

std::string head(LogLevel level) { return time_text() + " " + std::string(level_name(level)) + " "; }

std::string missing_notice(uint64_t n) {
  return head(LogLevel::warn) + "log: " + std::to_string(n) + " lines dropped here: stderr was not read";
}

}  // namespace

void set_log_level(LogLevel level) { state().level = level; }

void log(LogLevel level, std::string_view message) {
  if (level < state().level.load()) return;
  try {
    log_line(head(level) + printable(message));
  } catch (const std::bad_alloc&) {
    ++state().n_dropped;
  }
}

void log_line(std::string_view line) {
  LogState& s = state();
  std::lock_guard lock(s.mu);
  if (s.writer) return s.writer->write(line);
  const std::string whole = std::string(line) + "\n";
  if (write_within(STDERR_FILENO, whole, -1) < whole.size()) ++s.n_dropped;
}

uint64_t n_log_lines_dropped() {
  LogState& s = state();
  std::lock_guard lock(s.mu);
  return s.n_dropped + (s.writer ? s.writer->n_dropped() : 0);
}

void flush_log() {
  LogState& s = state();
  std::lock_guard lock(s.mu);
  if (s.writer) s.writer->flush(LineLimits().patience_ms);
}

void log_last(std::string_view line) {
  flush_log();
  write_within(STDERR_FILENO, std::string(line) + "\n", LineLimits().patience_ms);
}

LogThread::LogThread() {
  auto writer = std::make_unique<LineWriter>(STDERR_FILENO, LineLimits(), missing_notice);
  {
    std::lock_guard lock(state().mu);
    writer.swap(state().writer);
  }
  QR_CHECK(writer == nullptr, "two LogThreads");
}

LogThread::~LogThread() {
  LogState& s = state();
  std::unique_ptr<LineWriter> writer;
  {
    std::lock_guard lock(s.mu);
    writer = std::move(s.writer);
  }
  s.n_dropped += writer->n_dropped();
}

}  // namespace quire
