// Server-sent events (WHATWG HTML, 9.2): formatting into a byte buffer, and the incremental reader that clients use.
// Data with line breaks becomes several data lines, so that no payload can forge an event. Pure functions, any thread.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace quire {

// "data: <data>\n\n"; each line of `data` (split at \n, \r\n or \r) gets its own "data: ".
void append_sse_data(std::string& out, std::string_view data);
// The same with "event: <event>\n" and "id: <id>\n" in front; an empty one is left out. Line breaks and NUL in either
// are dropped.
void append_sse_event(std::string& out, std::string_view event, std::string_view id, std::string_view data);
// ": <text>\n\n": ignored by clients, keeps proxies from timing out.
void append_sse_comment(std::string& out, std::string_view text);
// Content-Type text/event-stream, Cache-Control no-cache, X-Accel-Buffering no.
HttpHeaders sse_headers();

struct SseEvent {
  std::string event;  // "message" when the stream names none
  std::string id;
  std::string data;
};

// Feed bytes in any cuts; complete events go to `sink`. A last event without its blank line is not delivered, as the
// specification says. Memory is bounded by the longest event: above `max_bytes` feed() returns false and stays so.
class SseReader {
 public:
  explicit SseReader(size_t max_bytes = 16 << 20) : max_bytes_(max_bytes) {}
  bool feed(std::string_view bytes, const std::function<void(SseEvent&&)>& sink);

 private:
  void take_line(std::string_view line, const std::function<void(SseEvent&&)>& sink);

  size_t max_bytes_;
  std::string line_;  // the unfinished line
  SseEvent event_;
  bool has_data_ = false;
  bool skip_lf_ = false;  // the last line ended in \r: a following \n belongs to it
  bool first_ = true;     // a byte order mark may come first
  bool failed_ = false;
};

}  // namespace quire
