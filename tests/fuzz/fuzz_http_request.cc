// Any bytes through the request parser, in one piece and in cuts that the input itself chooses: the outcome is the
// same, every request keeps the limits, and the work is linear (libFuzzer's own timeout and memory limit see to that).
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "http/request_parser.h"

namespace {

using namespace quire;
using State = RequestParser::State;

HttpLimits limits() {
  HttpLimits l;
  l.header_bytes = 512;
  l.url_bytes = 128;
  l.n_headers = 8;
  l.body_bytes = 256;
  l.path_body_bytes = {{"/big", 1024}};
  return l;
}

void check(RequestParser& p, const HttpLimits& l, std::string& out) {
  if (p.state() == State::failed) {
    QR_CHECK(p.error().status >= 400 && p.error().status < 600 && !p.error().message.empty());
    out += "!" + std::to_string(p.error().status) + p.error().message;
    return;
  }
  const HttpRequest& r = p.request();
  QR_CHECK(static_cast<int64_t>(r.target.size()) <= l.url_bytes);
  QR_CHECK(static_cast<int64_t>(r.headers.size()) <= l.n_headers);
  QR_CHECK(static_cast<int64_t>(r.body.size()) <= (r.path == "/big" ? 1024 : l.body_bytes));
  QR_CHECK(r.path == "*" || r.path.front() == '/');
  QR_CHECK(("/" + r.path + "/").find("/../") == std::string::npos);
  for (const char c : r.path) QR_CHECK(static_cast<unsigned char>(c) >= 0x20);
  for (const HttpHeader& h : r.headers)
    QR_CHECK(h.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  out += r.method + r.path + "?" + r.query + (p.keep_alive() ? "k" : "c") + r.body;
}

// All requests in `bytes`, described; `cuts` are the sizes of the pieces, used in turn.
std::string parse_all(std::string_view bytes, std::string_view cuts) {
  static const HttpLimits l = limits();
  RequestParser p(l);
  std::string out;
  size_t turn = 0;
  while (!bytes.empty()) {
    size_t n = bytes.size();
    if (!cuts.empty()) n = std::min<size_t>(n, 1 + static_cast<unsigned char>(cuts[turn++ % cuts.size()]) % 32);
    std::string_view piece = bytes.substr(0, n);
    bytes.remove_prefix(n);
    while (!piece.empty()) {
      piece.remove_prefix(p.feed(piece));
      if (p.state() == State::head || p.state() == State::body) {
        QR_CHECK(piece.empty() || (p.state() == State::body && p.body_bytes() == 0));
        continue;
      }
      check(p, l, out);
      if (p.state() == State::failed) return out;
      p.reset();
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t n_cuts = std::min<size_t>(4, size / 8);
  const std::string_view bytes = all.substr(n_cuts);
  const std::string whole = parse_all(bytes, "");
  QR_CHECK(whole == parse_all(bytes, all.substr(0, n_cuts)), "cuts change the outcome");
  QR_CHECK(whole == parse_all(bytes, std::string_view("\0", 1)), "single bytes change the outcome");
  return 0;
}
