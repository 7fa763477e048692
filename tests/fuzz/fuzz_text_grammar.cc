// All front ends of grammars: the first byte says which, the rest is the source, a NUL and a text. A source that
// compiles is walked: what mask() allows accept() takes, and the other way round; after rolling back all is as before.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "text/grammar/bnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/structural_tag.h"

namespace {

using namespace quire;

Result<std::shared_ptr<const Grammar>> compile(uint8_t which, std::string_view source) {
  GrammarLimits limits;
  limits.fuel = 20'000;
  limits.memory_bytes = 8 << 20;
  switch (which % 6) {
    case 0: return compile_json_schema(source, {(which & 0x80) != 0}, limits);
    case 1: return compile_regex(source, limits);
    case 2: return compile_gbnf(source, limits);
    case 3: return compile_ebnf(source, limits);
    case 4: return compile_lark(source, limits);
    default: break;
  }
  QR_TRY(const Json tag, Json::parse(source));
  return compile_structural_tag(tag, {{"<c>", 256}}, limits);
}

std::shared_ptr<const TokenTrie> bytes() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  tokens.emplace_back("");
  tokens.emplace_back("\":");
  tokens.emplace_back("</s>");
  return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<Token>{258}, 259);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4096) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t nul = std::min(input.find('\0'), input.size());
  const auto grammar = compile(data[0], input.substr(0, nul));
  if (!grammar) return 0;
  static const auto trie = bytes();
  Matcher m(*grammar, trie);
  std::vector<uint32_t> mask(m.n_words()), first(m.n_words());
  if (!m.mask(first)) return 0;
  for (const char c : input.substr(std::min(nul + 1, input.size()))) {
    const auto id = static_cast<Token>(static_cast<uint8_t>(c));
    if (!m.mask(mask)) return 0;
    const auto i = static_cast<size_t>(id);
    const bool allowed = (mask[i / 32] >> (i % 32) & 1) != 0;
    const Status done = m.accept(id);
    if (!done && done.error().code == Code::exhausted) return 0;
    QR_CHECK(done.has_value() == allowed, "mask and accept differ");
    if (!done) break;
  }
  m.rollback(m.accepted());
  if (m.mask(mask)) QR_CHECK(mask == first, "rolled back, yet other than before");
  return 0;
}
