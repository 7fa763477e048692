// What TLS holds for one connection, in bytes.
#pragma once
#include <cstddef>

namespace quire {

inline constexpr size_t kTlsRecordBytes = 16 << 10;  // the largest that TLS has
inline constexpr size_t kMaxTlsTalk = 32 << 10;      // that a client has not taken; then it is not read from
// Of OpenSSL's own: 47 KiB in a handshake, 19 behind it (measured).
inline constexpr size_t kTlsSessionBytes = 64 << 10;

}  // namespace quire
