#include "model/attention_steps.h"

#include "model/step_tables.h"
#include "ops/parts.h"

namespace quire {
namespace {

void norm_heads(Ops& ops, const AttentionScratch& at, const AttentionPart& part, float eps) {
  if (!part.q_norm.empty()) ops.head_norm(at.q, part.q_norm, eps);
  if (!part.k_norm.empty()) ops.head_norm(at.k, part.k_norm, eps);
}

// Queries, and keys and values where the layer has its own, as they meet the cache.
void make_heads(
    Ops& ops, const AttentionScratch& at, const NormedRows& in, const AttentionPart& part, const HeadSteps& steps) {
  const Tensor& made = steps.only_reads ? at.q : at.qkv;
  const Tensor& turned = steps.only_reads ? at.q : at.qk;
  norm_rows(ops, in);
  ops.linear(made, in.input(), part.qkv);
  if (!part.adapters.empty()) ops.add_low_rank(made, in.input(), part.added_qkv());
  if (steps.cut > 0.0F) {
    ops.finish();
    cut_rows(made, steps.cut);
  }
  if (!steps.turns_first) norm_heads(ops, at, part, in.eps);
  if (!part.rotation.empty()) ops.rope(turned, part.rotation, part.params->k_dim, part.pairs);
  if (steps.turns_first) norm_heads(ops, at, part, in.eps);
  if (!steps.v_norm.empty()) ops.head_norm(at.v, steps.v_norm, in.eps);
}

}  // namespace

void gate_heads(Ops& ops, const Tensor& mixed, const Tensor& gates) {
  const int64_t v_dim = mixed.dim(1) / gates.dim(1);
  for (int64_t h = 0; h < gates.dim(1); ++h) ops.gate_rows(mixed.columns(h * v_dim, v_dim), gates.columns(h, 1));
}

void attention_steps(
    const Pass& pass, Tensor out, const NormedRows& in, const AttentionPart& part, const HeadSteps& steps) {
  Ops& ops = *pass.ops;
  const AttnParams& params = *part.params;
  const AttentionScratch at(part.scratch, params);
  make_heads(ops, at, in, part, steps);
  if (!steps.query_factors.empty()) ops.rope(at.q, steps.query_factors, params.k_dim, part.pairs);
  if (!steps.only_reads) write_kv(at.k, at.v, pass, params);
  if (!pass.batch->voting.empty()) count_votes(ops, at.q, part, pass.batch->voting);
  ops.attend(at.mixed, at.q, *part.kv, *part.meta, params);
  if (!steps.gate.empty()) {
    ops.linear(steps.gate_room, in.input(), steps.gate);
    if (!part.adapters.empty()) ops.add_low_rank(steps.gate_room, in.input(), part.added_gate());
    const bool of_heads = steps.gate_room.dim(1) < at.mixed.dim(1);
    if (of_heads) gate_heads(ops, at.mixed, steps.gate_room);
    if (!of_heads) ops.gated(at.mixed, steps.gate_room, at.mixed, Activation::sigmoid);
  }
  if (!steps.mixed_norm.empty()) ops.rms_norm(at.mixed, at.mixed, steps.mixed_norm, in.eps);
  ops.linear(out, at.mixed, part.out);
  if (!part.adapters.empty()) ops.add_low_rank(out, at.mixed, part.added_out());
}

}  // namespace quire
