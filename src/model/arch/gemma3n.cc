// Gemma 3n, text: a residual stream of several parts, of which a layer computes on the first (model/altup.h), a
// low-rank part beside attention, units of whose gates only the largest count, and what Gemma 4 has of it: a layer's
// own embedding of a token, values that are normed, last layers that read the keys of those before them.
#include <algorithm>
#include <limits>

#include "model/altup.h"
#include "model/arch/gemma_own.h"
#include "model/gguf_form.h"
#include "ops/parts.h"

namespace quire {
namespace {

constexpr int kPeriod = 5;         // of local and global layers
constexpr double kSoftCap = 30.0;  // of logits, where the file does not say
constexpr int64_t kMostParts = 16;
constexpr const char* kSparsity = "activation_sparsity_scale";

// Of one layer.
struct AltUpWeights {
  std::vector<Linear> router, predict, correct;  // n_embd → n_parts → n_parts², n_parts
  Tensor router_norm, correct_scale;             // [n_embd]
  std::vector<Linear> left, right;               // n_embd → low rank → n_embd, beside attention
  Tensor beside_norm;                            // [n_embd]
};

class Gemma3n final : public Decoder {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;
  Tensor embed(const Pass& pass) const override;

 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override;
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_post_norms(load, layer);
    load_head_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
    load_own_part(load, layer, config());
  }
  void load_more(WeightLoader& load) override;
  void run_layer(const DecoderLayer& layer,
                 NormedRows& in,
                 Tensor delta,
                 const Rotation& rotation,
                 const Pass& pass) const override;
  Tensor last_rows(const Tensor& x, const Pass& pass) const override;

 private:
  void load_parts(WeightLoader& load, std::vector<Linear>& out, const std::string& name, int64_t n) const;
  void load_altup(WeightLoader& load, AltUpWeights& out) const;
  // out [n, n of `by`]: what `by` makes of how the router sees these rows.
  void coefficients(
      const Tensor& out, const Tensor& x, const AltUpWeights& w, std::span<const Linear> by, const Pass& pass) const;
  // Rows of both parts of a layer, each [n, n_embd]: what they are computed on, and what they find; room.
  struct PartRows {
    Tensor active, sum, delta;
  };
  void both_parts(const PartRows& at,
                  const DecoderLayer& layer,
                  const NormedRows& in,
                  const Rotation& rotation,
                  const Pass& pass) const;
  int64_t n_parts() const { return static_cast<int64_t>(project_.size()) + 1; }

