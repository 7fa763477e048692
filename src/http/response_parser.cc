#include "http/response_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>

#include "base/lower_case.h"
#include "http/head_scan.h"

namespace quire {
namespace {

namespace beast = boost::beast;

constexpr size_t kMaxLengthDigits = 18;  // fits int64
constexpr int kMaxInterim = 8;

// Fields of which two would be two meanings.
constexpr std::string_view kSingle[] = {"content-length", "transfer-encoding", "content-type"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a complete head.
class HeadMachine final : public beast::http::basic_parser<false> {
 public:
  HeadMachine(int& status, int& version, HttpHeaders& headers, int64_t max_bytes)
      : status_(status), version_(version), headers_(headers) {
    header_limit(static_cast<uint32_t>(max_bytes));
    skip(true);  // the body is ours
  }

 private:
  using sv = beast::string_view;
  using ec = beast::error_code;

  void on_request_impl(beast::http::verb, sv, sv, int, ec&) override {}
  void on_response_impl(int status, sv, int version, ec&) override {
    status_ = status;
    version_ = version;
  }
  void on_field_impl(beast::http::field, sv name, sv value, ec&) override {
    headers_.push_back({lower_case({name.data(), name.size()}), std::string(value.data(), value.size())});
  }
  void on_header_impl(ec&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, ec&) override {}
  size_t on_body_impl(sv body, ec&) override { return body.size(); }
  void on_chunk_header_impl(uint64_t, sv, ec&) override {}
  size_t on_chunk_body_impl(uint64_t, sv body, ec&) override { return body.size(); }
  void on_finish_impl(ec&) override {}

  int &status_, &version_;
  HttpHeaders& headers_;
};

}  // namespace

bool ResponseParser::refuse(std::string fault) {
  state_ = State::failed;
  fault_ = std::move(fault);
  return false;
}

const std::string* ResponseParser::header(std::string_view name) const {
  for (const HttpHeader& h : headers_)
    if (h.name == name) return &h.value;
  return nullptr;
}

size_t ResponseParser::feed(std::string_view bytes, std::string& body) {
  if (state_ == State::head) return feed_head(bytes);
  return state_ == State::body ? feed_body(bytes, body) : 0;
}

size_t ResponseParser::feed_head(std::string_view bytes) {
  const size_t old = head_.size(), room = static_cast<size_t>(limits_.header_bytes) - old;
  const size_t taken = std::min(room, bytes.size());
  head_ += bytes.substr(0, taken);
  const size_t end = head_.find("\r\n\r\n", old < 3 ? 0 : old - 3);
  if (end != std::string::npos) head_.resize(end + 4);
  const size_t used = head_.size() - old;
  if (const char* fault = head_fault(head_, old))
    refuse(fault);
  else if (end != std::string::npos)
    finish_head();
  else if (used == room)
    refuse("a head over the limit of " + std::to_string(limits_.header_bytes) + " bytes (header_bytes)");
  return used;
}

void ResponseParser::finish_head() {
  const int64_t n_fields = count_fields(head_);
  if (n_fields < 0) return static_cast<void>(refuse("a header field folded over two lines"));
  if (n_fields > limits_.n_headers)
    return static_cast<void>(refuse(std::to_string(n_fields) + " header fields over the limit of " +
                                    std::to_string(limits_.n_headers) + " (n_headers)"));
  headers_.clear();
  HeadMachine machine(status_, version_, headers_, limits_.header_bytes);
  beast::error_code ec;
  const size_t used = machine.put(boost::asio::buffer(head_), ec);
  if (ec && ec != beast::http::error::need_more) return static_cast<void>(refuse("a malformed head: " + ec.message()));
  if (used != head_.size() || !machine.is_header_done()) return static_cast<void>(refuse("a malformed head"));
  if (!check_fields()) return;
  std::string().swap(head_);
  if (status_ >= 200) {
    state_ = until_end_ || chunked_ || left_ > 0 ? State::body : State::done;
  } else if (status_ == 101 || ++n_interim_ > kMaxInterim) {
    refuse("the interim status " + std::to_string(status_));
  }
}

bool ResponseParser::check_fields() {
  if (status_ < 100 || status_ > 599) return refuse("the status " + std::to_string(status_));
  for (const std::string_view name : kSingle) {
    const auto is_name = [&](const HttpHeader& h) { return h.name == name; };
    if (std::count_if(headers_.begin(), headers_.end(), is_name) > 1)
      return refuse("the header field " + std::string(name) + " twice");
  }
  bool close = false, keep = false;
  for (const HttpHeader& h : headers_) {
    if (h.name != "connection") continue;
    close |= has_list_token(h.value, "close");
    keep |= has_list_token(h.value, "keep-alive");
  }
  keep_alive_ = !close && (version_ == 11 || keep);
  return check_length(header("content-length"), header("transfer-encoding"));
}

bool ResponseParser::check_length(const std::string* length, const std::string* coding) {
  chunked_ = until_end_ = false;
  length_ = -1;
  left_ = 0;
  if (length != nullptr && coding != nullptr) return refuse("both content-length and transfer-encoding");
  if (coding != nullptr && (version_ == 10 || !equal_no_case(*coding, "chunked")))
    return refuse("the transfer-encoding " + shown(*coding));
  if (length != nullptr) {
    if (length->empty() || length->size() > kMaxLengthDigits || !std::all_of(length->begin(), length->end(), is_digit))
      return refuse("a content-length that is not a number of bytes");
    length_ = std::stoll(*length);
  }
  if (head_only_ || status_ < 200 || status_ == 204 || status_ == 304) return true;  // no body whatever they say
  chunked_ = coding != nullptr;
  left_ = std::max<int64_t>(0, length_);
  until_end_ = !chunked_ && length_ < 0;
  if (until_end_) keep_alive_ = false;
  if (chunked_) chunks_ = ChunkReader(std::numeric_limits<int64_t>::max(), limits_.header_bytes);
  return true;
}

size_t ResponseParser::feed_body(std::string_view bytes, std::string& body) {
  if (chunked_) {
    const size_t used = chunks_.feed(bytes, body);
    if (chunks_.fault() != ChunkReader::Fault::none) refuse("a malformed chunk or trailer");
    if (chunks_.state() == ChunkReader::State::done) state_ = State::done;
    return used;
  }
  const size_t n = until_end_ ? bytes.size() : static_cast<size_t>(std::min<int64_t>(left_, std::ssize(bytes)));
  body += bytes.substr(0, n);
  if (until_end_) return n;
  left_ -= static_cast<int64_t>(n);
  if (left_ == 0) state_ = State::done;
  return n;
}

void ResponseParser::end_of_input() {
  if (state_ == State::body && until_end_)
    state_ = State::done;
  else if (state_ != State::done && state_ != State::failed)
    refuse("the connection ended before the answer was complete");
}

}  // namespace quire
