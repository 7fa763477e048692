// A small blocking HTTP/1.1 client for tests, tools and the load generator: one connection, one request at a time,
// whole answers or streams with a time stamp per piece. No TLS, no redirects, no proxies. One thread at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/message.h"
#include "http/sse.h"

namespace quire {

struct ClientOptions {
  std::string host = "127.0.0.1";
  int port = 80;
  int timeout_ms = 30'000;         // for connecting, and without a byte in either direction
  int64_t body_bytes = 256 << 20;  // of an answer that is gathered; streams are not limited
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  HttpHeaders headers;  // Host, Content-Length are added
  std::string body;
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;   // names in lower case
  std::string body;      // empty when it was streamed
  bool stopped = false;  // the sink said stop: the connection was closed before the end
  int64_t sent_ns = 0;   // steady clock: request written, head complete, last byte
  int64_t head_ns = 0, done_ns = 0;
  const std::string* header(std::string_view lower_name) const;
};

class HttpClient {
 public:
  // Bytes of the body as they come, with the time of arrival (steady clock). False: stop and close.
  using BodySink = std::function<bool(std::string_view bytes, int64_t at_ns)>;
  using EventSink = std::function<bool(SseEvent&& event, int64_t at_ns)>;

  explicit HttpClient(ClientOptions options) : options_(std::move(options)) {}
  ~HttpClient() { close(); }
  HttpClient(HttpClient&& other) noexcept;
  HttpClient& operator=(HttpClient&&) = delete;

  // Connects unless it is connected. Fails (Code::io, Code::timeout) naming host and port.
  Status connect();
  void close();
  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // Connects when needed; a kept connection that the server has closed meanwhile is opened anew, once. Fails with
  // Code::timeout, Code::io (cut off, refused) or Code::corrupt (no HTTP); any status is a success here.
  Result<HttpResponse> request(const ClientRequest& request);
  // A status other than 200 is gathered into `body` instead of being given to the sink.
  Result<HttpResponse> stream(const ClientRequest& request, const BodySink& sink);
  Result<HttpResponse> events(const ClientRequest& request, const EventSink& sink);

 private:
  class Machine;
  Status send(std::string_view bytes);
  Status wait(short events);
  Result<size_t> receive(char* into, size_t room);  // 0: end of stream
  Result<HttpResponse> exchange(const ClientRequest& request, const BodySink* sink);
  Result<HttpResponse> attempt(const std::string& bytes, bool head_only, const BodySink* sink);
  std::string where() const { return options_.host + ":" + std::to_string(options_.port); }

  ClientOptions options_;
  int fd_ = -1;
  bool answered_ = false;  // a byte of the current answer has come
};

}  // namespace quire