  std::vector<Linear> project_, unproject_;  // of every part but the first, n_embd → n_embd
  std::vector<AltUpWeights> altup_;          // by layer
};

Status Gemma3n::configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const {
  const Metadata& meta = file.meta;
  QR_TRY_VOID(configure_gemma(file, prefix, kPeriod, kSoftCap, c));
  QR_TRY(const int64_t active, meta.get_int_or(prefix + "altup.active_idx", 0, kMostParts, 0));
  if (active != 0) {
    return fail(Code::unsupported, "key " + meta.shown(prefix + "altup.active_idx") + ": only 0 is supported, is " +
                                       std::to_string(active));
  }
  QR_TRY_VOID(meta.get_int(prefix + "embedding_length_per_layer_input", 1, 1 << 16));
  const MetaValue* value = meta.find(prefix + kSparsity);
  if (value == nullptr) return {};
  const auto* cutoffs = std::get_if<std::vector<double>>(value);
  if (cutoffs == nullptr || cutoffs->size() != static_cast<size_t>(c.n_layers)) {
    return fail(Code::corrupt, "key " + meta.shown(prefix + kSparsity) + ": must be a list of " +
                                   std::to_string(c.n_layers) + " numbers");
  }
  for (const double one : *cutoffs) {
    if (std::isnan(one) || one > 1e6) {
      return fail(Code::corrupt,
                  "key " + meta.shown(prefix + kSparsity) + ": must be at most 1e6, is " + std::to_string(one));
    }
  }
  c.cutoffs = *cutoffs;
  return {};
}

// In one tensor, or one by one.
void Gemma3n::load_parts(WeightLoader& load, std::vector<Linear>& out, const std::string& name, int64_t n) const {
  const int64_t d = config().n_embd;
  if (!load.has(name + ".0.weight")) return load.stacked(out, name, {n, d, d});
  for (int64_t i = 0; i < n; ++i) load.linear(out, name + "." + std::to_string(i), d, d);
}

void Gemma3n::load_altup(WeightLoader& load, AltUpWeights& out) const {
  const int64_t d = config().n_embd, n = n_parts();
  load.linear(out.router, "altup_router", n, d);
  load.vector(out.router_norm, "altup_router_norm.weight", d);
  load.linear(out.predict, "altup_predict_coef", n * n, n);
  load.linear(out.correct, "altup_correct_coef", n, n);
  load.vector(out.correct_scale, "altup_correct_scale.weight", d);
  const int64_t rank = load.extent("laurel_l.weight", 0);
  load.linear(out.left, "laurel_l", rank, d);
  load.linear(out.right, "laurel_r", d, rank);
  load.vector(out.beside_norm, "laurel_post_norm.weight", d);
}

void Gemma3n::load_more(WeightLoader& load) {
  int64_t n = 0;
  while (n < kMostParts && load.has("altup_proj." + std::to_string(n) + ".weight")) ++n;
  if (n == 0) n = std::min(load.extent("altup_proj.weight", 0), kMostParts);  // more are another shape than wanted
  load_parts(load, project_, "altup_proj", n);
  load_parts(load, unproject_, "altup_unembd_proj", n);
  altup_.resize(static_cast<size_t>(config().n_layers));
  for (size_t l = 0; l < altup_.size() && load.status(); ++l) {
    load.enter("blk." + std::to_string(l) + ".");
    load_altup(load, altup_[l]);
  }
  load.enter("");
}

int64_t Gemma3n::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  const int64_t d = config().n_embd, n = n_parts();
  int64_t low = 0;  // layers may differ
  for (const AltUpWeights& w : altup_) low = std::max(low, Arena::row_stride(w.left.front().n_out));
  const int64_t row = 2 * Arena::row_stride(n * d) + 3 * Arena::row_stride(d) + low + 4 * Arena::row_stride(n * n);
  const int64_t out = Arena::row_stride(n * d) + 2 * Arena::row_stride(d);
  return Decoder::arena_bytes(n_tokens, n_out) + (n_tokens * row + n_out * out) * 4 + 24 * Arena::kAlign;
}

Tensor Gemma3n::embed(const Pass& pass) const {
  const int64_t n = pass.batch->ids.dim(0), d = config().n_embd;
  const Tensor x = pass.arena->alloc_rows(n, n_parts() * d);  // [n, n_parts · n_embd]
  const Tensor first = x.columns(0, d);
  const auto mark = pass.arena->mark();
  const Tensor each = pass.arena->alloc(DType::i32, {n});
  pass.ops->finish();
  for (int64_t i = 0; i < n; ++i) each.ptr<int32_t>()[i] = static_cast<int32_t>(i);
  pass.ops->rows(first, Decoder::embed(pass), each);
  pass.arena->release(mark);
  for (size_t i = 0; i < project_.size(); ++i) {
    const Tensor part = x.columns(static_cast<int64_t>(i + 1) * d, d);
    pass.ops->linear(part, first, std::span(project_).subspan(i, 1));
    pass.ops->finish();
    match_magnitudes(part, first);
  }
  return x;
}

void Gemma3n::coefficients(
    const Tensor& out, const Tensor& x, const AltUpWeights& w, std::span<const Linear> by, const Pass& pass) const {
  const auto mark = pass.arena->mark();
  const Tensor normed = pass.arena->alloc_rows(x.dim(0), config().n_embd);  // [n, n_embd]
  const Tensor seen = pass.arena->alloc_rows(x.dim(0), n_parts());          // [n, n_parts]
  pass.ops->rms_norm(normed, x, w.router_norm, config().norm_eps);
  pass.ops->scale(normed, 1.0F / static_cast<float>(config().n_embd));
  pass.ops->linear(seen, normed, w.router);
  pass.ops->soft_cap(seen, 1.0F);
  pass.ops->linear(out, seen, by);
  pass.arena->release(mark);
}

