#include "app/byte_size.h"

#include <exception>

namespace quire {

Result<int64_t> parse_bytes(const char* option, const std::string& text) {
  if (text == "auto") return 0;
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
  const bool known = unit.empty() || scale > 1;
  if (used == 0 || !known || !(value > 0) || value * static_cast<double>(scale) > 1e15) {
    return fail(Code::invalid, std::string(option) + " must be auto or a size such as 4G, got \"" + text + "\"");
  }
  return static_cast<int64_t>(value * static_cast<double>(scale));
}

}  // namespace quire
