// From a spec to a tokenizer: check, then the builder for its model.
#include "text/tokenizer.h"

#include "text/pipeline.h"
#include "text/spm.h"

namespace quire {

Result<std::unique_ptr<Tokenizer>> make_tokenizer(TokenizerSpec spec) {
  QR_TRY_VOID(check_spec(spec));
  if (spec.model == "llama") return make_spm_bpe(std::move(spec), {});
  if (spec.model == "t5") return make_spm_unigram(std::move(spec), {.own_normalizer = true});
  if (spec.model == "bert") return make_word_piece(std::move(spec));
  if (spec.model == "gpt2") return make_listed_bpe(std::move(spec));
  if (spec.model == "rwkv") return make_longest_match(std::move(spec));
  return fail(Code::unsupported, "tokenizer: model \"" + spec.model + "\" is not known");
}

}  // namespace quire
