#include "serve/api.h"

namespace quire {

std::string_view finish_name(FinishReason reason) { return reason == FinishReason::stop ? "stop" : "length"; }

std::string hex64(uint64_t value) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) out[i] = kHex[value & 15];
  return out;
}

}  // namespace quire
