#include "model/attention_steps.h"

#include "ops/parts.h"

namespace quire {
namespace {

void norm_heads(Ops& ops, const AttentionScratch& at, const AttentionPart& part, float eps) {
  if (!part.q_norm.empty()) ops.head_norm(at.q, part.q_norm, eps);
  if (!part.k_norm.empty()) ops.head_norm(at.k, part.k_norm, eps);
}

}  // namespace

void attention_steps(Ops& ops, Tensor out, const NormedRows& in, const AttentionPart& part, const HeadSteps& steps) {
  const AttnParams& params = *part.params;
  const AttentionScratch at(part.scratch, params);
  norm_rows(ops, in);
  ops.linear(at.qkv, in.input(), part.qkv);
  if (!part.adapters.empty()) ops.add_low_rank(at.qkv, in.input(), part.added_qkv());
  if (!steps.turns_first) norm_heads(ops, at, part, in.eps);
  if (!part.rotation.empty()) ops.rope(at.qk, part.rotation, params.k_dim, part.pairs);
  if (steps.turns_first) norm_heads(ops, at, part, in.eps);
  if (!steps.query_factors.empty()) ops.rope(at.q, steps.query_factors, params.k_dim, part.pairs);
  ops.kv_write(at.k, at.v, part.slots, *part.kv, params);
  ops.attend(at.mixed, at.q, *part.kv, *part.meta, params);
  if (!steps.gate.empty()) {
    ops.linear(steps.gate_room, in.input(), steps.gate);
    if (!part.adapters.empty()) ops.add_low_rank(steps.gate_room, in.input(), part.added_gate());
    ops.gated(at.mixed, steps.gate_room, at.mixed, Activation::sigmoid);
  }
  ops.linear(out, at.mixed, part.out);
  if (!part.adapters.empty()) ops.add_low_rank(out, at.mixed, part.added_out());
}

}  // namespace quire
