// See detok.h. The held bytes are always a proper prefix of some well-formed sequence, which is why three suffice.
#include "text/detok.h"

#include "text/utf8.h"

namespace quire {

void Utf8Stream::push_byte(uint8_t byte, std::string& out) {
  if (n_held_ > 0) {
    const auto lead = static_cast<uint8_t>(held_[0]);
    const SecondByte range = n_held_ == 1 ? second_byte_range(lead) : SecondByte{};
    if (byte >= range.low && byte <= range.high) {
      held_[static_cast<size_t>(n_held_++)] = static_cast<char>(byte);
      if (n_held_ == utf8_length(lead)) {
        out.append(held_.data(), static_cast<size_t>(n_held_));
        n_held_ = 0;
      }
      return;
    }
    flush(out);  // the byte does not continue the sequence: it starts afresh below
  }
  const int len = utf8_length(byte);
  if (len == 1) {
    out.push_back(static_cast<char>(byte));
  } else if (len == 0) {
    out.append(kReplacementUtf8);
  } else {
    held_[0] = static_cast<char>(byte);
    n_held_ = 1;
  }
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  for (const char c : bytes) push_byte(static_cast<uint8_t>(c), out);
}

void Utf8Stream::flush(std::string& out) {
  if (n_held_ == 0) return;
  out.append(kReplacementUtf8);
  n_held_ = 0;
}

void Detok::push(Token id, std::string& out) {
  bytes_.clear();
  tokenizer_.append_bytes(id, special_, bytes_);
  std::string_view bytes = bytes_;
  if (strip_ && !bytes.empty()) {
    if (bytes.front() == ' ') bytes.remove_prefix(1);
    strip_ = false;
  }
  utf8_.push(bytes, out);
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Stream stream;
  stream.push(bytes, out);
  stream.flush(out);
  return out;
}

}  // namespace quire
