// The hash of all that a model's numbers depend on: architecture, every hyper-parameter, all bytes of all tensors and
// the formats that they are loaded in, the cache's codecs, the version of the numerics; and the tokenizer, on which an
// answer depends besides. Equal in every process and on every machine, so it may stand in names that last.
// Hyper-parameters are taken from the struct itself: one that is added to it and not here does not compile.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/hash128.h"
#include "model/config.h"

namespace quire {

// fn of every field of a DecoderConfig, in order, those of nested structs too (of `latent`, and of layers that keep a
// state, where there are any); Config may be const.
template <class Config, class Fn>
void each_field(Config& config, Fn fn) {
  auto& [n_layers, n_embd, n_ff, n_vocab, n_experts, n_ff_expert, n_ff_shared, routing, n_ctx, n_heads, n_kv_heads,
         head_dim, v_dim, n_rope, local, latent, rope_theta, rope, rope_local, rope_pairs, norm_eps, norm, is_parallel,
         activation, has_gate, embed_scale, residual_scale, logit_scale, attn_scale, attn_soft_cap, logit_soft_cap,
         window, is_local, is_still, is_state, attends, has_unit, state, n_positions, turns_first, plain_head_norms,
         chunk, share_on_input, query_scale, scales, xielu, jitter, mixture_scale, value_scale, n_readers,
         plain_value_norms, n_ff_of, n_layer_embd, layer_scales, cutoffs, most_slope_bits, qkv_cut, has_embed_norm,
         attention_sum, state_sum, unit_sum, n_shared_blocks] = config;
  auto& [scoring, n_used, normalised, scale, n_expert_groups, n_expert_groups_used, expert_groups_by_two] = routing;
  auto& [freq, magnitude] = rope;
  auto& [latent_kv, latent_q, latent_k_dim, latent_v_dim] = latent;
  auto& [local_freq, local_magnitude] = rope_local;
  const auto all = [&fn](auto&... fields) { (fn(fields), ...); };
  all(n_layers, n_embd, n_ff, n_vocab, n_experts, n_ff_expert, n_ff_shared, n_ctx, n_heads, n_kv_heads);
  all(scoring, n_used, normalised, scale, n_expert_groups, n_expert_groups_used, expert_groups_by_two);
  all(head_dim, n_rope, rope_theta, freq, magnitude, local_freq, local_magnitude, rope_pairs, norm_eps, norm);
  all(is_parallel, activation, has_gate, embed_scale, residual_scale, logit_scale, attn_scale, attn_soft_cap,
      logit_soft_cap, window, is_local, is_still);
  if (latent_kv > 0) all(latent_kv, latent_q, latent_k_dim, latent_v_dim);
  // Others' names stay what they were.
  if (n_positions > 0) all(n_positions);
  if (turns_first || plain_head_norms || chunk > 0 || share_on_input) {
    all(turns_first, plain_head_norms, chunk, share_on_input);
  }
  for (auto& [alpha_p, alpha_n, beta] : xielu) all(alpha_p, alpha_n, beta);
  if (jitter > 0.0F) all(jitter);
  if (mixture_scale != 1.0F) all(mixture_scale);
  if (value_scale != 1.0F) all(value_scale);
  if (n_readers > 0 || n_layer_embd > 0 || plain_value_norms || !n_ff_of.empty() || !cutoffs.empty()) {
    all(n_readers, plain_value_norms, n_ff_of, n_layer_embd, layer_scales, cutoffs);
  }
  if (most_slope_bits > 0.0F || qkv_cut > 0.0F || has_embed_norm) all(most_slope_bits, qkv_cut, has_embed_norm);
  if (v_dim != head_dim || local.n_kv > 0) all(v_dim, local.n_kv, local.k_dim, local.v_dim, local.n_rope);
  if (query_scale.by != 0.0) all(query_scale.by, query_scale.length, query_scale.ahead, query_scale.of_still);
  if (!(scales == PartScales{})) all(scales.attention, scales.gate, scales.unit);
  if (!attends.empty() || !has_unit.empty()) all(attends, has_unit);
  if (!(attention_sum == NormedSum{} && state_sum == NormedSum{} && unit_sum == NormedSum{})) {
    all(attention_sum.kept, attention_sum.found, state_sum.kept, state_sum.found, unit_sum.kept, unit_sum.found);
  }
  if (n_shared_blocks > 0) all(n_shared_blocks);
  if (is_state.empty()) return;
  auto& [n_state_heads, state_head_dim, n_state_groups, state_dim, n_taps, n_channels, has_delta_rule, shares_in_turn,
         beta_scale, state_norm_eps, has_state_norm, n_step_rank, plain_part_norms, by, least_step, fade_bound] = state;
  all(is_state, n_state_heads, state_head_dim, n_state_groups, state_dim, n_taps);
  if (n_channels > 0) all(n_channels);
  if (!has_state_norm) all(has_state_norm);
  if (n_step_rank > 0) all(n_step_rank, plain_part_norms, state_norm_eps);
  if (least_step > 0.0F) all(least_step, state_norm_eps);
  if (fade_bound < 0.0F) all(fade_bound);
  if (!(by == StateScales{})) all(by.gate, by.x, by.b, by.c, by.steps, by.found);
  if (has_delta_rule) all(has_delta_rule, shares_in_turn, beta_scale, state_norm_eps);
}

struct FingerprintParts {
  std::string arch;
  DecoderConfig config;
  std::vector<std::string> formats;  // of the tensors as they are loaded, in the file's order
  std::string k_codec, v_codec;
  Hash128 content;          // of the tensors' bytes (io/content_hash.h)
  Hash128 tokenizer;        // zeros: there is none
  uint64_t numerics = 0;    // of the backend (ops/ahead_ops.h)
  ContextShift shift = {};  // counts where it is on
};

uint64_t fingerprint(const FingerprintParts& parts);
// What a file loaded with these options has. `content`: of its tensors; `numerics`: of the backend that it is loaded
// for.
FingerprintParts fingerprint_parts(const ModelFile& file,
                                   const DecoderConfig& config,
                                   const LoadOptions& options,
                                   const Hash128& content,
                                   uint64_t numerics);

}  // namespace quire
