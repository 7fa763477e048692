#include "app/text_tokens.h"

#include "app/text_file.h"

namespace quire {

Result<std::vector<Token>> text_tokens(const std::string& path, const LoadedModel& loaded) {
  std::vector<Token> out;
  if (path.empty()) return out;
  if (!loaded.tokenizer) return fail(Code::unsupported, loaded.path + " has no tokenizer: give --tokens");
  constexpr int64_t kMostBytes = 1 << 30;
  QR_TRY(const std::string text, read_text_file("--text", path, kMostBytes));
  QR_TRY_VOID(loaded.tokenizer->encode(text, EncodeOptions{.add_special = true}, out));
  return out;
}

Token begin_of_text(const LoadedModel& loaded) {
  if (!loaded.tokenizer) return -1;
  std::vector<Token> frame;
  if (!loaded.tokenizer->encode("", EncodeOptions{.add_special = true}, frame)) return -1;
  const Token bos = loaded.tokenizer->spec().bos;
  return !frame.empty() && bos >= 0 && frame.front() == bos ? bos : -1;
}

Status check_ids(std::span<const Token> ids, const LoadedModel& loaded) {
  const int n_vocab = loaded.model->info().n_vocab;
  for (const Token id : ids) {
    if (id >= 0 && id < n_vocab) continue;
    return fail(Code::invalid, "token id " + std::to_string(id) + " is not in 0 … " + std::to_string(n_vocab - 1));
  }
  return {};
}

}  // namespace quire
