#include "hub/transfer.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "base/check.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr long kMaxRedirects = 10, kConnectTimeoutS = 30;
constexpr long kStallS = 60;  // without a byte: the connection is given up
constexpr long kBufferBytes = 256 << 10;
constexpr size_t kMaxDroppedBytes = 64 << 10;  // of an error's body
constexpr size_t kMaxHeaderBytes = 4096;       // of those that are kept

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0 || text.empty()) return std::nullopt;
  return n;
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool equal_no_case(std::string_view a, std::string_view b) {
  const auto low = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return low(x) == low(y); });
}

// "bytes 10-19/20".
void read_range(std::string_view value, HubAnswer& answer) {
  if (!value.starts_with("bytes ")) return;
  value.remove_prefix(6);
  const size_t dash = value.find('-'), slash = value.find('/');
  if (dash == value.npos || slash == value.npos || dash > slash) return;
  answer.range_from = parse_count(value.substr(0, dash)).value_or(-1);
  answer.range_of = parse_count(value.substr(slash + 1)).value_or(-1);
}

void read_header(std::string_view line, HubAnswer& answer) {
  if (line.starts_with("HTTP/")) {  // another hop
    answer = {};
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string_view name = line.substr(0, colon),
                         value = trimmed(line.substr(colon + 1)).substr(0, kMaxHeaderBytes);
  if (equal_no_case(name, "Content-Length")) answer.content_bytes = parse_count(value).value_or(-1);
  if (equal_no_case(name, "Content-Range")) read_range(value, answer);
  if (equal_no_case(name, "Retry-After")) answer.retry_after_s = parse_count(value).value_or(-1);
  if (equal_no_case(name, "Link")) answer.link = value;
  if (equal_no_case(name, "X-Error-Message")) answer.error_message = value;
}

// libcurl's functions. It is opened when it is first needed: with the two dozen libraries that it brings it would cost
// every server 4 MiB and 10 ms, and be there for an attacker.
struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_setopt) setopt = nullptr;
  decltype(&curl_easy_getinfo) getinfo = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_strerror) strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  std::string missing;  // why it cannot be used; empty: it can

  static const Curl& get() {
    static const Curl kCurl = open();
    return kCurl;
  }

 private:
  static Curl open() {
    Curl out;
    void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);  // for the rest of the process
    if (library == nullptr) {
      out.missing = ::dlerror();
      return out;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      if (function == nullptr) out.missing = std::string("libcurl.so.4 has no ") + name;
    };
    find(out.global_init, "curl_global_init");
    find(out.easy_init, "curl_easy_init");
    find(out.easy_cleanup, "curl_easy_cleanup");
    find(out.setopt, "curl_easy_setopt");
    find(out.getinfo, "curl_easy_getinfo");
    find(out.perform, "curl_easy_perform");
    find(out.strerror, "curl_easy_strerror");
    find(out.slist_append, "curl_slist_append");
    find(out.slist_free_all, "curl_slist_free_all");
    if (out.missing.empty() && out.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) out.missing = "libcurl cannot start";
    return out;
  }
};

// Whether it could go another way the next time.
Code code_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT: return Code::not_found;
    case CURLE_OPERATION_TIMEDOUT: return Code::timeout;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return Code::io;
    default: return Code::invalid;
  }
}

}  // namespace

struct HubTransfer::State {
  CURL* curl = nullptr;
  curl_slist* headers = nullptr;
  HubSink* sink = nullptr;
  HubAnswer answer;
  bool begun = false, stopped = false;
  size_t dropped_bytes = 0;

  long status() const {
    long out = 0;
    Curl::get().getinfo(curl, CURLINFO_RESPONSE_CODE, &out);
    return out;
  }
  bool begin() {
    answer.status = static_cast<int>(status());
    begun = true;
    return sink->begin(answer);
  }
  bool take(std::string_view bytes) {
    if (!is_good(status())) return (dropped_bytes += bytes.size()) <= kMaxDroppedBytes;
    stopped = (!begun && !begin()) || !sink->take(bytes);
    return !stopped;
  }

