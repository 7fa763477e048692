// Bytes in any cuts → the head of one answer of another server, then its body as it comes. As strict as RequestParser
// and under the same limits (header_bytes, n_headers): what two parsers could understand differently is refused. A body
// is not gathered here and has no limit. One thread at a time.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "http/chunk_reader.h"
#include "http/limits.h"
#include "http/message.h"

namespace quire {

class ResponseParser {
 public:
  enum class State : uint8_t { head, body, done, failed };

  // REQUIRES limits outlives the parser. `head_only`: the answer to a HEAD.
  ResponseParser(const HttpLimits& limits, bool head_only) : limits_(limits), head_only_(head_only) {}

  // Uses bytes up to the end of the head, at most, then up to the end of the answer; returns how many. What is of the
  // body is appended to `body`. Interim answers (1xx) are skipped.
  size_t feed(std::string_view bytes, std::string& body);
  // Nothing follows: the end of a body that has no length, otherwise a fault.
  void end_of_input();

  State state() const { return state_; }
  bool started() const { return n_interim_ > 0 || !head_.empty() || state_ != State::head; }
  const std::string& fault() const { return fault_; }  // REQUIRES state failed; names the limit
  // From state body on:
  int status() const { return status_; }
  HttpHeaders& headers() { return headers_; }              // names in lower case
  int64_t content_length() const { return length_; }       // −1: not stated
  bool keep_alive() const { return keep_alive_; }          // another answer may follow
  const std::string* header(std::string_view name) const;  // REQUIRES a lower-case name

 private:
  size_t feed_head(std::string_view bytes);
  size_t feed_body(std::string_view bytes, std::string& body);
  void finish_head();
  bool check_fields();
  bool check_length(const std::string* length, const std::string* coding);
  bool refuse(std::string fault);

  const HttpLimits& limits_;
  const bool head_only_;
  State state_ = State::head;
  std::string head_, fault_;
  int status_ = 0, version_ = 11, n_interim_ = 0;
  HttpHeaders headers_;
  bool keep_alive_ = false, chunked_ = false, until_end_ = false;
  int64_t length_ = -1, left_ = 0;
  ChunkReader chunks_;
};

}  // namespace quire
