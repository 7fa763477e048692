// POSIX sockets with poll for the timeouts; Beast's parser for the answer. Asio's blocking calls know no timeouts.
#include "http/client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/lower_case.h"

namespace quire {
namespace {

namespace beast = boost::beast;

constexpr size_t kReadBytes = 64 << 10;
constexpr uint32_t kMaxHeadBytes = 64 << 10;
constexpr size_t kMinChunkedRest = 5;  // "0\r\n\r\n": Beast 1.81 asserts when it sees less of a last chunk twice

int64_t now_ns() { return SystemClock().now_ns(); }

std::string request_bytes(const ClientRequest& request, const std::string& host) {
  std::string out = request.method + " " + request.target + " HTTP/1.1\r\nHost: " + host + "\r\n";
  for (const HttpHeader& h : request.headers) out += h.name + ": " + h.value + "\r\n";
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT")
    out += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  return out + "\r\n" + request.body;
}

}  // namespace

class HttpClient::Machine final : public beast::http::basic_parser<false> {
 public:
  Machine(HttpResponse& response, const BodySink* sink, int64_t max_body)
      : response_(response), sink_(sink), max_body_(max_body) {
    header_limit(kMaxHeadBytes);
    body_limit(boost::none);
    eager(true);
  }
  bool stopped() const { return stopped_; }
  bool too_large() const { return too_large_; }

 private:
  using sv = beast::string_view;
  using ec = beast::error_code;

  void on_request_impl(beast::http::verb, sv, sv, int, ec&) override {}
  void on_response_impl(int status, sv, int, ec&) override { response_.status = status; }
  void on_field_impl(beast::http::field, sv name, sv value, ec&) override {
    response_.headers.push_back({lower_case({name.data(), name.size()}), std::string(value.data(), value.size())});
  }
  void on_header_impl(ec&) override { response_.head_ns = now_ns(); }
  void on_body_init_impl(const boost::optional<uint64_t>&, ec&) override {}
  size_t on_body_impl(sv body, ec& e) override {
    const std::string_view bytes(body.data(), body.size());
    if (sink_ != nullptr && response_.status == 200) {
      if (!stopped_ && !(*sink_)(bytes, now_ns())) stopped_ = true;
    } else if (static_cast<int64_t>(response_.body.size() + bytes.size()) <= max_body_) {
      response_.body += bytes;
    } else {
      too_large_ = true;
    }
    if (stopped_ || too_large_) e = beast::http::error::end_of_stream;
    return body.size();
  }
  void on_chunk_header_impl(uint64_t, sv, ec&) override {}
  size_t on_chunk_body_impl(uint64_t, sv body, ec& e) override { return on_body_impl(body, e); }
  void on_finish_impl(ec&) override {}

  HttpResponse& response_;
  const BodySink* sink_;
  const int64_t max_body_;
  bool stopped_ = false, too_large_ = false;
};

const std::string* HttpResponse::header(std::string_view lower_name) const {
  for (const HttpHeader& h : headers)
    if (h.name == lower_name) return &h.value;
  return nullptr;
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : options_(std::move(other.options_)), fd_(std::exchange(other.fd_, -1)), answered_(other.answered_) {}

void HttpClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Status HttpClient::wait(short events) {
  pollfd p{fd_, events, 0};
  const int n = ::poll(&p, 1, options_.timeout_ms);
  if (n < 0 && errno != EINTR) return fail(Code::io, "poll: " + std::string(std::strerror(errno)));
  if (n == 0)
    return fail(Code::timeout, where() + ": nothing moved for " + std::to_string(options_.timeout_ms) + " ms");
  return {};
}

Status HttpClient::connect() {
  if (fd_ >= 0) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(options_.host.c_str(), std::to_string(options_.port).c_str(), &hints, &list);
  if (rc != 0) return fail(Code::io, "cannot connect to " + where() + ": " + gai_strerror(rc));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::string reason = "no address";
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    fd_ = ::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd_ < 0) return fail(Code::io, "socket: " + std::string(std::strerror(errno)));
    int error = ::connect(fd_, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof error;
      const auto ready = wait(POLLOUT);
      if (ready)
        getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
      else
        error = ETIMEDOUT;
    }
    if (error == 0) {
      const int on = 1;
      setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return {};
    }
    reason = std::strerror(error);
    close();
  }
  return fail(Code::io, "cannot connect to " + where() + ": " + reason);
}