  static size_t on_header(const char* data, size_t, size_t n, void* self) {
    read_header({data, n}, static_cast<State*>(self)->answer);
    return n;
  }
  static size_t on_bytes(const char* data, size_t, size_t n, void* self) {
    return static_cast<State*>(self)->take({data, n}) ? n : 0;
  }
};

Result<std::unique_ptr<HubTransfer>> HubTransfer::open(std::string token) {
  if (const std::string& missing = Curl::get().missing; !missing.empty())
    return fail(Code::unsupported, "libcurl is needed and not there (Debian: libcurl4): " + missing);
  return std::unique_ptr<HubTransfer>(new HubTransfer(std::move(token)));
}

HubTransfer::HubTransfer(std::string token) : token_(std::move(token)), state_(std::make_unique<State>()) {
  const Curl& c = Curl::get();
  State& s = *state_;
  s.curl = c.easy_init();
  QR_CHECK(s.curl != nullptr, "no memory for a connection");
  // Bytes count as they are stored: no compression on the way.
  s.headers = c.slist_append(nullptr, "Accept-Encoding: identity");
  c.setopt(s.curl, CURLOPT_HTTPHEADER, s.headers);
  c.setopt(s.curl, CURLOPT_NOSIGNAL, 1L);
  c.setopt(s.curl, CURLOPT_USERAGENT, "quire/" QR_VERSION);
  c.setopt(s.curl, CURLOPT_FOLLOWLOCATION, 1L);
  c.setopt(s.curl, CURLOPT_MAXREDIRS, kMaxRedirects);
  c.setopt(s.curl, CURLOPT_PROTOCOLS_STR, "http,https");
  c.setopt(s.curl, CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
  c.setopt(s.curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  c.setopt(s.curl, CURLOPT_LOW_SPEED_TIME, kStallS);
  c.setopt(s.curl, CURLOPT_BUFFERSIZE, kBufferBytes);
  c.setopt(s.curl, CURLOPT_HEADERFUNCTION, &State::on_header);
  c.setopt(s.curl, CURLOPT_HEADERDATA, state_.get());
  c.setopt(s.curl, CURLOPT_WRITEFUNCTION, &State::on_bytes);
  c.setopt(s.curl, CURLOPT_WRITEDATA, state_.get());
  if (const char* file = std::getenv("SSL_CERT_FILE"); file != nullptr && *file != '\0')
    c.setopt(s.curl, CURLOPT_CAINFO, file);
  if (token_.empty()) return;
  // Not a header of our own: libcurl keeps this one from other hosts, ports and schemes.
  c.setopt(s.curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
  c.setopt(s.curl, CURLOPT_XOAUTH2_BEARER, token_.c_str());
}

HubTransfer::~HubTransfer() {
  Curl::get().easy_cleanup(state_->curl);
  Curl::get().slist_free_all(state_->headers);
}

Result<HubAnswer> HubTransfer::get(const std::string& url, HubSink& sink) {
  const Curl& c = Curl::get();
  State& s = *state_;
  s.sink = &sink;
  s.answer = {};
  s.begun = s.stopped = false;
  s.dropped_bytes = 0;
  const std::string range = sink.from() > 0 ? std::to_string(sink.from()) + "-" : "";
  char detail[CURL_ERROR_SIZE] = "";
  c.setopt(s.curl, CURLOPT_ERRORBUFFER, detail);
  c.setopt(s.curl, CURLOPT_URL, url.c_str());
  c.setopt(s.curl, CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https:") ? "https" : "http,https");
  c.setopt(s.curl, CURLOPT_RANGE, range.empty() ? nullptr : range.c_str());
  const CURLcode code = c.perform(s.curl);
  c.setopt(s.curl, CURLOPT_ERRORBUFFER, nullptr);
  s.answer.status = static_cast<int>(s.status());
  if (s.stopped) return fail(Code::cancelled, "stopped");
  // An error's body that was too long to be dropped whole makes no other answer of it.
  if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && !is_good(s.answer.status))) {
    if (is_good(s.answer.status) && !s.begun && !s.begin()) return fail(Code::cancelled, "stopped");
    return s.answer;
  }
  const std::string why = *detail != '\0' ? detail : c.strerror(code);
  return fail(code_of(code), in_quotes(why));
}

}  // namespace quire
