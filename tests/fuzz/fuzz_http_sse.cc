// The event-stream reader on any bytes: cuts do not change what it delivers; and whatever data is written as an event
// reads back as that one event, with line ends normalised.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "http/sse.h"

namespace {

using namespace quire;

std::string read(std::string_view bytes, size_t cut) {
  SseReader reader(1 << 16);
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += cut) {
    const bool fits = reader.feed(bytes.substr(i, cut),
                                  [&](SseEvent&& e) { out += "[" + e.event + "|" + e.id + "|" + e.data + "]"; });
    if (!fits) break;
  }
  return out;
}

std::string with_plain_line_ends(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r')
      out += text[i];
    else if (i + 1 == text.size() || text[i + 1] != '\n')
      out += '\n';
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size < (1 << 14)) {
    QR_CHECK(read(bytes, size + 1) == read(bytes, 1), "cuts change the events");
    QR_CHECK(read(bytes, size + 1) == read(bytes, 3), "cuts change the events");
  }
  std::string event;
  append_sse_data(event, bytes);
  if (event.size() < (1 << 15)) QR_CHECK(read(event, 7) == "[message||" + with_plain_line_ends(bytes) + "]");
  return 0;
}