Status HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      QR_TRY_VOID(wait(POLLOUT));
    } else if (errno != EINTR) {
      return fail(Code::io, "writing to " + where() + ": " + std::strerror(errno));
    }
  }
  return {};
}

Result<size_t> HttpClient::receive(char* into, size_t room) {
  while (true) {
    const ssize_t n = ::recv(fd_, into, room, 0);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EAGAIN) {
      QR_TRY_VOID(wait(POLLIN));
    } else if (errno != EINTR) {
      return fail(Code::io, "reading from " + where() + ": " + std::strerror(errno));
    }
  }
}

Result<HttpResponse> HttpClient::attempt(const std::string& bytes, bool head_only, const BodySink* sink) {
  HttpResponse response;
  answered_ = false;
  QR_TRY_VOID(connect());
  // A server that refuses early answers and closes while the body is still on its way: then read the answer.
  const Status sent = send(bytes);
  response.sent_ns = now_ns();
  auto machine = std::make_unique<Machine>(response, sink, options_.body_bytes);
  machine->skip(head_only);
  std::string data;  // what Beast has not used yet
  std::array<char, kReadBytes> buffer;
  while (!machine->is_done()) {
    QR_TRY(const size_t n, receive(buffer.data(), buffer.size()));
    beast::error_code ec;
    if (n == 0) {
      if (!sent) return tl::make_unexpected(sent.error());
      if (machine->got_some()) machine->put_eof(ec);
      if (!machine->is_done()) return fail(Code::io, where() + " closed the connection before the answer was complete");
      break;
    }
    answered_ = true;
    data.append(buffer.data(), n);
    size_t used = 0;
    while (used < data.size() && !machine->is_done() && !ec) {
      const bool in_chunks = machine->is_header_done() && machine->chunked();
      if (in_chunks && data.size() - used < kMinChunkedRest) break;
      used += machine->put(boost::asio::buffer(data.data() + used, data.size() - used), ec);
      if (machine->is_done() && response.status == 100) {  // an interim answer: the real one follows
        response.headers.clear();
        machine = std::make_unique<Machine>(response, sink, options_.body_bytes);
        machine->skip(head_only);
      }
    }
    data.erase(0, used);
    if (machine->stopped()) break;
    if (machine->too_large())
      return fail(Code::exhausted, "answer over the limit of " + std::to_string(options_.body_bytes) + " bytes");
    if (ec && ec != beast::http::error::need_more)
      return fail(Code::corrupt, "no HTTP from " + where() + ": " + ec.message());
  }
  response.done_ns = now_ns();
  response.stopped = machine->stopped();
  if (response.stopped || !machine->keep_alive()) close();
  return response;
}

Result<HttpResponse> HttpClient::exchange(const ClientRequest& request, const BodySink* sink) {
  const std::string bytes = request_bytes(request, where());
  const bool kept = connected();
  auto response = attempt(bytes, request.method == "HEAD", sink);
  if (response) return response;
  close();
  if (!kept || answered_ || response.error().code != Code::io) return response;
  response = attempt(bytes, request.method == "HEAD", sink);
  if (!response) close();
  return response;
}

Result<HttpResponse> HttpClient::request(const ClientRequest& request) { return exchange(request, nullptr); }

Result<HttpResponse> HttpClient::stream(const ClientRequest& request, const BodySink& sink) {
  return exchange(request, &sink);
}

Result<HttpResponse> HttpClient::events(const ClientRequest& request, const EventSink& sink) {
  SseReader reader;
  bool more = true;
  const BodySink bytes = [&](std::string_view part, int64_t at_ns) {
    const bool fits = reader.feed(part, [&](SseEvent&& event) { more = more && sink(std::move(event), at_ns); });
    return more && fits;
  };
  return exchange(request, &bytes);
}

}  // namespace quire
