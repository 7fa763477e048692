#include "http/request_parser.h"

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>

#include "base/lower_case.h"
#include "http/head_scan.h"

namespace quire {
namespace {

namespace beast = boost::beast;
using beast::http::error;

constexpr size_t kMaxMethodBytes = 32;
constexpr size_t kVersionBytes = sizeof(" HTTP/1.1") - 1;
constexpr int kMaxBlankBytes = 4;        // RFC 9112 2.2: ignore an empty line before the request line; we take two
constexpr size_t kMaxLengthDigits = 18;  // fits int64
constexpr size_t kKeepHead = 1 << 10;    // between requests no larger buffer is kept

// Fields of which two would be two meanings.
constexpr std::array<std::string_view, 7> kSingle = {
    "host", "content-length", "transfer-encoding", "content-type", "content-encoding", "authorization", "expect"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "GET /x HTTP/1.1": whether it ends in a version of HTTP that is neither 1.0 nor 1.1.
bool names_other_version(std::string_view line) {
  if (line.size() < kVersionBytes) return false;
  const std::string_view v = line.substr(line.size() - kVersionBytes);
  return v.substr(0, 6) == " HTTP/" && is_digit(v[6]) && v[7] == '.' && is_digit(v[8]) && v.substr(6) != "1.0" &&
         v.substr(6) != "1.1";
}

// Reads a complete head into `request`.
class HeadMachine final : public beast::http::basic_parser<true> {
 public:
  HeadMachine(HttpRequest& request, int64_t max_bytes) : request_(request) {
    header_limit(static_cast<uint32_t>(max_bytes));
    skip(true);  // the body is ours
  }

 private:
  using sv = beast::string_view;
  using ec = beast::error_code;
  static std::string_view view(sv s) { return {s.data(), s.size()}; }

  void on_request_impl(beast::http::verb, sv method, sv target, int version, ec&) override {
    request_.method = view(method);
    request_.target = view(target);
    request_.version = version;
  }
  void on_field_impl(beast::http::field, sv name, sv value, ec&) override {
    request_.headers.push_back({lower_case(view(name)), std::string(view(value))});
  }
  void on_response_impl(int, sv, int, ec&) override {}
  void on_header_impl(ec&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, ec&) override {}
  size_t on_body_impl(sv body, ec&) override { return body.size(); }
  void on_chunk_header_impl(uint64_t, sv, ec&) override {}
  size_t on_chunk_body_impl(uint64_t, sv body, ec&) override { return body.size(); }
  void on_finish_impl(ec&) override {}

  HttpRequest& request_;
};

}  // namespace

void RequestParser::reset() {
  state_ = State::head;
  started_ = false;
  keep_alive_ = true;
  expects_continue_ = false;
  blank_bytes_ = 0;
  if (head_.capacity() > kKeepHead) std::string().swap(head_);
  head_.clear();
  chunked_ = false;
  body_limit_ = body_left_ = head_bytes_ = 0;
  // Moved out first: assignment alone would keep the memory of its strings. The error stays: nobody asks for it before
  // the next one, and a fresh one needs memory.
  const HttpRequest old = std::move(request_);
  request_ = {};
}

bool RequestParser::refuse(int status, std::string message, std::string code) {
  state_ = State::failed;
  error_ = {status, std::move(message), "invalid_request_error", "", std::move(code)};
  return false;
}

bool RequestParser::refuse_limit(int status, std::string_view what, int64_t limit, int64_t got) {
  static constexpr auto code = [](int s) {
    return s == 413 ? "body_too_large" : s == 414 ? "url_too_long" : "head_too_large";
  };
  std::string message(what);
  message += " over the limit of " + std::to_string(limit);
  if (got > limit) message += ": " + std::to_string(got);
  return refuse(status, std::move(message), code(status));
}

size_t RequestParser::feed(std::string_view bytes) {
  if (state_ == State::head) return feed_head(bytes);
  return state_ == State::body ? feed_body(bytes) : 0;
}

size_t RequestParser::feed_head(std::string_view bytes) {
  size_t used = 0;
  while (head_.empty() && used < bytes.size() && (bytes[used] == '\r' || bytes[used] == '\n')) {
    ++used;
    if (++blank_bytes_ > kMaxBlankBytes) {
      refuse(400, "blank lines before the request line", "bad_request");
      return used;
    }
  }
  bytes.remove_prefix(used);
  if (bytes.empty()) return used;
  started_ = true;

  // The request line has its own limit, so that a long URL is called that. In steps of the two limits, so that the
  // first fault in the bytes decides, however they are cut.
  const auto line_room = static_cast<size_t>(limits_.url_bytes) + kMaxMethodBytes + kVersionBytes + 2;
  const auto head_room = static_cast<size_t>(limits_.header_bytes);
  for (const size_t room : {std::min(line_room, head_room), head_room}) {
    if (head_.size() >= room) continue;
    const size_t n = append_head(bytes.substr(0, room - head_.size()));
    bytes.remove_prefix(n);
    used += n;
    if (state_ != State::head || head_.size() < room) return used;
    if (head_.find("\r\n") == std::string::npos) {
      refuse_limit(414, "URL bytes (url_bytes)", limits_.url_bytes, 0);
      return used;
    }
  }
  refuse_limit(431, "header bytes (header_bytes)", limits_.header_bytes, 0);
  return used;
}

// Appends, checks, and ends the head at the blank line. Returns the bytes used.
size_t RequestParser::append_head(std::string_view bytes) {
  const size_t old = head_.size();
  head_ += bytes;
  const size_t end = head_.find("\r\n\r\n", old < 3 ? 0 : old - 3);
  if (end != std::string::npos) head_.resize(end + 4);
  const size_t used = head_.size() - old;
  if (!scan(std::string_view(head_).substr(old)) || end == std::string::npos) return used;
  if (finish_head()) std::string().swap(head_);
  return used;
}

int64_t RequestParser::held_bytes() const {
  return static_cast<int64_t>(head_.capacity() + request_.body.capacity()) + head_bytes_;
}

int64_t RequestParser::bytes_to_take(size_t n) const {
  if (state_ != State::body) return held_bytes();
  const size_t next = body_capacity(n);
  return held_bytes() + (next > request_.body.capacity() ? static_cast<int64_t>(next) : 0);
}

// What is announced is not believed: a body gets room as it comes.
size_t RequestParser::body_capacity(size_t more) const {
  const auto most =
      chunked_ ? static_cast<size_t>(body_limit_) : request_.body.size() + static_cast<size_t>(body_left_);
  return grown_capacity(request_.body, std::min(more, most - std::min(most, request_.body.size())), most);
}

// `fresh` is the tail of head_ that has just come: control characters and bare CR or LF are refused at the first one,
// so that a TLS hello or a terminal gets its answer at once instead of at the timeout.
bool RequestParser::scan(std::string_view fresh) {
  const char* fault = head_fault(head_, head_.size() - fresh.size());
  return fault == nullptr || refuse(400, fault, "bad_request");
}

bool RequestParser::check_lines() {
  const std::string_view head = head_;
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t method_end = line.find(' ');
  if (method_end == std::string_view::npos || method_end > kMaxMethodBytes)
    return refuse(400, "a request line without method, URL and version", "bad_request");
  if (names_other_version(line))
    return refuse(505, "HTTP version " + std::string(line.substr(line.size() - 3)) + "; spoken here: 1.0, 1.1",
                  "http_version");
  const size_t url_end = line.rfind(' ');
  const auto url_bytes = static_cast<int64_t>(url_end > method_end ? url_end - method_end - 1 : 0);
  if (url_bytes > limits_.url_bytes) return refuse_limit(414, "URL bytes (url_bytes)", limits_.url_bytes, url_bytes);

  const int64_t n_fields = count_fields(head);
  if (n_fields < 0) return refuse(400, "a header field folded over two lines", "bad_request");
  if (n_fields > limits_.n_headers) return refuse_limit(431, "header fields (n_headers)", limits_.n_headers, n_fields);
  return true;
}

bool RequestParser::finish_head() {
  if (!check_lines()) return false;
  HeadMachine machine(request_, limits_.header_bytes);
  beast::error_code ec;
  const size_t used = machine.put(boost::asio::buffer(head_), ec);
  // Which element was wrong is told by an enum's text, never by the bytes.
  if (ec && ec != error::need_more) return refuse(400, "malformed head: " + ec.message(), "bad_request");
  if (used != head_.size() || !machine.is_done()) return refuse(400, "malformed head", "bad_request");
  if (!check_fields()) return false;
  head_bytes_ = static_cast<int64_t>(request_.target.size() + request_.path.size() + request_.query.size());
  for (const HttpHeader& h : request_.headers)
    head_bytes_ += static_cast<int64_t>(h.name.size() + h.value.size() + sizeof h);
  state_ = chunked_ || body_left_ > 0 ? State::body : State::done;
  return true;
}

bool RequestParser::check_fields() {
  for (const std::string_view name : kSingle) {
    const auto is_name = [&](const HttpHeader& h) { return h.name == name; };
    if (std::count_if(request_.headers.begin(), request_.headers.end(), is_name) > 1)
      return refuse(400, "header field given twice: " + std::string(name), "bad_request");
  }
  const bool v11 = request_.version == 11;
  if (v11 && request_.header("host") == nullptr) return refuse(400, "header field missing: host", "bad_request");
  auto target = split_target(request_.target, request_.method == "OPTIONS");
  if (!target) return refuse(400, target.error().message, "bad_request");
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);

