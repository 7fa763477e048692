// The head of a response as bytes, and the frames of a chunked body. Pure functions.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/message.h"

namespace quire {

struct ResponseHead {
  int status = 200;
  const HttpHeaders* headers = nullptr;  // Content-Length, Transfer-Encoding, Connection and Date in it are left out
  std::string_view date;                 // of the Date field
  int64_t content_length = -1;           // -1: not stated
  bool chunked = false;
  bool close = false;
  bool keep_alive_10 = false;  // the client speaks HTTP/1.0 and asked to keep the connection
};

// Line breaks and NUL in header values become blanks, so that no value can forge a header.
void append_head(std::string& out, const ResponseHead& head);
// What stands before `n_bytes` > 0 of a chunk, written into `buffer`, and what stands behind.
using ChunkHead = std::array<char, 20>;
std::string_view chunk_head(ChunkHead& buffer, size_t n_bytes);
inline constexpr std::string_view kChunkEnd = "\r\n";
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
// "Sun, 06 Nov 1994 08:49:37 GMT" of seconds since 1970.
std::string http_date(int64_t seconds);

}  // namespace quire
