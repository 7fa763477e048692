#include "model/decoder.h"

#include <algorithm>

#include "base/bounded_reader.h"
#include "model/adapter_ends.h"
#include "model/attention_steps.h"
#include "model/fingerprint.h"
#include "model/step_tables.h"
#include "ops/op_check.h"
#include "ops/parts.h"

namespace quire {

HeadSizes Decoder::heads_of(bool is_local) const {
  const DecoderConfig& c = config_;
  if (is_local && c.local.n_kv > 0) return c.local;
  return {c.n_kv_heads, c.head_dim, c.latent.n_kv > 0 ? c.latent.n_kv : c.v_dim, c.n_rope};
}

AttnParams Decoder::claim(const LoadOptions& options, bool is_local) {
  const DecoderConfig& c = config_;
  const HeadSizes heads = heads_of(is_local);
  // A layer that sees less than what shifts stays as it is.
  const bool shifts = options.shift.is_on() && (!is_local || c.window > options.shift.window);
  const int window = shifts ? options.shift.window : is_local ? c.window : 0;
  const int n_kept = shifts ? options.shift.n_sinks : 0;
  // Where no position lies behind the window every key is kept anyway.
  const int n_seen = window + n_kept;
  const bool slides = window > 0 && n_seen < info_.n_ctx && (options.n_ctx == 0 || n_seen < options.n_ctx);
  const KvGroup group = slides ? KvGroup{KvGroup::Kind::window, window, n_kept} : KvGroup{};
  AttnParams out{.k_codec = options.k_codec,
                 .v_codec = options.v_codec,
                 .n_heads = c.n_heads,
                 .n_kv_heads = heads.n_kv,
                 .k_dim = heads.k_dim,
                 .v_dim = heads.v_dim,
                 .values_in_keys = c.latent.n_kv > 0,
                 .scale = c.attn_scale,
                 .soft_cap = c.attn_soft_cap,
                 .window = window,
                 .n_kept = n_kept,
                 .kept_pairs = c.rope_pairs,
                 .most_slope_bits = c.most_slope_bits};
  const HeadBytes bytes = head_bytes(out);
  const KvClaim claim = info_.kv_layout.claim(group, heads.n_kv * (bytes.k + bytes.v));
  out.group = claim.group;
  out.kv_offset = claim.offset;
  if (options.k_codec->packs()) {
    const HeadBytes of_tail = head_bytes(tail_params(out));
    const KvClaim tail = info_.kv_layout.claim(kTailGroup, heads.n_kv * (of_tail.k + of_tail.v));
    out.tail_group = tail.group;
    out.tail_offset = tail.offset;
  }
  return out;
}

Status Decoder::check_shift(const LoadOptions& options) const {
  const ContextShift& shift = options.shift;
  const bool stay = config_.n_positions > 0 || config_.turns_first || config_.chunk > 0 || config_.most_slope_bits > 0;
  if (shift.is_on() && stay) {
    return fail(Code::unsupported, "a context shift: keys of this architecture do not move to other positions");
  }
  if (!shift.is_on() || shift.n_positions() <= config_.n_ctx) return {};
  return fail(Code::invalid, "a context shift with " + std::to_string(shift.n_sinks) + " sinks and a window of " +
                                 std::to_string(shift.window) + " tokens takes " + std::to_string(shift.n_positions()) +
                                 " positions; the model has " + std::to_string(config_.n_ctx));
}

Status Decoder::check_positions(const LoadOptions& options) const {
  if (config_.query_scale.by != 0.0 && config_.head_dim % 2 != 0) {
    return fail(Code::unsupported, "heads of " + std::to_string(config_.head_dim) +
                                       " numbers, of which queries grow with their position: must be even");
  }
  if (config_.n_positions == 0 || options.n_ctx <= config_.n_positions) return {};
  return fail(Code::invalid, "a context of " + std::to_string(options.n_ctx) + " tokens: the model has learned " +
                                 std::to_string(config_.n_positions) + " positions");
}

// Layers without heads are for architectures that read what those are instead.
Status Decoder::check_states(const ModelFile& file) const {
  if (config_.is_state.empty() || config_.state.n_heads > 0 || config_.state.n_channels > 0) return {};
  return fail(Code::unsupported, file.path + ": key " +
                                     file.meta.shown(file.meta.get_string("general.architecture").value_or("") +
                                                     ".attention.head_count_kv") +
                                     ": this architecture has no layers without heads");
}

Status Decoder::check_headless(const ModelFile& file, const std::string& prefix) const {
  const std::vector<bool>& units = config_.has_unit;
  const bool has_units = units.empty() || std::find(units.begin(), units.end(), true) != units.end();
  if (config_.n_heads > 0 || !has_units || has_units_without_heads()) return {};
  return fail(Code::unsupported,
              file.path + ": key " + file.meta.shown(prefix + "attention.head_count") + ": must be 1 at least, is 0");
}

Status Decoder::claim_cache(const ModelFile& file, const LoadOptions& options) {
  QR_TRY(config_, read_decoder_config(file, options));
  QR_TRY(const std::string arch, file.meta.get_string("general.architecture"));
  QR_TRY_VOID(check_headless(file, arch + "."));
  auto latent = check_latent(file, arch + ".", config_, takes_latent());
  if (!latent) return error_within(file.path, std::move(latent).error());
  auto configured = configure(file, arch + ".", config_);
  if (!configured) return error_within(file.path, std::move(configured).error());
  QR_TRY_VOID(check_shift(options));
  QR_TRY_VOID(check_positions(options));
  if (config_.latent.n_kv > 0) QR_TRY_VOID(check_latent_codec(config_, options));
  QR_TRY_VOID(check_states(file));
  info_ = make_model_info(file, config_, options);
  info_.sees_chunks = config_.chunk > 0;
  info_.has_taps = true;
  for (int l = 0; l < config_.n_layers; ++l) {
    DecoderLayer& layer = layers_.emplace_back();
    const auto said = [l](const std::vector<bool>& of, bool otherwise) {
      return of.empty() ? otherwise : of[static_cast<size_t>(l)];
    };
    layer.is_local = said(config_.is_local, false);
    layer.is_still = said(config_.is_still, false);
    layer.keeps_state = said(config_.is_state, false);
    layer.attends = said(config_.attends, !layer.keeps_state);
    layer.has_unit = said(config_.has_unit, true);
    layer.only_reads = l >= config_.n_layers - config_.n_readers;
    if (layer.keeps_state) claim_state(config_.state, info_.kv_layout, layer.state);
    if (layer.only_reads) {
      auto read = layer_read_by(static_cast<size_t>(l));
      if (!read) return error_within(file.path, std::move(read).error());
      layer.attn = layers_[*read].attn;
    } else if (layer.attends) {
      layer.attn = claim(options, layer.is_local);
    }
    info_.attention.push_back(layer.attn);
  }
  if (info_.kv_layout.n_groups() > KvView::kMaxGroups) {
    return fail(Code::unsupported, "--kv-type " + std::string(options.k_codec->name) + ": this model's layers keep " +
                                       std::to_string(info_.kv_layout.n_groups()) + " kinds of blocks with it, " +
                                       std::to_string(KvView::kMaxGroups) + " at most are possible");
  }
  return {};
}

Status Decoder::load(const ModelFile& file, Ops& ops, const LoadOptions& options) {
  QR_TRY_VOID(claim_cache(file, options));
  WeightLoader load(file, ops, options);
  for (size_t l = 0; l < layers_.size() && load.status(); ++l) {
    load.enter("blk." + std::to_string(l) + ".");
    load_layer(load, layers_[l]);
    if (load.status()) find_sites(load, layers_[l]);
  }
  QR_TRY_VOID(load_ends(load));
  info_.fingerprint = fingerprint(fingerprint_parts(file, config_, options, load.content(), ops.numerics()));
  return {};
}

Status Decoder::load_ends(WeightLoader& load) {
  const DecoderConfig& c = config_;
  load.enter("");
  std::vector<Linear> embedding;
  load.linear(embedding, "token_embd", c.n_vocab, c.n_embd);
  const bool is_other = !load.has("output_norm.weight") && load.has("token_embd_norm.weight");
  load.vector(output_norm_, is_other ? "token_embd_norm.weight" : "output_norm.weight", c.n_embd);
  const bool layer_norms = c.norm == NormKind::layer;
  if (layer_norms && load.has("output_norm.bias")) load.vector(output_norm_bias_, "output_norm.bias", c.n_embd);
  if (c.has_embed_norm) {
    load.vector(embed_norm_, "token_embd_norm.weight", c.n_embd);
    if (layer_norms && load.has("token_embd_norm.bias"))
      load.vector(embed_norm_bias_, "token_embd_norm.bias", c.n_embd);
  }
  if (c.n_positions > 0) load.linear(positions_, "position_embd", c.n_positions, c.n_embd);
  if (load.has("output.weight")) load.linear(output_, "output", c.n_vocab, c.n_embd);
  if (c.n_layer_embd > 0) load_own_embeddings(load);
  load_more(load);
  QR_TRY_VOID(load.status());
  embedding_ = embedding[0];
  if (output_.empty()) output_.push_back(embedding_);
  sites_.push_back({"token_embd.weight", 0, embedding_.n_in, embedding_.n_out, c.n_layers, kEmbedding, 0});
  sites_.push_back({"output.weight", 0, output_[0].n_out, output_[0].n_in, c.n_layers, kHead, 0});
  return {};
}

void Decoder::load_attention(WeightLoader& load, DecoderLayer& layer) const {
  if (config_.latent.n_kv > 0) return load_latent_attention(load, layer);
  const AttnParams& heads = layer.attn;
  load.linear(layer.qkv, "attn_q", int64_t{heads.n_heads} * heads.k_dim, config_.n_embd);
  if (!layer.only_reads) {
    load.linear(layer.qkv, "attn_k", int64_t{heads.n_kv_heads} * heads.k_dim, config_.n_embd);
    const bool is_key = config_.plain_value_norms && heads.k_dim == heads.v_dim && !load.has("attn_v.weight");
    if (is_key) load.again(layer.qkv);  // values are what keys are before their norm and rotation
    if (!is_key) load.linear(layer.qkv, "attn_v", int64_t{heads.n_kv_heads} * heads.v_dim, config_.n_embd);
    if (config_.plain_value_norms) load.ones(layer.v_norm, heads.v_dim);
  }
  load.linear(layer.attn_out, "attn_output", config_.n_embd, int64_t{heads.n_heads} * heads.v_dim);
}

void Decoder::load_latent_attention(WeightLoader& load, DecoderLayer& layer) const {
  load_latent(load, config_, layer.latent);
  load.linear(layer.attn_out, "attn_output", config_.n_embd, int64_t{config_.n_heads} * config_.latent.v_dim);
}

void Decoder::load_layer(WeightLoader& load, DecoderLayer& layer) const {
  load_norms(load, layer);
  load_mixers(load, layer);
  if (layer.has_unit) load_feed_forward(load, layer);
}

void Decoder::load_mixers(WeightLoader& load, DecoderLayer& layer) const {
  if (layer.keeps_state) load_state_mixer(load, config_, layer.state);
  if (layer.attends) load_attention(load, layer);
}

void NormedHeads::load_layer(WeightLoader& load, DecoderLayer& layer) const {
  if (layer.attends) load_head_norms(load, layer);
  Decoder::load_layer(load, layer);
}

void Decoder::load_norms(WeightLoader& load, DecoderLayer& layer) const {
  load.vector(layer.attn_norm, "attn_norm.weight", config_.n_embd);
  const bool layer_norms = config_.norm == NormKind::layer;
  if (layer_norms && load.has("attn_norm.bias")) load.vector(layer.attn_norm_bias, "attn_norm.bias", config_.n_embd);
  if (config_.is_parallel && !load.has("ffn_norm.weight")) return;  // one for both
  load.vector(layer.ffn_norm, "ffn_norm.weight", config_.n_embd);
  if (layer_norms && load.has("ffn_norm.bias")) load.vector(layer.ffn_norm_bias, "ffn_norm.bias", config_.n_embd);
}
void Decoder::load_post_norms(WeightLoader& load, DecoderLayer& layer) const {
  load.vector(layer.post_attn_norm, "post_attention_norm.weight", config_.n_embd);
  load.vector(layer.post_ffn_norm, "post_ffw_norm.weight", config_.n_embd);
}
void Decoder::load_head_norms(WeightLoader& load, DecoderLayer& layer) const {
  load.vector(layer.q_norm, "attn_q_norm.weight", layer.attn.k_dim);
  if (!layer.only_reads) load.vector(layer.k_norm, "attn_k_norm.weight", layer.attn.k_dim);
}

void Decoder::load_row_norms(WeightLoader& load, DecoderLayer& layer) const {
  load.vector(layer.q_norm, "attn_q_norm.weight", q_dim());
  load.vector(layer.k_norm, "attn_k_norm.weight", kv_dim());
}

int64_t Decoder::attention_columns() const {
  if (config_.latent.n_kv > 0) return latent_columns(config_);
  int64_t most = 0;
  for (const DecoderLayer& layer : layers_) {
    if (!layer.attends) continue;
    const int64_t gate =
        layer.attn_gate.empty() ? 0 : Arena::row_stride(int64_t{layer.attn.n_heads} * layer.attn.v_dim);
    most = std::max(most, Arena::row_stride(attention_width(layer.attn)) + gate);
  }
  return most;
}

int64_t Decoder::arena_bytes(int64_t n, int64_t n_out) const {
  const DecoderConfig& c = config_;
  const int64_t embd = Arena::row_stride(c.n_embd);
  const int64_t attn = attention_columns();
  const int64_t expert = Arena::row_stride(c.n_embd + 3 * int64_t{c.n_ff_expert});
  const int64_t shared = c.n_ff_shared == 0 ? 0 : Arena::row_stride(2 * int64_t{c.n_ff_shared}) + embd + 16;
  const int64_t unit = c.xielu.empty() ? Arena::row_stride(2 * int64_t{c.n_ff}) : 3 * Arena::row_stride(c.n_ff);
  const int64_t shares = c.share_on_input ? embd + 2 : 0;
  const int64_t widest = std::max({attn, unit, c.n_experts + c.routing.n_used * expert + shares, shared,
                                   state_mixer_row_floats(c.state), Arena::row_stride(c.n_layer_embd)});
  const int64_t of_kept = info_.shift.is_on() ? 2 * (std::max(c.n_rope, c.local.n_rope) + 1) : 0;
  const int64_t tables = (c.query_scale.by != 0.0 ? c.head_dim : 0) + (c.chunk > 0 ? 1 : 0);
  const int64_t turned = c.n_rope + std::max(c.n_rope, c.local.n_rope);
  const int64_t own = c.n_layer_embd > 0 ? 2 * Arena::row_stride(int64_t{c.n_layers} * c.n_layer_embd) + embd + 1 : 0;
  const int64_t kept = n * (embd + turned + of_kept + tables + own);  // x and tables, to the end of the step
  const int64_t layer = n * (3 * embd + widest);           // normed, delta (two of parallel parts) and a part's own
  const int64_t out = n_out * (1 + 2 * embd + c.n_vocab);  // the row's number, its state twice, its logits
  return (kept + std::max(layer, out)) * 4 + embedding_adapter_bytes() + 24 * Arena::kAlign;
}

void Decoder::mix(
    Tensor out, const DecoderLayer& layer, const NormedRows& in, const Rotation& rotation, const Pass& pass) const {
  if (layer.attends) attention(out, layer, in, rotation, pass);
  if (layer.attends && config_.scales.attention != 1.0F) pass.ops->scale(out, config_.scales.attention);
  if (!layer.keeps_state) return;
  if (!layer.attends) return run_state_mixer(out, layer.state, config_.state, in, pass);
  NormedRows again = in;
  again.delta = {};  // added by the first
  const auto mark = pass.arena->mark();
  const Tensor second = pass.arena->alloc_rows(in.x.dim(0), config_.n_embd);  // [n, n_embd]
  run_state_mixer(second, layer.state, config_.state, again, pass);
  pass.ops->add(out, second);
  pass.arena->release(mark);
}

void Decoder::attention(
    Tensor out, const DecoderLayer& layer, const NormedRows& in, const Rotation& rotation, const Pass& pass) const {
  const auto mark = pass.arena->mark();
  AttnMeta own;
  const bool has_own = layer.attn.n_kept > 0 || !rotation.first_key.empty();
  if (has_own) {
    own = pass.batch->attn;
    if (layer.attn.n_kept > 0) own.kept_rotation = rotation.kept;
    if (!rotation.first_key.empty()) own.first_key = rotation.first_key;
  }
  const AttnMeta& meta = has_own ? own : pass.batch->attn;
  if (!layer.latent.empty()) {
    latent_attention(out, in,
                     {layer.latent, config_, layer.attn, meta, rotation.rows, rotation.query_factors, layer.attn_out,
                      layer.attn_gate},
                     pass);
    return;
  }
  const AttentionPart part{
      .qkv = layer.qkv,
      .q_norm = layer.q_norm,
      .k_norm = layer.k_norm,
      .rotation = rotation.rows,
      .pairs = config_.rope_pairs,
      .slots = pass.batch->slots[static_cast<size_t>(layer.attn.group)],
      .kv = &pass.kv,
      .meta = &meta,
      .params = &layer.attn,
      .out = layer.attn_out,
      .scratch = pass.arena->alloc_rows(in.x.dim(0), attention_width(layer.attn)),  // [n, q | k | v | mixed]
      .adapters = pass.batch->adapters,
      .layer = number_of(layer),
  };
  HeadSteps steps{.turns_first = config_.turns_first,
                  .query_factors = rotation.query_factors,
                  .gate = layer.attn_gate,
                  .v_norm = layer.v_norm,
                  .mixed_norm = layer.mixed_norm,
                  .only_reads = layer.only_reads,
                  .cut = config_.qkv_cut};
  if (steps.any() || needs_steps(*pass.batch, layer.attn)) {
    int64_t n_gates = 0;
    for (const Linear& gate : steps.gate) n_gates += gate.n_out;
    if (n_gates > 0) steps.gate_room = pass.arena->alloc_rows(in.x.dim(0), n_gates);  // [n, n_gates]
    attention_steps(pass, out, in, part, steps);
  } else {
    pass.ops->attention(out, in, part);
  }
  if (config_.value_scale != 1.0F) pass.ops->scale(out, config_.value_scale);
  pass.arena->release(mark);
}

void Decoder::scale_delta(Tensor delta, const Pass& pass) const {
  if (config_.residual_scale != 1.0F) pass.ops->scale(delta, config_.residual_scale);
}

void Decoder::run_parallel(
    const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const {
  in.w = layer.attn_norm;
  in.b = layer.attn_norm_bias;
  mix(delta, layer, in, rotation, pass);
  NormedRows again = in;
  again.delta = {};  // added by the first
  if (!layer.ffn_norm.empty()) {
    again.w = layer.ffn_norm;
    again.b = layer.ffn_norm_bias;
  }
  const auto mark = pass.arena->mark();
  const Tensor second = pass.arena->alloc_rows(in.x.dim(0), config_.n_embd);  // [n, n_embd]
  feed_forward(second, layer, again, pass);
  pass.ops->add(delta, second);
  pass.arena->release(mark);
  scale_delta(delta, pass);
  in.delta = delta;
}

void Decoder::run_layer(
    const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const {
  config_.is_parallel ? run_parallel(layer, in, delta, rotation, pass) : run_serial(layer, in, delta, rotation, pass);
  if (!layer.own_gate.empty()) {
    settle(in, pass);
    own_part(delta, layer, in.x, rotation.own, pass);
    in.delta = delta;
    in.delta_w = layer.own_norm;
  }
  if (config_.layer_scales.empty()) return;
  settle(in, pass);
  pass.ops->scale(in.x, config_.layer_scales[static_cast<size_t>(number_of(layer))]);
}

void Decoder::run_serial(
    const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const {
  if (layer.attends || layer.keeps_state) {
    in.w = layer.attn_norm;
    in.b = layer.attn_norm_bias;
    mix(delta, layer, in, rotation, pass);
    scale_delta(delta, pass);
    in.delta = delta;
    in.delta_w = layer.post_attn_norm;
  }
  if (!layer.has_unit) return;
  in.w = layer.ffn_norm;
  in.b = layer.ffn_norm_bias;
  feed_forward(delta, layer, in, pass);
  scale_delta(delta, pass);
  in.delta = delta;
  in.delta_w = layer.post_ffn_norm;
}

Decoder::Rotation Decoder::rotation_room(const Rope& rope, const Pass& pass) const {
  const int64_t n = pass.batch->pos.dim(0), n_freq = static_cast<int64_t>(rope.freq.size());
  if (n_freq == 0) return {};
  Rotation out{pass.arena->alloc(DType::f32, {n, n_freq, 2}), {}};  // cos, sin
  if (info_.shift.is_on()) out.kept = pass.arena->alloc(DType::f32, {n, n_freq, 2});
  return out;
}

// A row's window lies right behind the sinks, so towards these it stands at the last position that there is: its
// queries, which turn by its own, turn back by what lies beyond. Lengths of queries are the rows' affair.
void Decoder::fill(const Rotation& out, const Rope& rope, const Pass& pass) const {
  if (config_.n_rope == 0) return;  // there are no heads
  pass.ops->rope_table(out.rows, pass.batch->pos, frequencies(rope), rope.magnitude);
  if (out.kept.empty()) return;
  const int64_t n = pass.batch->pos.dim(0);
  const int32_t last = info_.shift.n_positions() - 1;
  const Tensor back = pass.arena->alloc(DType::i32, {n});
  pass.ops->finish();
  for (int64_t i = 0; i < n; ++i) {
    back.ptr<int32_t>()[i] = std::min(0, last - pass.batch->pos.ptr<int32_t>()[i]);
  }
  pass.ops->rope_table(out.kept, back, frequencies(rope), 1.0);
}

Decoder::Rotation Decoder::step_tables(const Pass& pass) const {
  const int64_t n = pass.batch->pos.dim(0);
  const int32_t last = info_.shift.is_on() ? info_.shift.n_positions() - 1 : info_.n_ctx;
  Rotation out;
  if (config_.query_scale.by != 0.0 || config_.chunk > 0) pass.ops->finish();
  if (config_.query_scale.by != 0.0) {
    out.query_factors = pass.arena->alloc(DType::f32, {n, config_.head_dim / 2, 2});
    fill_query_factors(out.query_factors, config_.query_scale, pass.batch->pos, last);
  }
  if (config_.chunk > 0) {
    out.first_key = pass.arena->alloc(DType::i32, {n});
    fill_chunk_starts(out.first_key, config_.chunk, pass.batch->pos, pass.batch->attn.first_key);
  }
  if (config_.n_layer_embd > 0) out.own = own_embeddings(pass);
  return out;
}

Decoder::Rotation Decoder::of_layer(const DecoderLayer& layer, const Rotation& of_kind, const Rotation& tables) const {
  Rotation out = layer.is_still ? Rotation() : of_kind;
  if (layer.is_still || !config_.query_scale.of_still) out.query_factors = tables.query_factors;
  if (layer.is_local) out.first_key = tables.first_key;
  const int64_t n_own = config_.n_layer_embd;
  if (n_own > 0) out.own = tables.own.columns(number_of(layer) * n_own, n_own);
  return out;
}

Tensor Decoder::layers(Tensor x, LayerRange range, const Pass& pass) const {
  const int64_t n = x.dim(0);
  const bool two_kinds = config_.rope_local.freq != config_.rope.freq;
  const Rotation rotation = rotation_room(config_.rope, pass);
  const Rotation rotation_local = two_kinds ? rotation_room(config_.rope_local, pass) : rotation;
  const Rotation tables = step_tables(pass);
  const auto mark = pass.arena->mark();
  NormedRows in;
  in.x = x;
  in.kind = config_.norm;
  in.eps = config_.norm_eps;
  in.normed = pass.arena->alloc_rows(n, config_.n_embd);     // [n, n_embd]
  Tensor delta = pass.arena->alloc_rows(n, config_.n_embd);  // [n, n_embd]
  fill(rotation, config_.rope, pass);
  if (two_kinds) fill(rotation_local, config_.rope_local, pass);
  for (int l = range.begin; l < range.end; ++l) {
    const DecoderLayer& layer = layers_[static_cast<size_t>(l)];
    const Rotation& of_kind = layer.is_local ? rotation_local : rotation;
    run_layer(layer, in, delta, of_layer(layer, of_kind, tables), pass);
  }
  settle(in, pass);
  pass.arena->release(mark);
  return x;
}

Tensor Decoder::last_rows(const Tensor& x, const Pass& pass) const {
  const Tensor last = pass.arena->alloc_rows(pass.batch->out_rows.dim(0), config_.n_embd);  // [n_out, n_embd]
  pass.ops->rows(last, x, pass.batch->out_rows);
  return last;
}

Tensor Decoder::hidden(Tensor x, const Pass& pass) const {
  const int64_t n_out = pass.batch->out_rows.dim(0);
  const Tensor last = last_rows(x, pass);            // [n_out, n_embd]
  Tensor normed = tapped(pass, Tap::At::last_norm);  // [n_out, n_embd]
  if (normed.empty()) normed = pass.arena->alloc_rows(n_out, config_.n_embd);
  if (config_.norm == NormKind::rms) pass.ops->rms_norm(normed, last, output_norm_, config_.norm_eps);
  if (config_.norm == NormKind::layer) {
    pass.ops->layer_norm(normed, last, output_norm_, output_norm_bias_, config_.norm_eps);
  }
  return normed;
}

Tensor Decoder::head(Tensor x, const Pass& pass) const {
  const Tensor normed = hidden(x, pass);                                                          // [n_out, n_embd]
  Tensor logits = pass.arena->alloc(DType::f32, {pass.batch->out_rows.dim(0), config_.n_vocab});  // [n_out, n_vocab]
  pass.ops->linear(logits, normed, output_);
  if (!pass.batch->adapters.empty()) add_to_logits(logits, normed, config_.n_layers, pass);
  if (config_.logit_scale != 1.0F) pass.ops->scale(logits, config_.logit_scale);
  if (config_.logit_soft_cap > 0.0F) pass.ops->soft_cap(logits, config_.logit_soft_cap);
  return logits;
}

}  // namespace quire
