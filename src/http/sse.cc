// The writer and the reader of text/event-stream. The reader follows the specification's line rules: \n, \r\n and \r
// end a line, one blank after the colon is dropped, an event without data is not delivered.
#include "http/sse.h"

#include <algorithm>

namespace quire {
namespace {

// Calls `line` for each line of `text`; n line breaks make n + 1 lines.
template <class F>
void each_line(std::string_view text, F line) {
  while (true) {
    const size_t end = text.find_first_of("\r\n");
    line(text.substr(0, end));
    if (end == std::string_view::npos) return;
    const bool crlf = text[end] == '\r' && end + 1 < text.size() && text[end + 1] == '\n';
    text.remove_prefix(end + (crlf ? 2 : 1));
  }
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out.append(name).append(": ");
  std::copy_if(value.begin(), value.end(), std::back_inserter(out),
               [](char c) { return c != '\r' && c != '\n' && c != '\0'; });
  out += '\n';
}

}  // namespace

void append_sse_data(std::string& out, std::string_view data) {
  each_line(data, [&](std::string_view line) { out.append("data: ").append(line).append("\n"); });
  out += '\n';
}

void append_sse_event(std::string& out, std::string_view event, std::string_view id, std::string_view data) {
  append_field(out, "event", event);
  append_field(out, "id", id);
  append_sse_data(out, data);
}

void append_sse_comment(std::string& out, std::string_view text) {
  each_line(text, [&](std::string_view line) { out.append(": ").append(line).append("\n"); });
  out += '\n';
}

HttpHeaders sse_headers() {
  return {
      {"Content-Type", "text/event-stream; charset=utf-8"}, {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
}

void SseReader::take_line(std::string_view line, const std::function<void(SseEvent&&)>& sink) {
  if (first_ && line.substr(0, 3) == "\xef\xbb\xbf") line.remove_prefix(3);
  first_ = false;
  if (line.empty()) {
    if (has_data_) {
      if (event_.event.empty()) event_.event = "message";
      std::string id = event_.id;  // the last id stays in force for the events that follow
      sink(std::move(event_));
      event_ = {};
      event_.id = std::move(id);
    }
    event_.event.clear();
    event_.data.clear();
    has_data_ = false;
    return;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view name = line.substr(0, colon);
  std::string_view value = line.substr(std::min(line.size(), colon + 1));
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (name == "event") {
    event_.event = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    event_.id = value;
  }
}

bool SseReader::feed(std::string_view bytes, const std::function<void(SseEvent&&)>& sink) {
  while (!failed_ && !bytes.empty()) {
    if (skip_lf_ && bytes.front() == '\n') bytes.remove_prefix(1);
    skip_lf_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() + event_.data.size() > max_bytes_) {
      failed_ = true;
      break;
    }
    if (end == std::string_view::npos) {
      line_ += part;
      break;
    }
    skip_lf_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      take_line(part, sink);
    } else {
      line_ += part;
      take_line(line_, sink);
      line_.clear();
    }
  }
  return !failed_;
}

}  // namespace quire
