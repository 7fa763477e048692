#include "text/jinja/strftime.h"

#include <array>
#include <charconv>
#include <chrono>
#include <ctime>

namespace quire::jinja {
namespace {

struct Moment {
  std::tm tm{};
  std::string micros = "000000";
};

// Reads `digits` digits at `at`, which moves past them.
bool read_number(std::string_view text, size_t& at, size_t digits, int& out) {
  const std::string_view part = text.substr(std::min(at, text.size()), digits);
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), out);
  at += digits;
  return part.size() == digits && parsed.ec == std::errc() && parsed.ptr == part.data() + digits && part[0] != '-';
}

bool read_moment(std::string_view text, Moment& out) {
  int year = 0, month = 0, day = 0;
  std::tm& tm = out.tm;
  size_t at = 0;
  const auto skip = [&](std::string_view any) {
    return at < text.size() && any.find(text[at++]) != std::string_view::npos;
  };
  const bool read = read_number(text, at, 4, year) && skip("-") && read_number(text, at, 2, month) && skip("-") &&
                    read_number(text, at, 2, day) && skip("T ") && read_number(text, at, 2, tm.tm_hour) && skip(":") &&
                    read_number(text, at, 2, tm.tm_min) && skip(":") && read_number(text, at, 2, tm.tm_sec);
  if (!read || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 59 || year < 1) return false;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return false;
  if (at < text.size()) {
    const std::string_view fraction = text.substr(at + 1);
    if (text[at] != '.' || fraction.empty() || fraction.size() > 9) return false;
    if (fraction.find_first_not_of("0123456789") != std::string_view::npos) return false;
    out.micros = (std::string(fraction) + "000000").substr(0, 6);
  }
  const std::chrono::sys_days days(date);
  const std::chrono::sys_days first(date.year() / 1 / 1);
  tm.tm_year = year - 1900;
  tm.tm_mon = month - 1;
  tm.tm_mday = day;
  tm.tm_wday = static_cast<int>(std::chrono::weekday(days).c_encoding());
  tm.tm_yday = static_cast<int>((days - first).count());
  tm.tm_isdst = -1;
  return true;
}

// %f, %z and %Z are Python's own; the rest is the C library's.
std::string python_directives(std::string_view format, const std::string& micros) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const char c = format[++i];
    if (c == 'f') {
      out += micros;
    } else if (c != 'z' && c != 'Z') {
      out += '%';
      out += c;
    }
  }
  return out;
}

}  // namespace

Result<std::string> format_time(std::string_view now, std::string_view format) {
  constexpr size_t kMaxFormat = 256;
  if (now.empty()) return fail(Code::invalid, "the current time was not given");
  Moment moment;
  if (!read_moment(now, moment)) return fail(Code::invalid, "the current time must be YYYY-MM-DDTHH:MM:SS");
  if (format.size() > kMaxFormat) return fail(Code::invalid, "the format is longer than 256 bytes");
  // A blank in front tells an empty result from one that does not fit: strftime returns 0 for both.
  const std::string directives = " " + python_directives(format, moment.micros);
  std::array<char, 4096> buffer{};
  const size_t n = std::strftime(buffer.data(), buffer.size(), directives.c_str(), &moment.tm);
  if (n == 0) return fail(Code::invalid, "the result is longer than 4096 bytes");
  return std::string(buffer.data() + 1, n - 1);
}

}  // namespace quire::jinja
