#include "model/paired_rows.h"

namespace quire {

bool pairs_rows(const ModelInfo& info) {
  const ArchEntry* arch = Registry<ArchEntry>::get().find(info.arch);
  return info.rope_pairs == RopePairs::interleaved && arch != nullptr && arch->hf.pairs_in_gguf;
}

}  // namespace quire
