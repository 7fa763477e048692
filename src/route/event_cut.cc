#include "route/event_cut.h"

#include <algorithm>
#include <utility>

#include "http/sse.h"

namespace quire {

StreamForm form_of(const std::string* content_type) {
  if (content_type == nullptr) return StreamForm::bytes;
  const std::string_view type = std::string_view(*content_type).substr(0, content_type->find(';'));
  if (equal_no_case(type, "text/event-stream")) return StreamForm::events;
  return equal_no_case(type, "application/x-ndjson") ? StreamForm::lines : StreamForm::bytes;
}

size_t whole_bytes(StreamForm form, std::string_view bytes) {
  if (form == StreamForm::bytes) return bytes.size();
  if (form == StreamForm::lines) {
    const size_t end = bytes.rfind('\n');
    return end == std::string_view::npos ? 0 : end + 1;
  }
  size_t whole = 0;  // the last of the blank lines that end an event, whichever line ends are used
  for (const std::string_view end : {std::string_view("\n\n"), std::string_view("\r\n\r\n"), std::string_view("\r\r")})
    if (const size_t at = bytes.rfind(end); at != std::string_view::npos) whole = std::max(whole, at + end.size());
  return whole;
}

namespace {

// A blank line ends an event; lines that begin with a colon are nobody's.
int64_t n_events(std::string_view bytes) {
  int64_t n = 0;
  bool says_something = false;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = bytes.find_first_of("\r\n", at);
    if (end == std::string_view::npos) break;
    if (end == at)
      n += std::exchange(says_something, false);
    else
      says_something |= bytes[at] != ':';
    at = end + (bytes.substr(end).starts_with("\r\n") ? 2 : 1);
  }
  return n;
}

}  // namespace

int64_t n_whole(StreamForm form, std::string_view bytes) {
  if (form == StreamForm::events) return n_events(bytes);
  return form == StreamForm::lines ? std::count(bytes.begin(), bytes.end(), '\n') : 0;
}

std::string error_tail(StreamForm form, const HttpError& error, ErrorForm dialect) {
  std::string out;
  if (form == StreamForm::events) append_sse_event(out, "error", "", dialect(error));
  if (form == StreamForm::lines) out += ollama_error(error) + "\n";
  return out;
}

}  // namespace quire
