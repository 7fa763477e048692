// The chunked transfer coding (RFC 9112, 7.1), read in any cuts, strictly: no blanks around the size, CR LF only,
// extensions skipped, trailers checked for form and dropped. Our own, because Beast 1.81's reader asserts on a last
// chunk that comes in two cuts, and lets an unclosed quote in an extension change what follows.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

class ChunkReader {
 public:
  enum class State : uint8_t { size, extension, size_lf, data, data_cr, data_lf, trailer, done, failed };
  enum class Fault : uint8_t { none, malformed, body_too_large, trailers_too_large };

  // `body_limit`: of all data together; `trailer_limit`: bytes of all trailer lines.
  ChunkReader(int64_t body_limit, int64_t trailer_limit) : body_left_(body_limit), trailer_left_(trailer_limit) {}
  ChunkReader() = default;

  // Appends data to `body`. Returns the bytes used: all, unless the coding ended (done) or failed before.
  size_t feed(std::string_view bytes, std::string& body);
  State state() const { return state_; }
  Fault fault() const { return fault_; }

 private:
  void step(char c);
  void take_digit(char c);
  void end_of_size();
  void take_trailer(char c);
  void fail(Fault fault) {
    state_ = State::failed;
    fault_ = fault;
  }

  int64_t body_left_ = 0, trailer_left_ = 0;
  State state_ = State::size;
  Fault fault_ = Fault::none;
  int n_digits_ = 0, n_extension_ = 0;
  uint64_t size_ = 0;                       // of this chunk; while in data, what is still missing
  bool after_cr_ = false, in_name_ = true;  // of a trailer line
  int n_line_ = 0;
};

}  // namespace quire
