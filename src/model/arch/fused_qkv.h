// What GPT-2, GPT-NeoX, BLOOM and MPT share: queries, keys and values in one matrix; learned positions; names of
// tensors that some folders have within "transformer.".
#pragma once
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {

class FusedQkvDecoder : public Decoder {
 protected:
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load.linear(layer.qkv, "attn_qkv", q_dim() + 2 * kv_dim(), config().n_embd);
    load.linear(layer.attn_out, "attn_output", config().n_embd, q_dim());
    load_feed_forward(load, layer);
  }
};

inline constexpr const char* kPositions = "position_embd.weight";

// A row for each position, no more of which can be asked for. Fails (Code::corrupt) where the file has no such matrix.
inline Status read_positions(const ModelFile& file, DecoderConfig& c) {
  const HostWeight* positions = file.find(kPositions);
  if (positions == nullptr || positions->shape.size() != 2 || positions->shape[0] < 1) {
    return fail(Code::corrupt, "tensor " + file.shown(kPositions) + ": must be a matrix, a row for each position");
  }
  c.n_positions = static_cast<int>(std::min<int64_t>(positions->shape[0], 1 << 28));
  c.n_ctx = std::min(c.n_ctx, c.n_positions);
  return {};
}

// Each rule, and the same for a tensor within "transformer.". REQUIRES a call before main, by one thread.
inline std::vector<NameRule> also_within_transformer(const std::vector<NameRule>& rules) {
  static std::deque<std::string> names;  // which rules look at
  std::vector<NameRule> out;
  for (const NameRule& rule : rules) {
    out.push_back(rule);
    out.push_back(rule);
    out.back().theirs = names.emplace_back("transformer." + std::string(rule.theirs));
  }
  return out;
}

}  // namespace quire
