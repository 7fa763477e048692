// A hostile tokenizer.model (SentencePiece's protobuf) or rank file: refused, or a tokenizer that works on any text.
#include <cstddef>
#include <cstdint>

#include "text/spm_model.h"
#include "text/tiktoken.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto t = looks_like_tiktoken(file) ? make_tiktoken(file, {}) : make_spm_model(file, {});
  if (!t) return 0;
  for (const std::string_view text : {"", "Hello  world 123\n\xE4\xBD\xA0 \xFF<s> ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    std::vector<Token> ids;
    (*t)->encode(text, {.add_special = true, .parse_special = true}, ids);
    for (const Token id : ids) {
      if (id < 0 || id >= (*t)->n_vocab()) __builtin_trap();
    }
    (*t)->decode(ids, true);
  }
  return 0;
}
