#include "http/response_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

namespace quire {
namespace {

constexpr std::array<std::string_view, 4> kOwnFields = {"content-length", "transfer-encoding", "connection", "date"};

bool is_own_field(std::string_view name) {
  return std::any_of(kOwnFields.begin(), kOwnFields.end(), [&](auto own) { return equal_no_case(own, name); });
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  const size_t at = out.size();
  out += value;
  std::replace_if(
      out.begin() + static_cast<std::ptrdiff_t>(at), out.end(),
      [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  out += "\r\n";
}

void append_two(std::string& out, int v) {
  out += static_cast<char>('0' + v / 10 % 10);
  out += static_cast<char>('0' + v % 10);
}

}  // namespace

void append_head(std::string& out, const ResponseHead& head) {
  out.append("HTTP/1.1 ").append(std::to_string(head.status)).append(" ");
  out.append(status_phrase(head.status)).append("\r\n");
  if (head.headers != nullptr)
    for (const HttpHeader& h : *head.headers)
      if (!is_own_field(h.name)) append_field(out, h.name, h.value);
  append_field(out, "Date", head.date);
  if (head.content_length >= 0) append_field(out, "Content-Length", std::to_string(head.content_length));
  if (head.chunked) append_field(out, "Transfer-Encoding", "chunked");
  if (head.close)
    append_field(out, "Connection", "close");
  else if (head.keep_alive_10)
    append_field(out, "Connection", "keep-alive");
  out += "\r\n";
}

std::string_view chunk_head(ChunkHead& buffer, size_t n_bytes) {
  char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), n_bytes, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return {buffer.data(), static_cast<size_t>(end - buffer.data())};
}

// By hand: strftime would follow the process's locale.
std::string http_date(int64_t seconds) {
  static constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto t = static_cast<time_t>(seconds);
  std::tm tm{};
  gmtime_r(&t, &tm);
  std::string out(kDays.substr(static_cast<size_t>(tm.tm_wday) * 3, 3));
  out += ", ";
  append_two(out, tm.tm_mday);
  out.append(" ").append(kMonths.substr(static_cast<size_t>(tm.tm_mon) * 3, 3)).append(" ");
  out.append(std::to_string(tm.tm_year + 1900)).append(" ");
  append_two(out, tm.tm_hour);
  out += ':';
  append_two(out, tm.tm_min);
  out += ':';
  append_two(out, tm.tm_sec);
  return out + " GMT";
}

}  // namespace quire
