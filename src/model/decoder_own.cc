// Embeddings, and what layers know of a row's token by themselves (embeddings of each layer's own); layers that read
// the keys and values of another.
#include <algorithm>
#include <cmath>

#include "model/adapter_ends.h"
#include "model/decoder.h"

namespace quire {

Result<size_t> Decoder::layer_read_by(size_t reader) const {
  const DecoderConfig& c = config_;
  for (size_t l = static_cast<size_t>(std::max(0, c.n_layers - c.n_readers)); l > 0; --l) {
    const DecoderLayer& layer = layers_[l - 1];
    if (layer.is_local == layers_[reader].is_local && layer.attends) return l - 1;
  }
  return fail(Code::corrupt, "layer " + std::to_string(reader) + " of " + std::to_string(c.n_layers) +
                                 " has no keys of its own, and none before the last " + std::to_string(c.n_readers) +
                                 " has any that are like its own");
}

Tensor Decoder::embed(const Pass& pass) const {
  const int64_t n = pass.batch->ids.dim(0);
  Tensor x = pass.arena->alloc_rows(n, config_.n_embd);  // [n, n_embd]
  pass.ops->embed(x, pass.batch->ids, embedding_);
  if (!pass.batch->adapters.empty()) add_to_embeddings(x, config_.n_layers, pass);
  if (config_.embed_scale != 1.0F) pass.ops->scale(x, config_.embed_scale);
  if (!embed_norm_.empty() && config_.norm == NormKind::rms) pass.ops->rms_norm(x, x, embed_norm_, config_.norm_eps);
  if (!embed_norm_.empty() && config_.norm == NormKind::layer) {
    pass.ops->layer_norm(x, x, embed_norm_, embed_norm_bias_, config_.norm_eps);
  }
  if (positions_.empty()) return x;
  const auto mark = pass.arena->mark();
  const Tensor positions = pass.arena->alloc_rows(n, config_.n_embd);  // [n, n_embd]
  pass.ops->embed(positions, pass.batch->pos, positions_[0]);
  pass.ops->add(x, positions);
  pass.arena->release(mark);
  return x;
}

void Decoder::load_own_embeddings(WeightLoader& load) {
  const DecoderConfig& c = config_;
  const int64_t n_all = int64_t{c.n_layers} * c.n_layer_embd;
  load.linear(own_projection_, "per_layer_model_proj", n_all, c.n_embd);
  load.vector(own_projection_norm_, "per_layer_proj_norm.weight", c.n_layer_embd);
  load.table(own_embedding_, "per_layer_token_embd", n_all);
}

Tensor Decoder::own_embeddings(const Pass& pass) const {
  const DecoderConfig& c = config_;
  const Tensor& ids = pass.batch->ids;
  const int64_t n = ids.dim(0), n_all = int64_t{c.n_layers} * c.n_layer_embd;
  const Tensor out = pass.arena->alloc_rows(n, n_all);  // [n, n_all]
  const auto mark = pass.arena->mark();
  const Tensor of_token = pass.arena->alloc_rows(n, n_all);  // [n, n_all]
  const Tensor known = pass.arena->alloc(DType::i32, {n});   // tokens behind the table's end have the first one's
  const auto n_known = static_cast<int32_t>(own_embedding_[0].n_out);
  pass.ops->finish();
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = ids.ptr<int32_t>()[i];
    known.ptr<int32_t>()[i] = id < n_known ? id : 0;
  }
  pass.ops->linear(out, Decoder::embed(pass), own_projection_);
  pass.ops->scale(out, 1.0F / std::sqrt(static_cast<float>(c.n_embd)));
  pass.ops->head_norm(out, own_projection_norm_, c.norm_eps);
  pass.ops->embed(of_token, known, own_embedding_[0]);
  pass.ops->scale(of_token, std::sqrt(static_cast<float>(c.n_layer_embd)));
  pass.ops->add(out, of_token);
  pass.ops->scale(out, 1.0F / std::sqrt(2.0F));
  pass.arena->release(mark);
  return out;
}

void Decoder::own_part(
    Tensor out, const DecoderLayer& layer, const Tensor& x, const Tensor& own, const Pass& pass) const {
  const auto mark = pass.arena->mark();
  const Tensor gate = pass.arena->alloc_rows(x.dim(0), config_.n_layer_embd);  // [n, n_layer_embd]
  pass.ops->linear(gate, x, layer.own_gate);
  pass.ops->gated(gate, gate, own, config_.activation);
  pass.ops->linear(out, gate, layer.own_proj);
  pass.arena->release(mark);
}

void Decoder::settle(NormedRows& in, const Pass& pass) const {
  if (!in.delta_w.empty()) pass.ops->rms_norm(in.delta, in.delta, in.delta_w, in.eps);
  if (!in.delta.empty()) pass.ops->add(in.x, in.delta);
  in.delta = in.delta_w = {};
}

}  // namespace quire
