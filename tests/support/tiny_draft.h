// A model of tests as one that drafts: with all of its tokens, with the first of them, or with some that it can write.
// Test code only.
#pragma once
#include <memory>
#include <vector>

#include "base/check.h"
#include "model/short_head.h"
#include "tests/support/tiny_model.h"

namespace quire {

struct TinyDraft {
  const TinyModel* tiny = nullptr;
  int n_vocab = 0;                 // 0: all of them
  std::vector<Token> writes = {};  // of its tokens, ascending; empty: all

  std::unique_ptr<Model> load(Ops& ops) const {
    ModelFile file = tiny->file();
    for (HostWeight& weight : file.tensors) {
      if (n_vocab == 0 || (weight.name != "token_embd.weight" && weight.name != "output.weight")) continue;
      weight.shape[0] = n_vocab;
      weight.data = weight.data.first(static_cast<size_t>(n_vocab * weight.row_bytes()));
    }
    LoadOptions options;
    options.k_codec = options.v_codec = find_kv_codec("f16");
    auto out = load_model(file, ops, options);
    QR_CHECK(out, out.error().message);
    if (writes.empty()) return std::move(*out);
    auto fewer = with_short_head(std::move(*out), file, writes, ops, {});
    QR_CHECK(fewer, fewer.error().message);
    return std::move(*fewer);
  }
};

}  // namespace quire