  bool close = false, keep = false;
  for (const HttpHeader& h : request_.headers) {
    if (h.name != "connection") continue;
    close |= has_list_token(h.value, "close");
    keep |= has_list_token(h.value, "keep-alive");
  }
  keep_alive_ = !close && (v11 || keep);

  const std::string* expect = request_.header("expect");
  if (expect != nullptr && v11) {
    if (!equal_no_case(*expect, "100-continue"))
      return refuse(417, "unknown expectation in header field expect", "expectation");
    expects_continue_ = true;
  }
  const std::string* encoding = request_.header("content-encoding");
  if (encoding != nullptr && !equal_no_case(*encoding, "identity"))
    return refuse(415, "compressed request bodies are not accepted; content-encoding must be identity",
                  "unsupported_encoding");
  return check_length(request_.header("content-length"), request_.header("transfer-encoding"));
}

bool RequestParser::check_length(const std::string* length, const std::string* coding) {
  if (length != nullptr && coding != nullptr)
    return refuse(400, "both content-length and transfer-encoding", "bad_request");
  if (coding != nullptr && request_.version == 10) return refuse(400, "transfer-encoding in HTTP/1.0", "bad_request");
  if (coding != nullptr && !equal_no_case(*coding, "chunked"))
    return refuse(501, "unknown transfer-encoding; only chunked is accepted", "unsupported_encoding");
  body_limit_ = limits_.body_bytes;
  for (const auto& over : limits_.path_body_bytes)
    if (over.path == request_.path) body_limit_ = over.bytes;
  if (length != nullptr) {
    if (length->empty() || length->size() > kMaxLengthDigits || !std::all_of(length->begin(), length->end(), is_digit))
      return refuse(400, "content-length is not a number of bytes", "bad_request");
    const int64_t announced = std::stoll(*length);
    if (announced > body_limit_) return refuse_limit(413, "body bytes (body_bytes)", body_limit_, announced);
    body_left_ = announced;
  }
  chunked_ = coding != nullptr;
  if (chunked_) chunks_ = ChunkReader(body_limit_, limits_.header_bytes);
  return true;
}

size_t RequestParser::feed_body(std::string_view bytes) {
  grow_to(request_.body, body_capacity(bytes.size()));
  if (!chunked_) {
    const size_t n = std::min(bytes.size(), static_cast<size_t>(body_left_));
    request_.body.append(bytes.substr(0, n));
    body_left_ -= static_cast<int64_t>(n);
    if (body_left_ == 0) state_ = State::done;
    return n;
  }
  const size_t used = chunks_.feed(bytes, request_.body);
  switch (chunks_.fault()) {
    case ChunkReader::Fault::none: break;
    case ChunkReader::Fault::malformed: refuse(400, "malformed chunk or trailer", "bad_request"); break;
    case ChunkReader::Fault::body_too_large: refuse_limit(413, "body bytes (body_bytes)", body_limit_, 0); break;
    case ChunkReader::Fault::trailers_too_large:
      refuse_limit(431, "bytes of trailers (header_bytes)", limits_.header_bytes, 0);
      break;
  }
  if (chunks_.state() == ChunkReader::State::done) state_ = State::done;
  return used;
}

}  // namespace quire
