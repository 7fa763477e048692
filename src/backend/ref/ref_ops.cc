#include "backend/ref/ref_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "backend/ref/ref_states.h"
#include "ops/low_rank.h"
#include "ops/op_check.h"
#include "ops/route.h"
#include "ops/sample_row.h"
#include "ops/seen_keys.h"
#include "ops/slopes.h"
#include "quant/f16.h"

namespace quire {
namespace {

double capped(double x, float cap) { return static_cast<double>(cap) * std::tanh(x / static_cast<double>(cap)); }

double activated(double x, Activation act) {
  switch (act) {
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh: return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf: return 0.5 * x * (1.0 + std::erf(x * M_SQRT1_2));
    case Activation::relu2: return x < 0 ? 0.0 : x * x;
    case Activation::sigmoid: return 1.0 / (1.0 + std::exp(-x));
    case Activation::none: return x;
    case Activation::below_zero: return x < 0 ? std::expm1(x) - x : 0.0 * x;
    case Activation::clamped_silu: break;
  }
  const double gate = x > 7 ? 7.0 : x;
  return gate / (1.0 + std::exp(-1.702 * gate));
}

double gated_unit(double gate, double up, Activation act) {
  if (act == Activation::clamped_silu) up = (up > 7 ? 7.0 : up < -7 ? -7.0 : up) + 1;
  return activated(gate, act) * up;
}

// The activation as an integer format sees it: groups of 32, scale · q.
void quantize_like(const float* x, int64_t n, std::vector<double>& out) {
  out.resize(static_cast<size_t>(n));
  for (int64_t g = 0; g < n; g += kPanelDepth) {
    float amax = 0;
    for (int64_t i = g; i < g + kPanelDepth; ++i) amax = std::max(amax, std::fabs(x[i]));
    const bool counts = amax >= 0x1p-120F;
    const float inverse = counts ? 127.0F / amax : 0.0F;
    const float scale = counts ? amax / 127.0F : 0.0F;
    for (int64_t i = g; i < g + kPanelDepth; ++i) {
      const double q = std::nearbyint(static_cast<double>(x[i] * inverse));
      out[static_cast<size_t>(i)] = q * static_cast<double>(scale);
    }
  }
}

double as_bf16(double x) { return static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(x)))); }

// A head by row r of a table of rotations.
void rotate(float* head, const Tensor& table, int64_t r, RopePairs pairs) {
  const int64_t n_freq = table.dim(1);
  for (int64_t f = 0; f < n_freq; ++f) {
    float* first = pairs == RopePairs::interleaved ? head + 2 * f : head + f;
    float* second = pairs == RopePairs::interleaved ? first + 1 : first + n_freq;
    const double c = table.ptr<float>()[(r * n_freq + f) * 2];
    const double s = table.ptr<float>()[(r * n_freq + f) * 2 + 1];
    const double a = *first;
    const double b = *second;
    *first = static_cast<float>(a * c - b * s);
    *second = static_cast<float>(a * s + b * c);
  }
}

// A head's query as it is multiplied with the cache's keys.
std::vector<double> query_of(const float* q, const AttnParams& params) {
  std::vector<double> query(q, q + params.k_dim);
  if (params.k_codec->rounded) std::ranges::transform(query, query.begin(), as_bf16);
  return query;
}

constexpr int kChunk = 256;  // keys whose largest score their weights are taken from before they are rounded

