#include "app/warm_prompts.h"

#include <fstream>

namespace quire {
namespace {

constexpr int64_t kMostBytes = 64 << 20;

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string out;
  std::string part(size_t{1} << 20, '\0');
  while (in.is_open() && std::ssize(out) <= kMostBytes && !in.eof() && !in.bad()) {
    in.read(part.data(), std::ssize(part));
    out.append(part, 0, static_cast<size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad()) return fail(Code::io, "--warm-prompts: " + path + " cannot be read");
  if (std::ssize(out) > kMostBytes)
    return fail(Code::invalid, "--warm-prompts: " + path + " has more than " + std::to_string(kMostBytes) + " bytes");
  return out;
}

}  // namespace

Result<std::vector<std::string>> read_warm_prompts(const std::string& path, int64_t most) {
  QR_TRY(const std::string text, read_file(path));
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
