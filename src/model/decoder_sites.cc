// Where adapters may add to a decoder: products of its layers that are matrices of the file, whole or rows of them.
#include "model/adapter_experts.h"
#include "model/decoder.h"

namespace quire {
namespace {

// By the names of experts that lie one by one, whatever the file has.
void find_expert_sites(const Experts& experts, int l, int n_layers, std::vector<AdapterSite>& out) {
  const auto n_experts = static_cast<int>(experts.down.size());
  const std::string front = "blk." + std::to_string(l) + ".ffn_";
  for (int e = 0; e < n_experts; ++e) {
    const std::string end = "." + std::to_string(e) + ".weight";
    const int entry = first_expert_entry(n_layers, n_experts, l) + e;
    const auto into = experts.into(static_cast<size_t>(e));
    const Linear& down = experts.down[static_cast<size_t>(e)];
    for (size_t i = 0; i < into.size(); ++i) {
      const char* name = i + 1 < into.size() ? "gate" : "up";
      out.push_back({front + name + end, 0, into[i].n_out, into[i].n_in, entry, &AdapterLayer::gate_up, i});
    }
    out.push_back({front + "down" + end, 0, down.n_out, down.n_in, entry, &AdapterLayer::down, 0});
  }
}

}  // namespace

void Decoder::find_sites(const WeightLoader& load, const DecoderLayer& layer) {
  struct Product {
    const std::vector<Linear>* list;
    std::vector<LowRank> AdapterLayer::* product;
    int entry;
  };
  const int l = number_of(layer), shared = shared_unit_entry(config_.n_layers, l);
  const Product products[] = {{&layer.qkv, &AdapterLayer::qkv, l},
                              {&layer.attn_gate, &AdapterLayer::attn_gate, l},
                              {&layer.attn_out, &AdapterLayer::attn_out, l},
                              {&layer.gate_up, &AdapterLayer::gate_up, l},
                              {&layer.down, &AdapterLayer::down, l},
                              {&layer.shared_gate_up, &AdapterLayer::gate_up, shared},
                              {&layer.shared_down, &AdapterLayer::down, shared},
                              {&layer.shared_gate, kUnitGate, shared},
                              {&layer.router, kRouter, shared}};
  for (const auto& [list, product, entry] : products) {
    if (!layer.latent.empty() && list == &layer.attn_out) continue;  // latent_attention adds nothing
    for (const WeightLoader::Taken& one : load.taken()) {
      if (one.list != list) continue;
      const Linear& matrix = (*list)[one.index];
      sites_.push_back({one.tensor, one.first_row, matrix.n_out, matrix.n_in, entry, product, one.index});
    }
  }
  find_expert_sites(layer.experts, l, config_.n_layers, sites_);
}

void Decoder::refuse_adapted_downs(int l, const char* why_not) {
  const std::string front = "blk." + std::to_string(l) + ".ffn_down.";
  for (AdapterSite& site : sites_) {
    if (site.layer > shared_unit_entry(config_.n_layers, config_.n_layers - 1) && site.tensor.starts_with(front))
      site.why_not = why_not;
  }
}

}  // namespace quire
