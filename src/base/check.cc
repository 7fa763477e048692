#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/result.h"

namespace quire {

void check_failed(const char* file, int line, const char* expr, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s %s\n", file, line, expr, detail.c_str());
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
