// Where in a model adapters may add: which matrices it computes with, by the tensors of its file.
#pragma once
#include <string>
#include <vector>

#include "ops/operands.h"

namespace quire {

// A matrix of a layer that adapters may add to.
struct AdapterSite {
  std::string tensor;  // "blk.3.attn_q.weight", of which it is the rows from first_row on
  int64_t first_row = 0, n_out = 0, n_in = 0;
  int layer = 0;
  std::vector<LowRank> AdapterLayer::* product = nullptr;  // of which it is number `index`
  size_t index = 0;
  const char* why_not = nullptr;  // why adapters must not add to it all the same; null: they may
};

}  // namespace quire
