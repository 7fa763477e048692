#include "base/check.h"

#include <cstdlib>

#include "base/log.h"
#include "base/result.h"

namespace quire {

void check_failed(const char* file, int line, const char* expr, const std::string& detail) {
  log_last(std::string(file) + ":" + std::to_string(line) + ": check failed: " + expr + " " + detail);
  std::abort();
}

std::string_view code_name(Code code) {
  switch (code) {
    case Code::invalid: return "invalid";
    case Code::not_found: return "not_found";
    case Code::unsupported: return "unsupported";
    case Code::exhausted: return "exhausted";
    case Code::cancelled: return "cancelled";
    case Code::timeout: return "timeout";
    case Code::corrupt: return "corrupt";
    case Code::io: return "io";
    case Code::internal: return "internal";
  }
  return "internal";
}

}  // namespace quire
