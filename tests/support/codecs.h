// The codecs of the cache, as the parameters of tests.
#pragma once
#include <vector>

#include "base/sanitized.h"
#include "quant/kv_codec.h"

namespace quire {

// With sanitizers those whose kernels differ most: memory errors of all are found in the op corpus.
inline std::vector<const KvCodec*> tried_codecs() {
  if (kSanitized) return {find_kv_codec("f16"), find_kv_codec("q4")};
  return {kv_codecs().begin(), kv_codecs().end()};
}

}  // namespace quire