void Gemma3n::both_parts(const PartRows& at,
                         const DecoderLayer& layer,
                         const NormedRows& in,
                         const Rotation& rotation,
                         const Pass& pass) const {
  const auto& [active, sum, delta] = at;
  Ops& ops = *pass.ops;
  const AltUpWeights& w = altup_[static_cast<size_t>(number_of(layer))];
  const auto mark = pass.arena->mark();
  const Tensor low = pass.arena->alloc_rows(active.dim(0), w.left.front().n_out);  // [n, low rank]
  NormedRows part = in;
  part.x = active;
  part.w = layer.attn_norm;
  norm_rows(ops, part);
  ops.linear(low, part.normed, w.left);
  ops.linear(sum, low, w.right);
  ops.rms_norm(sum, sum, w.beside_norm, in.eps);
  ops.add(sum, part.normed);
  pass.arena->release(mark);
  part.x = part.normed;
  part.w = {};
  attention(delta, layer, part, rotation, pass);
  ops.rms_norm(delta, delta, layer.post_attn_norm, in.eps);
  ops.add(sum, delta);
  ops.add(sum, active);
  ops.scale(sum, 1.0F / std::sqrt(2.0F));
  part.x = sum;
  part.w = layer.ffn_norm;
  feed_forward(delta, layer, part, pass);
  ops.rms_norm(delta, delta, layer.post_ffn_norm, in.eps);
  ops.add(sum, delta);
}

