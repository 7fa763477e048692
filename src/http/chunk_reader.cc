#include "http/chunk_reader.h"

#include <algorithm>

namespace quire {
namespace {

constexpr int kMaxDigits = 16;      // of a size, leading zeros among them: fits 64 bits
constexpr int kMaxExtension = 256;  // bytes after the size; none is ever needed

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

bool is_token(char c) {
  static constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kOther.find(c) != std::string_view::npos;
}

}  // namespace

size_t ChunkReader::feed(std::string_view bytes, std::string& body) {
  size_t used = 0;
  while (used < bytes.size() && state_ != State::done && state_ != State::failed) {
    if (state_ != State::data) {
      step(bytes[used++]);
      continue;
    }
    const size_t n = static_cast<size_t>(std::min<uint64_t>(size_, bytes.size() - used));
    body.append(bytes.substr(used, n));
    used += n;
    size_ -= n;
    if (size_ == 0) state_ = State::data_cr;
  }
  return used;
}

void ChunkReader::step(char c) {
  switch (state_) {
    case State::size: return take_digit(c);
    case State::extension:
      if (c == '\r')
        state_ = State::size_lf;
      else if (is_control(c) || ++n_extension_ > kMaxExtension)
        fail(Fault::malformed);
      return;
    case State::size_lf: return c == '\n' ? end_of_size() : fail(Fault::malformed);
    case State::data_cr:
      if (c == '\r')
        state_ = State::data_lf;
      else
        fail(Fault::malformed);
      return;
    case State::data_lf:
      if (c != '\n') return fail(Fault::malformed);
      state_ = State::size;
      n_digits_ = n_extension_ = 0;
      size_ = 0;
      return;
    case State::trailer: return take_trailer(c);
    case State::data:
    case State::done:
    case State::failed: return;
  }
}

void ChunkReader::take_digit(char c) {
  const char lower = static_cast<char>(c | 0x20);
  int digit = -1;
  if (c >= '0' && c <= '9')
    digit = c - '0';
  else if (lower >= 'a' && lower <= 'f')
    digit = lower - 'a' + 10;
  if (digit >= 0) {
    if (++n_digits_ > kMaxDigits) return fail(Fault::malformed);
    size_ = size_ * 16 + static_cast<uint64_t>(digit);
    return;
  }
  if (n_digits_ > 0 && c == ';')
    state_ = State::extension;
  else if (n_digits_ > 0 && c == '\r')
    state_ = State::size_lf;
  else
    fail(Fault::malformed);
}

void ChunkReader::end_of_size() {
  if (size_ > static_cast<uint64_t>(body_left_)) return fail(Fault::body_too_large);
  body_left_ -= static_cast<int64_t>(size_);
  state_ = size_ == 0 ? State::trailer : State::data;
}

void ChunkReader::take_trailer(char c) {
  if (after_cr_) {
    if (c != '\n') return fail(Fault::malformed);
    if (n_line_ == 0)
      state_ = State::done;
    else if (in_name_)
      fail(Fault::malformed);
    n_line_ = 0;
    after_cr_ = false;
    in_name_ = true;
    return;
  }
  if (c == '\r') {
    after_cr_ = true;
    return;
  }
  if (--trailer_left_ < 0) return fail(Fault::trailers_too_large);
  ++n_line_;
  if (in_name_ && c == ':' && n_line_ > 1)
    in_name_ = false;
  else if (in_name_ ? !is_token(c) : is_control(c))
    fail(Fault::malformed);
}

}  // namespace quire
