#include "app/text_file.h"

#include <fstream>
#include <iostream>

namespace quire {
namespace {

Result<std::string> read_all(std::istream& in, const std::string& named, int64_t most) {
  std::string out;
  std::string part(size_t{1} << 20, '\0');
  while (std::ssize(out) <= most && in) {
    in.read(part.data(), std::ssize(part));
    out.append(part, 0, static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) return fail(Code::io, named + ": cannot be read");
  if (std::ssize(out) > most) return fail(Code::invalid, named + " has more than " + std::to_string(most) + " bytes");
  return out;
}

}  // namespace

Result<std::string> read_text_file(std::string_view option, const std::string& path, int64_t most) {
  const std::string named = std::string(option) + ": " + path;
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(Code::io, named + ": cannot be read");
  return read_all(in, named, most);
}

Result<std::string> read_stdin(int64_t most) { return read_all(std::cin, "stdin", most); }

}  // namespace quire