void Gemma3n::run_layer(
    const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const {
  const AltUpWeights& w = altup_[static_cast<size_t>(number_of(layer))];
  const int64_t n = in.x.dim(0), d = config().n_embd, n_of = n_parts();
  const auto mark = pass.arena->mark();
  const Tensor coef = pass.arena->alloc_rows(n, n_of * n_of);    // [n, n_parts²]
  const Tensor gains = pass.arena->alloc_rows(n, n_of);          // [n, n_parts]
  const Tensor predicted = pass.arena->alloc_rows(n, n_of * d);  // [n, n_parts · n_embd]
  const Tensor found = pass.arena->alloc_rows(n, d);             // [n, n_embd]
  coefficients(coef, in.x.columns(0, d), w, w.predict, pass);
  pass.ops->finish();
  predict_parts(predicted, in.x, coef);
  both_parts({predicted.columns(0, d), found, delta}, layer, in, rotation, pass);
  coefficients(gains, found, w, w.correct, pass);
  pass.ops->finish();
  correct_parts(in.x, predicted, found, gains);
  scale_columns(found, in.x.columns(0, d), w.correct_scale);
  own_part(delta, layer, found, rotation.own, pass);
  pass.ops->rms_norm(delta, delta, layer.own_norm, in.eps);
  for (int64_t i = 1; i < n_of; ++i) pass.ops->add(in.x.columns(i * d, d), delta);
  pass.arena->release(mark);
}

Tensor Gemma3n::last_rows(const Tensor& x, const Pass& pass) const {
  const int64_t n_out = pass.batch->out_rows.dim(0), d = config().n_embd;
  const Tensor all = pass.arena->alloc_rows(n_out, n_parts() * d);  // [n_out, n_parts · n_embd]
  const Tensor part = pass.arena->alloc_rows(n_out, d);             // [n_out, n_embd]
  const Tensor first = all.columns(0, d);
  const Tensor sum = pass.arena->alloc_rows(n_out, d);  // [n_out, n_embd]
  pass.ops->rows(all, x, pass.batch->out_rows);
  pass.ops->rows(sum, x.columns(0, d), pass.batch->out_rows);
  for (size_t i = 0; i < unproject_.size(); ++i) {
    pass.ops->linear(part, all.columns(static_cast<int64_t>(i + 1) * d, d), std::span(unproject_).subspan(i, 1));
    pass.ops->finish();
    match_magnitudes(part, first);
    pass.ops->add(sum, part);
  }
  pass.ops->scale(sum, 1.0F / static_cast<float>(n_parts()));
  return sum;
}

// The number that a standard normal one is below with this probability; −∞ of 0. By halving: the same everywhere to a
// few last bits, which are rounded away.
double normal_quantile(double p) {
  if (p <= 0.0) return -std::numeric_limits<double>::infinity();
  double low = -40.0, high = 40.0;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return static_cast<double>(static_cast<float>(low));
}

// The share of gates that do not count, layer by layer, as how many deviations the others are above the mean.
Status sparsity_facts(HfFacts& hf) {
  const MetaValue* value = hf.find("activation_sparsity_pattern");
  if (value == nullptr) return {};
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  std::vector<double> shares;
  if (const auto* list = std::get_if<std::vector<double>>(value)) shares = *list;
  if (const auto* list = std::get_if<std::vector<int64_t>>(value)) shares.assign(list->begin(), list->end());
  if (const auto* all = std::get_if<double>(value)) shares.assign(static_cast<size_t>(n_layers), *all);
  const bool is_good = std::ranges::all_of(shares, [](double share) { return share >= 0.0 && share < 1.0; });
  if (shares.size() != static_cast<size_t>(n_layers) || !is_good) {
    return fail(Code::corrupt, "key \"activation_sparsity_pattern\": must have " + std::to_string(n_layers) +
                                   " numbers of 0 to below 1, has " + std::to_string(shares.size()));
  }
  for (double& share : shares) share = normal_quantile(static_cast<double>(static_cast<float>(share)));
  hf.set(kSparsity, std::move(shares), "activation_sparsity_pattern");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(gemma_own_facts(hf));
  QR_TRY_VOID(hf.require_bool("altup_correct_scale", true));
  hf.copy({"rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq"}, "rope.freq_base_swa");
  hf.copy({"altup_active_idx"}, "altup.active_idx");
  return sparsity_facts(hf);
}

std::vector<NameRule> names() {
  std::vector<NameRule> out = gemma_own_names();
  const NameRule own[] = {{"model.altup_projections.{}.weight", "altup_proj.{}.weight"},
                          {"model.altup_unembed_projections.{}.weight", "altup_unembd_proj.{}.weight"},
                          {"model.layers.{}.altup.modality_router.weight", "blk.{}.altup_router.weight"},
                          {"model.layers.{}.altup.router_norm.weight", "blk.{}.altup_router_norm.weight"},
                          {"model.layers.{}.altup.prediction_coefs.weight", "blk.{}.altup_predict_coef.weight"},
                          {"model.layers.{}.altup.correction_coefs.weight", "blk.{}.altup_correct_coef.weight"},
                          {"model.layers.{}.altup.correct_output_scale", "blk.{}.altup_correct_scale.weight"},
                          {"model.layers.{}.laurel.linear_left.weight", "blk.{}.laurel_l.weight"},
                          {"model.layers.{}.laurel.linear_right.weight", "blk.{}.laurel_r.weight"},
                          {"model.layers.{}.laurel.post_laurel_norm.weight", "blk.{}.laurel_post_norm.weight"}};
  out.insert(out.end(), std::begin(own), std::end(own));
  return out;
}

// Parts of a stream have a matrix each in a folder, whose number no fact says.
Status as_gguf(ModelFile& file) {
  for (const std::string name : {"altup_proj", "altup_unembd_proj"}) {
    int n = 0;
    while (file.find(name + "." + std::to_string(n) + ".weight") != nullptr) ++n;
    QR_TRY_VOID(stack_matrices(name, name, n, file));
  }
  return {};
}

QR_REGISTER(
    ArchEntry,
    "gemma3n",
    ArchEntry{
        .summary = "Gemma 3n, text: a stream of several parts, own embeddings of layers, shared keys",
        .hf = {.model_types = {"gemma3n_text", "gemma3n"}, .tensors = names(), .facts = facts, .as_gguf = as_gguf},
        .load = &load_decoder<Gemma3n>,
        .info = &decoder_info<Gemma3n>});

}  // namespace
}  // namespace quire
