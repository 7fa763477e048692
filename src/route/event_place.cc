#include "route/event_place.h"

#include "http/message.h"
#include "http/server_url.h"
#include "route/worker.h"

namespace quire {
namespace {

constexpr std::string_view kIpc = "ipc://";

bool is_place(std::string_view text) {
  if (text.starts_with(kIpc)) return text.size() > kIpc.size();
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return read_port(text).has_value();
  const std::string_view host = text.substr(0, colon);
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  if (!is_bracketed && host.find(':') != std::string_view::npos) return false;
  return !host.empty() && host.find('/') == std::string_view::npos && read_port(text.substr(colon + 1)).has_value();
}

}  // namespace

Result<EventPlace> parse_event_place(const std::string& text) {
  EventPlace out;
  std::string_view rest = text;
  if (const size_t equals = rest.find('='); equals != std::string_view::npos && !rest.starts_with(kIpc)) {
    QR_TRY(const WorkerSpec worker, parse_worker(std::string(rest.substr(0, equals))));
    out.worker = worker.name();
    rest.remove_prefix(equals + 1);
  }
  const size_t comma = rest.find(',');
  out.events = rest.substr(0, comma);
  if (comma != std::string_view::npos) out.replay = rest.substr(comma + 1);
  if (is_place(out.events) && (comma == std::string_view::npos || is_place(out.replay))) return out;
  return fail(Code::invalid, "must be [WORKER=]EVENTS[,REPLAY], each of these PORT, HOST:PORT or ipc://PATH, got \"" +
                                 shown(text) + "\"");
}

std::string zmq_address(const std::string& place, const std::string& host) {
  if (place.starts_with(kIpc)) return place;
  if (place.find(':') != std::string::npos) return "tcp://" + place;
  return "tcp://" + (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" + place;
}

}  // namespace quire
