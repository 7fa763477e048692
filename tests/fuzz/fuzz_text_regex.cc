// The linear-time regex engine against PCRE2: the input is a pattern, a NUL and a text. Where both engines take the
// pattern, and PCRE2 does not give up, they must find the same matches in the text's ASCII (their Unicode versions
// differ beyond).
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "text/regex/dfa.h"
#include "text/regex/matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  if (nul == std::string_view::npos || nul > 256 || size > 1024) return 0;
  const std::string_view pattern = input.substr(0, nul);
  std::string text(input.substr(nul + 1));
  for (char& c : text) c = static_cast<char>(c & 0x7F);
  const auto tree = parse_regex(pattern, {});
  if (!tree) return 0;
  const auto dfa = Dfa::compile(*tree);
  if (!dfa) return 0;
  std::vector<ByteRange> ours, theirs;
  dfa->find_all(text, ours);
  const auto pcre = make_pcre_matcher(pattern, {});
  if (!pcre || text.find('\x1c') < text.size()) return 0;
  if (!(*pcre)->find_all(text, theirs)) return 0;
  // Both go on one code point behind an empty match. At the very end there is nothing to cut: ours does not look there.
  std::erase_if(theirs, [&](const ByteRange& r) { return r.begin == text.size(); });
  QR_CHECK(ours == theirs, std::string(pattern));
  return 0;
}
