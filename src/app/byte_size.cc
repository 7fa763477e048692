#include "app/byte_size.h"

#include <exception>

namespace quire {

namespace {

// 0: `text` is none.
int64_t bytes_of(const std::string& text) {
  size_t used = 0;
  int64_t scale = 1;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  if (unit == "K" || unit == "KiB") scale = int64_t{1} << 10;
  if (unit == "M" || unit == "MiB") scale = int64_t{1} << 20;
  if (unit == "G" || unit == "GiB") scale = int64_t{1} << 30;
  if (unit == "T" || unit == "TiB") scale = int64_t{1} << 40;
  const bool known = unit.empty() || scale > 1;
  if (used == 0 || !known || !(value > 0) || value * static_cast<double>(scale) > 1e15) return 0;
  return static_cast<int64_t>(value * static_cast<double>(scale));
}

Result<int64_t> parse(const char* option, const char* wanted, const std::string& text) {
  if (const int64_t bytes = bytes_of(text); bytes > 0) return bytes;
  return fail(Code::invalid, std::string(option) + " must be " + wanted + " such as 4G, got \"" + text + "\"");
}

}  // namespace

Result<int64_t> parse_bytes(const char* option, const std::string& text) { return parse(option, "a size", text); }

Result<int64_t> parse_bytes_or_auto(const char* option, const std::string& text) {
  if (text == "auto") return 0;
  return parse(option, "auto or a size", text);
}

}  // namespace quire
