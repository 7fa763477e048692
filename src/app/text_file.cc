#include "app/text_file.h"

#include <fstream>

namespace quire {

Result<std::string> read_text_file(std::string_view option, const std::string& path, int64_t most) {
  const std::string named = std::string(option) + ": " + path;
  std::ifstream in(path, std::ios::binary);
  std::string out;
  std::string part(size_t{1} << 20, '\0');
  while (in.is_open() && std::ssize(out) <= most && !in.eof() && !in.bad()) {
    in.read(part.data(), std::ssize(part));
    out.append(part, 0, static_cast<size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad()) return fail(Code::io, named + " cannot be read");
  if (std::ssize(out) > most) return fail(Code::invalid, named + " has more than " + std::to_string(most) + " bytes");
  return out;
}

}  // namespace quire
