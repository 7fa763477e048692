// Bytes in any cuts → one HttpRequest, or one HttpError. Beast's parser does the grammar of the head; in front of it
// stands a stricter reading of RFC 9112 that refuses whatever two parsers could understand differently (request
// smuggling): bare line feeds, folded fields, repeated Content-Length, Content-Length beside Transfer-Encoding.
// Linear time, memory bounded by the limits. One thread at a time (the connection's io thread).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "http/chunk_reader.h"
#include "http/limits.h"
#include "http/message.h"

namespace quire {

class RequestParser {
 public:
  enum class State { head, body, done, failed };

  explicit RequestParser(const HttpLimits& limits) : limits_(limits) {}  // REQUIRES limits outlives the parser
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Uses bytes up to the end of the head, at most, then up to the end of the request; returns how many. What is left
  // belongs to the body, or to the next request. After `done` or `failed` it uses none until reset().
  size_t feed(std::string_view bytes);
  void reset();  // needs no memory

  State state() const { return state_; }
  bool started() const { return started_; }          // a byte of the request has come
  const HttpError& error() const { return error_; }  // REQUIRES state failed
  HttpRequest& request() { return request_; }        // complete in state done; without its body in state body
  int64_t body_bytes() const { return static_cast<int64_t>(request_.body.size()); }  // received so far
  // The memory that the request takes, and what it takes at most while `n` more bytes of its body come.
  int64_t held_bytes() const;
  int64_t bytes_to_take(size_t n) const;
  // From state body on:
  bool keep_alive() const { return keep_alive_; }              // what the client's version and Connection ask for
  bool expects_continue() const { return expects_continue_; }  // Expect: 100-continue

 private:
  size_t feed_head(std::string_view bytes);
  size_t append_head(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  bool scan(std::string_view fresh);  // false: failed
  bool check_lines();                 // field count, folds, method, URL length, version
  bool finish_head();
  size_t body_capacity(size_t more) const;
  bool check_fields();
  bool check_length(const std::string* length, const std::string* coding);
  bool refuse(int status, std::string message, std::string code);
  bool refuse_limit(int status, std::string_view what, int64_t limit, int64_t got);

  const HttpLimits& limits_;
  State state_ = State::head;
  bool started_ = false, keep_alive_ = true, expects_continue_ = false;
  int blank_bytes_ = 0;  // CR and LF before the request line
  std::string head_;     // the head so far
  bool chunked_ = false;
  ChunkReader chunks_;
  int64_t body_limit_ = 0;
  int64_t body_left_ = 0;   // of Content-Length
  int64_t head_bytes_ = 0;  // memory of the head as parsed
  HttpRequest request_;
  HttpError error_;
};

}  // namespace quire
