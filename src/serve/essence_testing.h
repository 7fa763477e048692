// For tests only: what an answer must be again, whatever failed in between. Ids, times and how many tokens an event
// brings are left out.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

namespace quire {

struct Tried {
  std::string method, path, body;
};

// The characters of a stream's texts, sorted: how many tokens an event brings is a matter of time.
inline std::string streamed_text(std::string_view body) {
  std::string out;
  for (const std::string_view key : {"\"text\":\"", "\"content\":\"", "\"delta\":\"", "\"response\":\""}) {
    for (size_t at = body.find(key); at != std::string_view::npos; at = body.find(key, at)) {
      at += key.size();
      for (; at < body.size() && body[at] != '"'; ++at) out += body[at];
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Ids, times and durations as '#'.
inline std::string masked(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool varies = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (!varies)
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  }
  return out;
}

inline std::string essence(const Tried& what, std::string_view answer) {
  if (what.path == "/metrics") return "";
  return what.body.find("\"stream\":true") != std::string::npos ? streamed_text(answer) : masked(answer);
}

}  // namespace quire
