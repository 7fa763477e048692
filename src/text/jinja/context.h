// The budget, the memory and the first error of one rendering: what operators, filters and methods need of the
// interpreter. Functions that can fail return false after telling the Context why; callers pass the false on.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "text/jinja/arena.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace quire::jinja {

inline constexpr int kMaxValueDepth = 100;  // of lists in lists when they are printed or compared

class Context {
 public:
  Context(const TemplateLimits& limits, std::string_view now) : limits_(limits), now_(now), fuel_(limits.fuel) {}

  Arena& arena() { return arena_; }
  const TemplateLimits& limits() const { return limits_; }
  std::string_view now() const { return now_; }  // "YYYY-MM-DDTHH:MM:SS" or empty

  // Pays n steps. False when fuel or memory is used up.
  [[nodiscard]] bool step(int64_t n = 1) {
    fuel_ -= n;
    if (fuel_ < 0 || arena_.used() > limits_.memory_bytes) [[unlikely]]
      return out_of_budget();
    return true;
  }
  // Pays for looking at so many bytes.
  [[nodiscard]] bool scan(size_t bytes) { return step(static_cast<int64_t>(bytes >> 8)); }
  // Whether so many bytes more would fit; nothing is paid.
  [[nodiscard]] bool fits(size_t bytes) {
    const bool full = bytes > limits_.memory_bytes || arena_.used() > limits_.memory_bytes - bytes;
    return !full || out_of_memory();
  }
  // Pays for a new value of so many bytes, before it is made.
  [[nodiscard]] bool room(size_t bytes) { return fits(bytes) && step(static_cast<int64_t>(bytes >> 8)); }

  bool fail(std::string message) { return fail_with(Code::invalid, std::move(message)); }
  // The use of an undefined value where a value is needed.
  bool fail_undefined(const Value& v);

  void at_line(int line) { line_ = line; }
  int line() const { return line_; }
  bool failed() const { return failed_; }
  // "chat template, line N: …". REQUIRES failed().
  Error error() const;

 private:
  bool fail_with(Code code, std::string message);
  bool out_of_budget();
  bool out_of_memory();

  const TemplateLimits& limits_;
  std::string_view now_;
  Arena arena_;
  int64_t fuel_;
  int line_ = 0;
  bool failed_ = false;
  Error error_;
};

// Text shown inside an error: cut at 1000 bytes.
std::string excerpt(std::string_view text, size_t limit = 1000);

}  // namespace quire::jinja
