#include "app/warm_prompts.h"

#include <algorithm>

#include "app/text_file.h"

namespace quire {
Result<std::vector<std::string>> read_warm_prompts(const std::string& path, int64_t most) {
  constexpr int64_t kMostBytes = 64 << 20;
  QR_TRY(const std::string text, read_text_file("--warm-prompts", path, kMostBytes));
  std::vector<std::string> out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") != std::string::npos) out.push_back(std::move(line));
  }
  if (out.empty()) return fail(Code::invalid, "--warm-prompts: " + path + " has no prompts");
  if (std::ssize(out) > most) {
    return fail(Code::invalid, "--warm-prompts: " + path + " has " + std::to_string(out.size()) +
                                   " prompts; the limit is " + std::to_string(most) + " (n_pins)");
  }
  return out;
}

}  // namespace quire
