// The second part of a decoder's layer: a unit, or a few of many beside one that all rows go to.
#include <cmath>

#include "model/adapter_experts.h"
#include "model/decoder.h"
#include "model/step_tables.h"
#include "ops/parts.h"

namespace quire {

void Decoder::load_experts(WeightLoader& load, DecoderLayer& layer) const {
  const DecoderConfig& c = config_;
  std::vector<Linear> gate, up;
  load.linear(layer.router, "ffn_gate_inp", c.n_experts, c.n_embd);
  if (load.has("ffn_gate_up_exps.weight")) {
    load.paired_experts(gate, up, "ffn_gate_up_exps", {c.n_experts, c.n_ff_expert, c.n_embd});
  } else {
    if (c.has_gate) load.experts(gate, "ffn_gate", {c.n_experts, c.n_ff_expert, c.n_embd});
    load.experts(up, "ffn_up", {c.n_experts, c.n_ff_expert, c.n_embd});
  }
  load.experts(layer.experts.down, "ffn_down", {c.n_experts, c.n_embd, c.n_ff_expert});
  if (!load.status()) return;
  for (size_t e = 0; e < up.size(); ++e) {
    layer.experts.gate_up.push_back(c.has_gate ? std::array{gate[e], up[e]} : std::array{up[e], Linear()});
  }
  layer.experts.has_gate = c.has_gate;
  layer.experts.routing = c.routing;
  layer.experts.activation = c.activation;
  if (load.has("exp_probs_b.bias")) load.vector(layer.experts.choice_bias, "exp_probs_b.bias", c.n_experts);
  if (c.n_ff_shared > 0) load_shared(load, layer);
}

void Decoder::load_shared(WeightLoader& load, DecoderLayer& layer) const {
  load_units(load, layer.shared_gate_up, "_shexp", config_.n_ff_shared);
  load.linear(layer.shared_down, "ffn_down_shexp", config_.n_embd, config_.n_ff_shared);
}

void Decoder::load_units(WeightLoader& load, std::vector<Linear>& out, const std::string& suffix, int64_t n_ff) const {
  if (config_.has_gate) load.linear(out, "ffn_gate" + suffix, n_ff, config_.n_embd);
  load.linear(out, "ffn_up" + suffix, n_ff, config_.n_embd);
}

void Decoder::load_feed_forward(WeightLoader& load, DecoderLayer& layer) const {
  if (config_.n_experts > 0 && load.has("ffn_gate_inp.weight")) {
    load_experts(load, layer);
    return;
  }
  load_unit(load, layer);
}

void Decoder::load_unit(WeightLoader& load, DecoderLayer& layer) const {
  load_units(load, layer.gate_up, "", n_ff_of(layer));
  load.linear(layer.down, "ffn_down", config_.n_embd, n_ff_of(layer));
}

void Decoder::feed_forward(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const {
  if (!layer.router.empty()) {
    mixture(out, layer, in, pass);
    return;
  }
  unit(out, layer, in, pass);
}

void Decoder::unit(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const {
  if (!config_.xielu.empty()) {
    xielu_unit(out, layer, in, pass);
    return;
  }
  const auto mark = pass.arena->mark();
  const int64_t n_columns = static_cast<int64_t>(layer.gate_up.size()) * n_ff_of(layer);
  const FeedForwardPart part{
      .gate_up = layer.gate_up,
      .activation = config_.activation,
      .down = layer.down,
      .scratch = pass.arena->alloc_rows(in.x.dim(0), n_columns),  // [n, gate | up]
      .adapters = pass.batch->adapters,
      .layer = number_of(layer),
  };
  const bool is_plain = config_.scales.gate == 1.0F && layer.unit_norm.empty() && config_.cutoffs.empty();
  is_plain ? pass.ops->feed_forward(out, in, part) : stepped_unit(out, in, part, layer.unit_norm, pass);
  if (config_.scales.unit != 1.0F) pass.ops->scale(out, config_.scales.unit);
  pass.arena->release(mark);
}

void Decoder::stepped_unit(
    Tensor out, const NormedRows& in, const FeedForwardPart& part, const Tensor& norm, const Pass& pass) const {
  const FeedForwardScratch at(part.scratch, part.gate_up.size() == 2);
  norm_rows(*pass.ops, in);
  pass.ops->linear(part.scratch, in.input(), part.gate_up);
  if (!part.adapters.empty()) pass.ops->add_low_rank(part.scratch, in.input(), part.added_gate_up());
  if (config_.scales.gate != 1.0F) pass.ops->scale(at.gate, config_.scales.gate);
  const double cutoff = config_.cutoffs.empty() ? -INFINITY : config_.cutoffs[static_cast<size_t>(part.layer)];
  if (cutoff > -INFINITY) {
    pass.ops->finish();
    keep_above(at.gate, cutoff);
  }
  pass.ops->gated(at.hidden, at.gate, at.up, part.activation);
  if (!norm.empty()) pass.ops->rms_norm(at.hidden, at.hidden, norm, in.eps);
  pass.ops->linear(out, at.hidden, part.down);
  if (!part.adapters.empty()) pass.ops->add_low_rank(out, at.hidden, part.added_down());
}

void Decoder::xielu_unit(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const {
  const Xielu& by = config_.xielu[static_cast<size_t>(number_of(layer))];
  const int64_t n = in.x.dim(0), n_ff = config_.n_ff;
  const auto mark = pass.arena->mark();
  const Tensor x = pass.arena->alloc_rows(n, n_ff), part = pass.arena->alloc_rows(n, n_ff);  // [n, n_ff]
  const Tensor sum = pass.arena->alloc_rows(n, n_ff);                                        // [n, n_ff]
  const std::span<const AdapterRows> adapters = pass.batch->adapters;
  norm_rows(*pass.ops, in);
  pass.ops->linear(x, in.input(), layer.gate_up);
  if (!adapters.empty()) {
    pass.ops->add_low_rank(x, in.input(), {adapters, number_of(layer), &AdapterLayer::gate_up});
  }
  pass.ops->gated(sum, x, {}, Activation::relu2);
  pass.ops->scale(sum, by.alpha_p);
  pass.ops->gated(part, x, {}, Activation::below_zero);
  pass.ops->scale(part, by.alpha_n);
  pass.ops->add(sum, part);
  pass.ops->scale(x, by.beta);
  pass.ops->add(sum, x);
  pass.ops->linear(out, sum, layer.down);
  if (!adapters.empty()) pass.ops->add_low_rank(out, sum, {adapters, number_of(layer), &AdapterLayer::down});
  pass.arena->release(mark);
}

Tensor Decoder::expert_input(const NormedRows& in, const Tensor& scores, const Pass& pass) const {
  if (!config_.share_on_input) return in.input();
  const int64_t n = in.x.dim(0);
  const Tensor scaled = pass.arena->alloc_rows(n, config_.n_embd);  // [n, n_embd]
  const Tensor best = pass.arena->alloc(DType::f32, {n, 1});
  const Tensor each = pass.arena->alloc(DType::i32, {n});
  pass.ops->finish();
  for (int64_t i = 0; i < n; ++i) each.ptr<int32_t>()[i] = static_cast<int32_t>(i);
  fill_largest(best, scores);
  pass.ops->rows(scaled, in.input(), each);
  pass.ops->gate_rows(scaled, best);
  return scaled;
}

void Decoder::mixture(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const {
  const int64_t n = in.x.dim(0);
  const DecoderConfig& c = config_;
  const auto mark = pass.arena->mark();
  Tensor scores = pass.arena->alloc(DType::f32, {n, c.n_experts});  // [n, n_experts]
  Tensor scratch = pass.arena->alloc_rows(n * c.routing.n_used, c.n_embd + 3 * int64_t{c.n_ff_expert});
  norm_rows(*pass.ops, in);
  pass.ops->linear(scores, in.input(), layer.router);
  add_beside_experts(scores, in.input(), shared_unit_entry(c.n_layers, number_of(layer)), kRouter, pass);
  if (c.jitter > 0.0F) {
    pass.ops->finish();
    mix_sparsely(scores, c.jitter);
  }
  run_experts(out, MoeInput{expert_input(in, scores, pass), scores, scratch}, layer.experts,
              first_expert_entry(c.n_layers, c.n_experts, number_of(layer)), pass);
  pass.arena->release(mark);
  if (!layer.shared_down.empty()) shared_unit(out, layer, in, pass);
  if (c.mixture_scale != 1.0F) pass.ops->scale(out, c.mixture_scale);
}

void Decoder::shared_unit(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const {
  const int64_t n = in.x.dim(0);
  const bool has_gate = layer.shared_gate_up.size() == 2;
  const auto mark = pass.arena->mark();
  const int64_t n_columns = (has_gate ? 2 : 1) * int64_t{config_.n_ff_shared};
  const Tensor scratch = pass.arena->alloc_rows(n, n_columns);     // [n, gate | up]
  const Tensor found = pass.arena->alloc_rows(n, config_.n_embd);  // [n, n_embd]
  const FeedForwardScratch at(scratch, has_gate);
  const int entry = shared_unit_entry(config_.n_layers, number_of(layer));
  pass.ops->linear(scratch, in.input(), layer.shared_gate_up);
  add_beside_experts(scratch, in.input(), entry, &AdapterLayer::gate_up, pass);
  pass.ops->gated(at.hidden, at.gate, at.up, config_.activation);
  pass.ops->linear(found, at.hidden, layer.shared_down);
  add_beside_experts(found, at.hidden, entry, &AdapterLayer::down, pass);
  if (!layer.shared_gate.empty()) {
    const Tensor gate = pass.arena->alloc(DType::f32, {n, 1});
    pass.ops->linear(gate, in.input(), layer.shared_gate);
    add_beside_experts(gate, in.input(), entry, kUnitGate, pass);
    pass.ops->gate_rows(found, gate);
  }
  pass.ops->add(out, found);
  pass.arena->release(mark);
}

}  // namespace quire