class RefOps final : public Ops {
 public:
  std::string describe() const override { return "reference, 1 thread"; }
  Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes); }

  // Rows decoded to f32, [n_out, n_in].
  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) override {
    QR_CHECK(shard.n_ranks == 1);
    Linear out;
    out.format = weight.format;
    out.n_out = weight.n_rows();
    out.n_in = weight.n_cols();
    QR_TRY(Tensor flat, load_vector(weight));
    out.w = Tensor::dense(flat.data, DType::f32, {out.n_out, out.n_in});
    if (!weight.order().empty()) {
      QR_TRY(Buffer order, Buffer::allocate(out.n_in * 4));
      out.order = Tensor::dense(order.data(), DType::i32, {out.n_in});
      std::ranges::copy(weight.order(), out.order.ptr<int32_t>());
      weights_.push_back(std::move(order));
    }
    if (bias != nullptr) {
      QR_TRY(out.bias, load_vector(*bias));
    }
    return out;
  }

  Result<Tensor> load_vector(const HostWeight& weight) override {
    const int64_t n = weight.n_rows() * weight.n_cols();
    QR_TRY(Buffer buffer, Buffer::allocate(n * 4));
    Tensor out = Tensor::dense(buffer.data(), DType::f32, {n});
    const WeightFormat& format = *weight.format;
    std::vector<std::byte> room;
    for (int64_t row = 0; row < weight.n_rows(); ++row) {
      const std::byte* stored = weight.rows(row, 1, room);
      float* to = out.ptr<float>() + row * weight.n_cols();
      for (int64_t i = 0; i < weight.n_cols(); i += format.block) {
        format.decode(stored + i / format.block * format.bytes, to + i);
      }
    }
    weights_.push_back(std::move(buffer));
    return out;
  }

  void embed(Tensor y, Tensor ids, const Linear& table) override {
    check_embed(y, ids, table);
    rows(y, table.w, ids);
  }

  void rms_norm(Tensor y, Tensor x, Tensor w, float eps) override {
    check_norm(y, x, w);
    for (int64_t r = 0; r < x.dim(0); ++r) {
      const float* in = x.row<float>(r);
      double sum = 0;
      for (int64_t i = 0; i < x.dim(1); ++i) sum += static_cast<double>(in[i]) * in[i];
      const double factor = 1.0 / std::sqrt(sum / static_cast<double>(x.dim(1)) + static_cast<double>(eps));
      for (int64_t i = 0; i < x.dim(1); ++i) {
        y.row<float>(r)[i] = static_cast<float>(in[i] * factor * w.ptr<float>()[i]);
      }
    }
  }

  void add_rms_norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) override {
    add(x, delta);
    rms_norm(y, x, w, eps);
  }

  void layer_norm(Tensor y, Tensor x, Tensor w, Tensor b, float eps) override {
    check_layer_norm(y, x, w, b);
    const auto n = static_cast<double>(x.dim(1));
    for (int64_t r = 0; r < x.dim(0); ++r) {
      const std::vector<double> in(x.row<float>(r), x.row<float>(r) + x.dim(1));
      double mean = 0;
      for (const double v : in) mean += v / n;
      double variance = 0;
      for (const double v : in) variance += (v - mean) * (v - mean) / n;
      const double factor = 1.0 / std::sqrt(variance + static_cast<double>(eps));
      for (int64_t i = 0; i < x.dim(1); ++i) {
        const double bias = b.empty() ? 0.0 : static_cast<double>(b.ptr<float>()[i]);
        const double normed = (in[static_cast<size_t>(i)] - mean) * factor * static_cast<double>(w.ptr<float>()[i]);
        y.row<float>(r)[i] = static_cast<float>(normed + bias);
      }
    }
  }

  void head_norm(Tensor x, Tensor w, float eps) override {
    check_head_norm(x, w);
    for (int64_t r = 0; r < x.dim(0); ++r) {
      const Tensor heads = Tensor::dense(x.row<float>(r), DType::f32, {x.dim(1) / w.dim(0), w.dim(0)});
      rms_norm(heads, heads, w, eps);
    }
  }

  void scale(Tensor x, float factor) override {
    check_matrix_f32(x);
    for (int64_t r = 0; r < x.dim(0); ++r) {
      for (int64_t i = 0; i < x.dim(1); ++i) x.row<float>(r)[i] *= factor;
    }
  }

  void gate_rows(Tensor x, Tensor gate) override {
    check_gate_rows(x, gate);
    for (int64_t r = 0; r < x.dim(0); ++r) {
      const double by = 1.0 / (1.0 + std::exp(-static_cast<double>(gate.row<float>(r)[0])));
      for (int64_t i = 0; i < x.dim(1); ++i) x.row<float>(r)[i] = static_cast<float>(by * x.row<float>(r)[i]);
    }
  }

  void soft_cap(Tensor x, float cap) override {
    check_matrix_f32(x);
    for (int64_t r = 0; r < x.dim(0); ++r) {
      for (int64_t i = 0; i < x.dim(1); ++i) {
        x.row<float>(r)[i] = static_cast<float>(capped(static_cast<double>(x.row<float>(r)[i]), cap));
      }
    }
  }

  void add(Tensor x, Tensor delta) override {
    check_same_shape(x, delta);
    for (int64_t r = 0; r < x.dim(0); ++r) {
      for (int64_t i = 0; i < x.dim(1); ++i) x.row<float>(r)[i] += delta.row<float>(r)[i];
    }
  }

  void linear(Tensor y, Tensor x, std::span<const Linear> parts) override {
    check_linear(y, x, parts);
    std::vector<double> in;
    std::vector<float> row;
    for (int64_t r = 0; r < x.dim(0); ++r) {
      int64_t column = 0;
      for (const Linear& part : parts) {
        row.assign(x.row<float>(r), x.row<float>(r) + part.n_in);
        for (int64_t i = 0; i < part.n_in && !part.order.empty(); ++i) {
          row[static_cast<size_t>(i)] = x.row<float>(r)[part.order.ptr<int32_t>()[i]];
        }
        if (part.format->integer) {
          quantize_like(row.data(), part.n_in, in);
        } else {
          in.assign(row.begin(), row.end());
        }
        if (part.format->rounded) std::ranges::transform(in, in.begin(), as_bf16);
        for (int64_t o = 0; o < part.n_out; ++o) {
          double sum = part.bias.data != nullptr ? static_cast<double>(part.bias.ptr<float>()[o]) : 0.0;
          for (int64_t i = 0; i < part.n_in; ++i) sum += in[static_cast<size_t>(i)] * part.w.row<float>(o)[i];
          y.row<float>(r)[column + o] = static_cast<float>(sum);
        }
        column += part.n_out;
      }
    }
  }

  Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) override {
    int64_t n = 1;  // number of floats; a buffer has one at least
    for (const LowRankSource& one : from) n += one.rank * one.n_in + std::ssize(one.b);
    QR_TRY(Buffer memory, Buffer::allocate(n * 4));
    auto* at = reinterpret_cast<float*>(memory.data());
    for (size_t i = 0; i < from.size(); ++i) {
      const LowRankSource& one = from[i];
      to[i].n_out = one.n_out;
      if (one.rank == 0) continue;
      to[i].a.format = find_weight_format("f32");
      to[i].a.n_out = one.rank;
      to[i].a.n_in = one.n_in;
      to[i].a.w = Tensor::dense(at, DType::f32, {one.rank, one.n_in});
      at = std::ranges::copy(one.a, at).out;
      const int64_t n_rows = numbers_per_output(one);
      to[i].b = Tensor::dense(at, DType::f32, {n_rows, one.n_out});
      for (int64_t j = 0; j < n_rows; ++j) {
        for (int64_t o = 0; o < one.n_out; ++o) *at++ = one.b[static_cast<size_t>(o * n_rows + j)];
      }
    }
    return memory;
  }

  void add_low_rank(Tensor y, Tensor x, const AddedProducts& added) override {
    check_add_low_rank(y, x, added);
    std::vector<double> h;
    for (const AdapterRows& some : added.rows) {
      int64_t column = 0;
      for (const LowRank& part : added.of(some)) {
        for (int64_t r = some.begin; r < some.end && !part.empty(); ++r) {
          h.assign(static_cast<size_t>(part.a.n_out), 0);
          for (size_t j = 0; j < h.size(); ++j) {
            const float* a = part.a.w.row<float>(static_cast<int64_t>(j));
            for (int64_t i = 0; i < part.a.n_in; ++i) h[j] += static_cast<double>(a[i]) * x.row<float>(r)[i];
          }
          for (int64_t o = 0; o < part.n_out; ++o) {
            double sum = y.row<float>(r)[column + o];
            const int64_t rank = part.a.n_out;
            if (scales_product(part)) sum = sum * part.b.row<float>(rank)[o] + part.b.row<float>(rank + 1)[o];
            for (size_t j = 0; j < h.size(); ++j) sum += h[j] * part.b.row<float>(static_cast<int64_t>(j))[o];
            y.row<float>(r)[column + o] = static_cast<float>(sum);
          }
        }
        column += part.n_out;
      }
    }
  }

  void gated(Tensor y, Tensor gate, Tensor up, Activation act) override {
    check_gated(y, gate, up, act);
    for (int64_t r = 0; r < y.dim(0); ++r) {
      for (int64_t i = 0; i < y.dim(1); ++i) {
        const double g = gate.row<float>(r)[i];
        const double hidden = up.empty() ? activated(g, act) : gated_unit(g, up.row<float>(r)[i], act);
        y.row<float>(r)[i] = static_cast<float>(hidden);
      }
    }
  }

  void moe(Tensor y, const MoeInput& in, const Experts& experts) override { moe_by_expert(*this, y, in, experts); }

  void rope_table(Tensor out, Tensor pos, Tensor freq, double magnitude) override {
    check_rope_table(out, pos, freq);
    float* at = out.ptr<float>();
    for (int32_t p : pos.span<int32_t>()) {
      for (int64_t bits : freq.span<int64_t>()) {
        const double angle = p * std::bit_cast<double>(bits);
        *at++ = static_cast<float>(magnitude * std::cos(angle));
        *at++ = static_cast<float>(magnitude * std::sin(angle));
      }
    }
  }

  void rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) override {
    check_rope(x, table, head_dim);
    for (int64_t r = 0; r < x.dim(0); ++r) {
      for (int64_t h = 0; h < x.dim(1); h += head_dim) rotate(x.row<float>(r) + h, table, r, pairs);
    }
  }

  void kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) override {
    check_kv_write(k, v, slots, kv, params);
    for (int64_t i = 0; i < k.dim(0); ++i) {
      const int32_t slot = slots.ptr<int32_t>()[i];
      for (int h = 0; h < params.n_kv_heads; ++h) {
        const KvPlace at = kv_place(kv, params, slot, h);
        params.k_codec->put_k(at.k, at.t, params.k_dim, k.row<float>(i) + int64_t{h} * params.k_dim);
        if (params.values_in_keys) continue;
        params.v_codec->put_v(at.v, at.t, params.v_dim, v.row<float>(i) + int64_t{h} * params.v_dim);
      }
    }
  }

  void attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) override {
    check_attend(out, q, meta, params);
    for (int64_t s = 0; s < meta.cu_q.dim(0) - 1; ++s) {
      for (int64_t r = meta.cu_q.ptr<int32_t>()[s]; r < meta.cu_q.ptr<int32_t>()[s + 1]; ++r) {
        for (int h = 0; h < params.n_heads; ++h) {
          attend_row(out.row<float>(r), q.row<float>(r), Row{kv, meta, s, r, h}, params);
        }
      }
    }
  }

  void short_conv(Tensor y, Tensor x, const ShortConv& conv, const StateRows& rows) override {
    check_short_conv(y, x, conv, rows);
    ref_short_conv(y, x, conv, rows);
  }

  void scan(Tensor y, const ScanInput& in, const ScanParams& params, const StateRows& rows) override {
    check_scan(y, in, params, rows);
    ref_scan(y, in, params, rows);
  }

  void delta_rule(Tensor y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows) override {
    check_delta_rule(y, in, params, rows);
    ref_delta_rule(y, in, params, rows);
  }

  void wkv(Tensor y, Tensor own, const WkvInput& in, const WkvParams& params, const StateRows& rows) override {
    check_wkv(y, own, in, params, rows);
    ref_wkv(y, own, in, params, rows);
  }

  void rows(Tensor y, Tensor x, Tensor ids) override {
    check_rows(y, x, ids);
    for (int64_t i = 0; i < y.dim(0); ++i) {
      std::memcpy(y.row<float>(i), x.row<float>(ids.ptr<int32_t>()[i]), static_cast<size_t>(x.dim(1)) * 4);
    }
  }

  void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override {
    check_sample(logits, out.size(), params.size());
    const SampleKernels kernels = plain_sample_kernels();
    for (size_t i = 0; i < out.size(); ++i) {
      const std::span<float> row(logits.row<float>(static_cast<int64_t>(i)), static_cast<size_t>(logits.dim(1)));
      sample_row(row, params[i], kernels, scratch_, out[i]);
    }
  }

 private:
  struct Row {
    const KvView& kv;
    const AttnMeta& meta;
    int64_t seq, row;
    int head;
  };
  static void attend_row(float* out, const float* q, const Row& at, const AttnParams& params) {
    const KvView& kv = at.kv;
    const int h = at.head;
    const int kv_head = h / (params.n_heads / params.n_kv_heads);
    const SeenKeys seen = seen_keys(at.meta.first_key.ptr<int32_t>()[at.row], at.meta.end_key.ptr<int32_t>()[at.row],
                                    params.window, params.n_kept);
    const bool packs = params.k_codec->packs();
    const AttnParams tail = packs ? tail_params(params) : params;
    const int first_of_tail = packs ? tail_keys(seen).first : seen.end;
    const auto read = [&](int position, bool is_key, float* row) {
      const AttnParams& from = position < first_of_tail ? params : tail;
      const int block_tokens = kv.groups[static_cast<size_t>(from.group)].block_tokens;
      const int64_t block =
          at.meta.blocks[static_cast<size_t>(from.group)].row<int32_t>(at.seq)[position / block_tokens];
      const KvPlace where = kv_place(kv, from, block * block_tokens + position % block_tokens, kv_head);
      if (is_key) from.k_codec->get_k(where.k, where.t, params.k_dim, row);
      if (!is_key) from.v_codec->get_v(where.v, where.t, params.v_dim, row);
    };
    const size_t n_kept = static_cast<size_t>(seen.kept_end - seen.kept_begin);
    std::vector<int> keys;
    for (int t = seen.kept_begin; t < seen.kept_end; ++t) keys.push_back(t);
    for (int t = seen.first; t < seen.end; ++t) keys.push_back(t);
    const std::vector<double> query = query_of(q + h * params.k_dim, params);
    std::vector<float> rotated(q + h * params.k_dim, q + (h + 1) * params.k_dim);
    if (n_kept > 0 && !at.meta.kept_rotation.empty())
      rotate(rotated.data(), at.meta.kept_rotation, at.row, params.kept_pairs);
    const std::vector<double> query_of_kept = query_of(rotated.data(), params);
    std::vector<float> slopes(static_cast<size_t>(params.n_heads));
    fill_slopes(slopes, params.most_slope_bits);
    std::vector<double> scores;
    std::vector<float> row(static_cast<size_t>(std::max(params.k_dim, params.v_dim)));
    double max = -INFINITY;
    for (size_t i = 0; i < keys.size(); ++i) {
      read(keys[i], true, row.data());
      double dot = 0;
      const std::vector<double>& with = i < n_kept ? query_of_kept : query;
      for (size_t d = 0; d < with.size(); ++d) dot += with[d] * static_cast<double>(row[d]);
      dot *= static_cast<double>(params.scale);
      scores.push_back(params.soft_cap > 0 ? capped(dot, params.soft_cap) : dot);
      const double from_last = keys[i] - (seen.end - 1);
      if (params.most_slope_bits > 0) scores.back() += static_cast<double>(slopes[static_cast<size_t>(h)]) * from_last;
      max = std::max(max, scores.back());
    }
    std::vector<double> sum(static_cast<size_t>(params.v_dim));
    double total = 0;
    double chunk_max = max;
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool begins = i == 0 || i == n_kept || (i > n_kept && keys[i] % kChunk == 0);
      if (begins) {
        const size_t n = i < n_kept ? n_kept : static_cast<size_t>(kChunk - keys[i] % kChunk);
        chunk_max = std::ranges::max(std::span(scores).subspan(i, std::min(n, keys.size() - i)));
      }
      const float* value = row.data() + (params.values_in_keys ? params.k_dim - params.v_dim : 0);
      read(keys[i], params.values_in_keys, row.data());
      const double share = std::exp(chunk_max - max);
      double p = std::exp(scores[i] - chunk_max);
      total += share * p;
      if (params.v_codec->rounded) p = as_bf16(p);
      for (size_t d = 0; d < sum.size(); ++d) sum[d] += share * p * static_cast<double>(value[d]);
    }
    if (!params.sinks.empty()) total += std::exp(static_cast<double>(params.sinks.ptr<float>()[h]) - max);
    for (size_t d = 0; d < sum.size(); ++d)
      out[static_cast<size_t>(h * params.v_dim) + d] = static_cast<float>(sum[d] / total);
  }

  std::vector<Buffer> weights_;
  SampleScratch scratch_;
};

}  // namespace

std::unique_ptr<Ops> make_ref_ops() { return std::make_unique<RefOps>(); }

}  // namespace quire
