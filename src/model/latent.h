// Multi-head latent attention: a token's keys and values of all heads are made of one row, its latent and one key that
// turns by its position. What makes them is multiplied into the queries and out of the mixed values instead, so that
// the cache holds that row alone and all heads share it: [turning key | latent], of which the latent is the value too
// (AttnParams::values_in_keys). Always so, one token or a whole prompt: a row has one order of sums. The matrices that
// are multiplied in are the file's own, cut by heads while they load.
// Source: DeepSeek-AI 2024, "DeepSeek-V2" (arXiv:2405.04434), 2.1.
#pragma once
#include <string>
#include <vector>

#include "model/config.h"
#include "model/model.h"
#include "model/weight_loader.h"

namespace quire {

// Of one layer. Heads' queries have a part that turns behind one that does not.
struct LatentWeights {
  std::vector<Linear> q_a;   // n_embd → latent.n_q, where queries have a latent of their own; none: they have not
  Tensor q_a_norm;           // [latent.n_q]
  std::vector<Linear> q_b;   // n_embd, or latent.n_q → n_heads · (latent.k_dim + n_rope)
  std::vector<Linear> kv_a;  // n_embd → n_rope | latent.n_kv
  Tensor kv_a_norm;          // [latent.n_kv]
  std::vector<Linear> k_b;   // of each head, latent.k_dim → latent.n_kv: into its query
  std::vector<Linear> v_b;   // of each head, latent.n_kv → latent.v_dim: out of its mixed latents
  bool empty() const { return kv_a.empty(); }
};

// What GGUF has of what makes heads' keys and values of a latent: one matrix, or for each of the two what it is
// multiplied in with.
enum class LatentForm : uint8_t { whole, cut };
// What a folder calls the tensors of it.
std::vector<NameRule> latent_names(LatentForm form);
// Translates a folder's sizes of it and what its scores are multiplied with. Errors name the key.
Status translate_latent(HfFacts& facts, LatentForm form);

// Fills in config.latent, where the file has "<prefix>attention.kv_lora_rank", and with it attn_scale, head_dim and
// n_kv_heads, which are those of the row in the cache. REQUIRES the latter two, as the file has them, and n_rope.
// Errors name the key.
Status read_latent(const ModelFile& file, const std::string& prefix, DecoderConfig& config);
// Code::not_found where the file of an architecture that `takes` latent rows has no sizes of them, Code::unsupported
// where another's has. Errors name the key.
Status check_latent(const ModelFile& file, const std::string& prefix, const DecoderConfig& config, bool takes);
// Code::unsupported where values that are components of keys cannot lie in this codec.
Status check_latent_codec(const DecoderConfig& config, const LoadOptions& options);

void load_latent(WeightLoader& load, const DecoderConfig& config, LatentWeights& out);

struct LatentPart {
  const LatentWeights& weights;
  const DecoderConfig& config;
  const AttnParams& params;
  const AttnMeta& meta;
  Tensor rotation;                    // f32 [n, n_rope / 2, 2]; empty: rows do not turn
  Tensor query_factors;               // f32 [n, head_dim / 2, 2], as HeadSteps'; empty: none
  std::span<const Linear> out;        // n_heads · latent.v_dim → n_embd
  std::span<const Linear> gate = {};  // n_embd → n_heads: what of a head's values goes on, as HeadSteps'; none: all
};

// Numbers that latent_attention() takes from the arena for every row.
int64_t latent_columns(const DecoderConfig& config);
// The part of a layer between two residual additions: out [n, n_embd] is what to add.
void latent_attention(Tensor out, const NormedRows& in, const LatentPart& part, const Pass& pass);

}  // namespace quire
