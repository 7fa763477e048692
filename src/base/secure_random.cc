#include "base/secure_random.h"

#include <openssl/rand.h>

#include "base/check.h"

namespace quire {

// Without it nothing could be kept from anybody, and it fails only where the system is broken.
uint64_t secure_random_bits() {
  uint64_t out = 0;
  unsigned char bytes[sizeof(out)];
  QR_CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1, "the system gives no random numbers");
  for (const unsigned char b : bytes) out = out << 8 | b;
  return out;
}

}  // namespace quire
