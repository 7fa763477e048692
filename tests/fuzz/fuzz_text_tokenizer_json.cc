// A hostile tokenizer.json: refused, or a tokenizer that works on any text.
#include <cstddef>
#include <cstdint>

#include "base/json.h"
#include "text/hf/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  const auto root = Json::parse({reinterpret_cast<const char*>(data), size});
  if (!root) return 0;
  const auto t = make_hf_tokenizer(*root, {});
  if (!t) return 0;
  for (const std::string_view text :
       {"", "Hello world  it's 123\n\n\xE4\xBD\xA0 \xFF<s>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    std::vector<Token> ids;
    (*t)->encode(text, {.add_special = true, .parse_special = true}, ids);
    for (const Token id : ids) {
      if (id < 0 || id >= (*t)->n_vocab()) __builtin_trap();
    }
    (*t)->decode(ids, true);
  }
  return 0;
}
