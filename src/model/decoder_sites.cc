// Where adapters may add to a decoder: products of its layers that are matrices of the file, whole or rows of them.
#include <utility>

#include "model/decoder.h"

namespace quire {

void Decoder::find_sites(const WeightLoader& load, const DecoderLayer& layer) {
  const std::pair<const std::vector<Linear>*, std::vector<LowRank> AdapterLayer::*> products[] = {
      {&layer.qkv, &AdapterLayer::qkv},
      {&layer.attn_gate, &AdapterLayer::attn_gate},
      {&layer.attn_out, &AdapterLayer::attn_out},
      {&layer.gate_up, &AdapterLayer::gate_up},
      {&layer.down, &AdapterLayer::down}};
  for (const auto& [list, product] : products) {
    if (!layer.latent.empty() && list == &layer.attn_out) continue;  // latent_attention adds nothing
    for (const WeightLoader::Taken& one : load.taken()) {
      if (one.list != list) continue;
      const Linear& matrix = (*list)[one.index];
      sites_.push_back({one.tensor, one.first_row, matrix.n_out, matrix.n_in, number_of(layer), product, one.index});
    }
  }
}

}  // namespace quire
