#include "serve/pieces.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace quire {
namespace {

constexpr size_t kStringBytes = 16 << 10;  // of a string at a time
constexpr size_t kMostTail = 3;            // bytes of a code point behind its first

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Where the piece that begins at `at` ends: between two code points, if the text is UTF-8.
size_t piece_end(std::string_view text, size_t at) {
  const size_t end = std::min(at + kStringBytes, text.size());
  size_t cut = end;
  while (cut < text.size() && end - cut < kMostTail && continues(text[cut])) --cut;
  return cut < text.size() && continues(text[cut]) ? end : cut;
}

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  const size_t begin = out.size();
  append_json_string(out, text);
  out.erase(begin, 1);
  out.pop_back();
}

Pieces& Pieces::add(std::string_view text) {
  if (parts_.empty() || parts_.back().n > 0) parts_.emplace_back();
  parts_.back().text += text;
  return *this;
}

Pieces& Pieces::add_list(size_t n, Item item) {
  if (n == 0) return *this;
  if (parts_.empty() || parts_.back().n > 0) parts_.emplace_back();
  Part& part = parts_.back();
  part.n = n;
  part.commas = true;
  part.item = std::move(item);
  return *this;
}

Pieces& Pieces::add_json_text(std::string_view text, std::shared_ptr<const void> owner) {
  if (text.empty()) return *this;
  // A piece begins where the one before it ended.
  const auto item = [text, owner = std::move(owner), at = size_t{0}](size_t, std::string& out) mutable {
    const size_t end = piece_end(text, at);
    append_json_text(out, text.substr(at, end - at));
    at = end;
  };
  add_list(text.size() / (kStringBytes - kMostTail) + 1, item);
  parts_.back().commas = false;
  return *this;
}

Pieces& Pieces::add_json_string(std::string_view text, std::shared_ptr<const void> owner) {
  return add("\"").add_json_text(text, std::move(owner)).add("\"");
}

void Pieces::when_written(int64_t max_bytes, std::function<void(std::string)> fn) {
  max_kept_bytes_ = max_bytes;
  when_written_ = std::move(fn);
}

void Pieces::keep(std::string_view written) {
  if (static_cast<int64_t>(kept_.size() + written.size()) > max_kept_bytes_) {
    when_written_ = nullptr;
    kept_ = {};
    return;
  }
  kept_ += written;
  if (done()) std::exchange(when_written_, nullptr)(std::move(kept_));
}

void Pieces::write(size_t n_bytes, std::string& out) {
  const size_t begin = out.size();
  while (!parts_.empty() && out.size() < n_bytes) {
    Part& part = parts_.front();
    if (part.next == 0) out += part.text;
    while (part.next < part.n && (part.next == 0 || out.size() < n_bytes)) {
      if (part.commas && part.next > 0) out += ',';
      part.item(part.next++, out);
    }
    if (part.next == part.n) parts_.pop_front();
  }
  if (when_written_) keep(std::string_view(out).substr(begin));
}

}  // namespace quire
