#include "model/latent.h"

#include <algorithm>
#include <cmath>

#include "model/attention_steps.h"
#include "model/hf_reshape.h"
#include "model/rope.h"
#include "ops/parts.h"
#include "quant/kv_codec.h"
#include "quant/rotation.h"

namespace quire {
namespace {

constexpr int64_t kMostHeadPart = 1 << 12;
constexpr float kNormEps = 1e-6F;  // of the latents' norms, whatever those of the residual stream have

// Of the two parts of one head's query.
int q_dim(const DecoderConfig& c) { return c.latent.k_dim + c.n_rope; }

Status check_row(int64_t n_kv, int64_t n_rope, const std::string& key) {
  if (n_kv + n_rope <= kMaxHeadDim) return {};
  return fail(Code::unsupported, "key " + key + ": " + std::to_string(n_kv) + " and the " + std::to_string(n_rope) +
                                     " numbers that turn make a row of " + std::to_string(n_kv + n_rope) +
                                     ", at most " + std::to_string(kMaxHeadDim) + " are supported");
}

Result<int64_t> value_width(const HfFacts& facts, LatentForm form) {
  if (form == LatentForm::cut || facts.find("v_head_dim") != nullptr)
    return facts.get_int("v_head_dim", 1, kMostHeadPart);
  QR_TRY(const int64_t n_embd, facts.get_int("hidden_size", 1, 1 << 20));
  QR_TRY(const int64_t n_heads, facts.get_int("num_attention_heads", 1, 4096));
  return n_embd / n_heads;
}

// What scores are multiplied with besides, where positions are stretched.
Result<double> read_stretch(const ModelFile& file, const std::string& prefix) {
  const std::string scaling = prefix + "rope.scaling.";
  QR_TRY(const double by, file.meta.get_double_or(scaling + std::string(kYarnLogMultiplier), 0.0, 1e3, 0.0));
  if (by == 0.0) return 1.0;
  QR_TRY(const double factor, file.meta.get_double(scaling + "factor", 1e-3, 1e6));
  const double magnitude = yarn_magnitude(factor, 10 * by);
  return magnitude * magnitude;
}

}  // namespace

std::vector<NameRule> latent_names(LatentForm form) {
  std::vector<NameRule> out = {{"model.layers.{}.self_attn.q_a_proj.weight", "blk.{}.attn_q_a.weight"},
                               {"model.layers.{}.self_attn.q_a_proj.bias", "blk.{}.attn_q_a.bias"},
                               {"model.layers.{}.self_attn.q_a_layernorm.weight", "blk.{}.attn_q_a_norm.weight"},
                               {"model.layers.{}.self_attn.q_b_proj.weight", "blk.{}.attn_q_b.weight"},
                               {"model.layers.{}.self_attn.kv_a_proj_with_mqa.weight", "blk.{}.attn_kv_a_mqa.weight"},
                               {"model.layers.{}.self_attn.kv_a_proj_with_mqa.bias", "blk.{}.attn_kv_a_mqa.bias"},
                               {"model.layers.{}.self_attn.kv_a_layernorm.weight", "blk.{}.attn_kv_a_norm.weight"}};
  constexpr std::string_view kTheirs = "model.layers.{}.self_attn.kv_b_proj.weight";
  if (form == LatentForm::whole) {
    out.push_back({kTheirs, "blk.{}.attn_kv_b.weight"});
  } else {
    out.push_back({.theirs = kTheirs, .ours = "blk.{}.attn_k_b.weight", .reshape = latent_to_queries});
    out.push_back({.theirs = kTheirs, .ours = "blk.{}.attn_v_b.weight", .reshape = latent_to_values});
  }
  return out;
}

Status translate_latent(HfFacts& facts, LatentForm form) {
  QR_TRY(const int64_t n_kv, facts.get_int("kv_lora_rank", 1, kMaxHeadDim));
  QR_TRY(const int64_t n_rope, facts.get_int("qk_rope_head_dim", 2, kMaxHeadDim));
  QR_TRY(const int64_t n_still, facts.get_int("qk_nope_head_dim", 1, kMostHeadPart));
  QR_TRY(const int64_t v_dim, value_width(facts, form));
  QR_TRY_VOID(check_row(n_kv, n_rope, "\"kv_lora_rank\""));
  const bool is_cut = form == LatentForm::cut;
  if (is_cut) {
    facts.set("attention.head_count_kv", int64_t{1}, "num_key_value_heads");
    facts.set("attention.key_length", n_kv + n_rope, "kv_lora_rank");
    facts.set("attention.value_length", n_kv, "kv_lora_rank");
  }
  const std::string of_heads = is_cut ? "_mla" : "";
  facts.set("attention.key_length" + of_heads, n_still + n_rope, "qk_nope_head_dim");
  facts.set("attention.value_length" + of_heads, v_dim, "v_head_dim");
  facts.set("attention.kv_lora_rank", n_kv, "kv_lora_rank");
  facts.copy({"q_lora_rank"}, "attention.q_lora_rank");
  facts.set("rope.dimension_count", n_rope, "qk_rope_head_dim");
  for (const std::string prefix : {"rope_parameters.", "rope_scaling."}) {
    if (facts.find(prefix + "mscale_all_dim") == nullptr || facts.find(prefix + "factor") == nullptr) continue;
    QR_TRY(const double mscale, facts.get_double(prefix + "mscale_all_dim", 0.0, 1e3));
    facts.set("rope.scaling." + std::string(kYarnLogMultiplier), 0.1 * mscale, prefix + "mscale_all_dim");
    break;
  }
  return {};
}

Status read_latent(const ModelFile& file, const std::string& prefix, DecoderConfig& c) {
  const Metadata& meta = file.meta;
  const auto key = [&](const char* name) { return meta.shown(prefix + name); };
  if (meta.find(prefix + "attention.kv_lora_rank") == nullptr) return {};
  QR_TRY(const int64_t n_kv, meta.get_int(prefix + "attention.kv_lora_rank", 1, kMaxHeadDim));
  QR_TRY(const int64_t n_q, meta.get_int_or(prefix + "attention.q_lora_rank", 0, 1 << 20, 0));
  QR_TRY_VOID(check_row(n_kv, c.n_rope, key("attention.kv_lora_rank")));
  const bool is_cut = meta.find(prefix + "attention.key_length_mla") != nullptr;
  const std::string of_heads = is_cut ? "_mla" : "";
  QR_TRY(const int64_t q_dim,
         meta.get_int(prefix + "attention.key_length" + of_heads, c.n_rope + 1, kMostHeadPart + kMaxHeadDim));
  QR_TRY(const int64_t v_dim, meta.get_int(prefix + "attention.value_length" + of_heads, 1, kMostHeadPart));
  if (is_cut && (c.n_kv_heads != 1 || c.head_dim != n_kv + c.n_rope)) {
    return fail(Code::corrupt, "key " + key("attention.key_length") + ": must be " + std::to_string(n_kv + c.n_rope) +
                                   " of 1 head as " + key("attention.kv_lora_rank") + " says, is " +
                                   std::to_string(c.head_dim) + " of " + std::to_string(c.n_kv_heads));
  }
  c.head_dim = static_cast<int>(n_kv) + c.n_rope;
  c.v_dim = c.head_dim;
  c.n_kv_heads = 1;
  c.latent = {static_cast<int>(n_kv), static_cast<int>(n_q), static_cast<int>(q_dim) - c.n_rope,
              static_cast<int>(v_dim)};
  QR_TRY(const double stretch, read_stretch(file, prefix));
  c.attn_scale = static_cast<float>(stretch / std::sqrt(static_cast<double>(q_dim)));
  return {};
}

Status check_latent(const ModelFile& file, const std::string& prefix, const DecoderConfig& c, bool takes) {
  if (takes == (c.latent.n_kv > 0)) return {};
  const std::string key = "key " + file.meta.shown(prefix + "attention.kv_lora_rank") + ": ";
  if (takes) return fail(Code::not_found, key + "is missing");
  return fail(Code::unsupported, key + "this architecture has no latent attention");
}

Status check_latent_codec(const DecoderConfig& c, const LoadOptions& options) {
  const KvCodec& codec = *options.k_codec;
  const std::string why = "--kv-type " + std::string(codec.name) + ": this model's values are the last " +
                          std::to_string(c.latent.n_kv) + " of their keys' " + std::to_string(c.head_dim) +
                          " numbers, which ";
  if (options.v_codec != options.k_codec || !codec.values_in_keys) {
    return fail(Code::unsupported, why + "a codec that keeps the two in other forms cannot hold");
  }
  if (codec.rotates_keys && !rotates_last_apart(c.head_dim, c.latent.n_kv)) {
    return fail(Code::unsupported, why + "a codec that rotates keys of this width mixes with the others");
  }
  return {};
}

void load_latent(WeightLoader& load, const DecoderConfig& c, LatentWeights& out) {
  const LatentSizes& sizes = c.latent;
  const int64_t q_rows = int64_t{c.n_heads} * q_dim(c);
  if (sizes.n_q > 0) {
    load.linear(out.q_a, "attn_q_a", sizes.n_q, c.n_embd);
    load.vector(out.q_a_norm, "attn_q_a_norm.weight", sizes.n_q);
    load.linear(out.q_b, "attn_q_b", q_rows, sizes.n_q);
  } else {
    load.linear(out.q_b, "attn_q", q_rows, c.n_embd);
  }
  load.last_rows_first(out.kv_a, "attn_kv_a_mqa", {sizes.n_kv, c.n_rope}, c.n_embd);
  load.vector(out.kv_a_norm, "attn_kv_a_norm.weight", sizes.n_kv);
  if (load.has("attn_kv_b.weight")) {
    load.cut_by_heads(out.k_b, out.v_b, "attn_kv_b", {c.n_heads, sizes.k_dim, sizes.v_dim, sizes.n_kv});
    return;
  }
  load.stacked(out.k_b, "attn_k_b", {c.n_heads, sizes.n_kv, sizes.k_dim});
  load.stacked(out.v_b, "attn_v_b", {c.n_heads, sizes.v_dim, sizes.n_kv});
}

int64_t latent_columns(const DecoderConfig& c) {
  const int64_t head = std::max(q_dim(c), c.latent.v_dim) + c.head_dim + c.latent.n_kv;
  return c.n_heads * (head + 2) + Arena::row_stride(c.head_dim) + Arena::row_stride(c.latent.n_q);
}

namespace {

// q [n, n_heads · q_dim]: every head's part that does not turn, then the one that turns.
void make_queries(Tensor q, const Tensor& x, const LatentPart& part, const Pass& pass) {
  const LatentWeights& w = part.weights;
  if (w.q_a.empty()) return pass.ops->linear(q, x, w.q_b);
  const Tensor low = pass.arena->alloc_rows(x.dim(0), part.config.latent.n_q);  // [n, n_q]
  pass.ops->linear(low, x, w.q_a);
  pass.ops->rms_norm(low, low, w.q_a_norm, kNormEps);
  pass.ops->linear(q, low, w.q_b);
}

// out [n, n_heads · head_dim]: every head's query as it meets rows of the cache, [turning part | what the latent is
// multiplied with].
void absorb(Tensor out, const Tensor& q, const LatentPart& part, const Pass& pass) {
  const DecoderConfig& c = part.config;
  const int64_t n = q.dim(0), n_heads = c.n_heads, still = c.latent.k_dim;
  const auto of_heads = [n, n_heads](const Tensor& t, int64_t begin, int64_t size) {
    return Tensor::dense(t.data, DType::f32, {n * n_heads, t.dim(1) / n_heads}).columns(begin, size);
  };
  const Tensor ids = pass.arena->alloc(DType::i32, {n * n_heads});
  pass.ops->finish();
  for (int64_t i = 0; i < n * n_heads; ++i) ids.ptr<int32_t>()[i] = static_cast<int32_t>(i);
  pass.ops->rows(of_heads(out, 0, c.n_rope), of_heads(q, still, c.n_rope), ids);
  for (int64_t h = 0; h < n_heads; ++h) {
    pass.ops->linear(out.columns(h * c.head_dim + c.n_rope, c.latent.n_kv), q.columns(h * (still + c.n_rope), still),
                     std::span(part.weights.k_b).subspan(static_cast<size_t>(h), 1));
  }
  if (!part.rotation.empty()) pass.ops->rope(out, part.rotation, c.head_dim, c.rope_pairs);
  if (!part.query_factors.empty()) pass.ops->rope(out, part.query_factors, c.head_dim, c.rope_pairs);
}

void write_row(const Tensor& x, const LatentPart& part, const Pass& pass) {
  const DecoderConfig& c = part.config;
  const Tensor k = pass.arena->alloc_rows(x.dim(0), c.head_dim);  // [n, turning key | latent]
  const Tensor latent = k.columns(c.n_rope, c.latent.n_kv);
  pass.ops->linear(k, x, part.weights.kv_a);
  pass.ops->rms_norm(latent, latent, part.weights.kv_a_norm, kNormEps);
  if (!part.rotation.empty()) pass.ops->rope(k, part.rotation, c.head_dim, c.rope_pairs);
  write_kv(k, {}, pass, part.params);
}

}  // namespace

void latent_attention(Tensor out, const NormedRows& in, const LatentPart& part, const Pass& pass) {
  const DecoderConfig& c = part.config;
  const LatentSizes& sizes = c.latent;
  const int64_t n = in.x.dim(0), n_heads = c.n_heads;
  const auto mark = pass.arena->mark();
  norm_rows(*pass.ops, in);
  const Tensor room = pass.arena->alloc(DType::f32, {n, n_heads * std::max(q_dim(c), sizes.v_dim)});
  const Tensor q = Tensor::dense(room.data, DType::f32, {n, n_heads * q_dim(c)});
  const Tensor absorbed = pass.arena->alloc(DType::f32, {n, n_heads * c.head_dim});
  const Tensor mixed = pass.arena->alloc(DType::f32, {n, n_heads * sizes.n_kv});
  make_queries(q, in.input(), part, pass);
  absorb(absorbed, q, part, pass);
  write_row(in.input(), part, pass);
  pass.ops->attend(mixed, absorbed, pass.kv, part.meta, part.params);
  const Tensor values = Tensor::dense(room.data, DType::f32, {n, n_heads * sizes.v_dim});  // queries are dead
  for (int64_t h = 0; h < n_heads; ++h) {
    pass.ops->linear(values.columns(h * sizes.v_dim, sizes.v_dim), mixed.columns(h * sizes.n_kv, sizes.n_kv),
                     std::span(part.weights.v_b).subspan(static_cast<size_t>(h), 1));
  }
  if (!part.gate.empty()) {
    const Tensor gates = pass.arena->alloc(DType::f32, {n, n_heads});
    pass.ops->linear(gates, in.input(), part.gate);
    gate_heads(*pass.ops, values, gates);
  }
  pass.ops->linear(out, values, part.out);
  pass.arena->release(mark);
}

}  // namespace quire
