// What a Llama or Gemma 3 of a GGUF file must say, in float64 and with nothing but loops: an independent reading of the
// architecture, for tests of real weights. Every weight is what its stored block decodes to; nothing else is rounded.
// Few positions: a product costs about a second for each thousand million multiply-adds.
#pragma once
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "io/model_file.h"

namespace quire {

using Row = std::vector<double>;

class Reference {
 public:
  explicit Reference(const ModelFile& file) : file_(file) {
    arch_ = file.meta.get_string("general.architecture").value();
    is_gemma_ = arch_ == "gemma3";
    n_layers_ = fact("block_count");
    n_heads_ = fact("attention.head_count");
    n_kv_heads_ = fact("attention.head_count_kv");
    n_embd_ = fact("embedding_length");
    head_ = file.meta.get_int_or(arch_ + ".attention.key_length", 1, 4096, n_embd_ / n_heads_).value();
    eps_ = file.meta.get_double(arch_ + ".attention.layer_norm_rms_epsilon", 0, 1).value();
    base_ = file.meta.get_double_or(arch_ + ".rope.freq_base", 1, 1e9, 10000).value();
  }

  // The logits of every position.
  std::vector<Row> logits(const std::vector<int>& tokens) const {
    std::vector<Row> x;
    const HostWeight& embedding = weight("token_embd.weight");
    for (const int token : tokens) {
      Row& row = x.emplace_back(decoded(embedding, token));
      if (is_gemma_) scale(row, std::sqrt(static_cast<double>(n_embd_)));
    }
    for (int64_t l = 0; l < n_layers_; ++l) layer(l, x);
    for (Row& row : x) row = normed(row, "output_norm.weight");
    return product(file_.find("output.weight") != nullptr ? "output.weight" : "token_embd.weight", x);
  }

 private:
  int64_t fact(const std::string& name) const { return file_.meta.get_int(arch_ + "." + name, 1, 1 << 30).value(); }
  const HostWeight& weight(const std::string& name) const { return *file_.find(name); }

  static Row decoded(const HostWeight& w, int64_t row) {
    const int64_t n = w.n_cols(), bytes = w.format->row_bytes(n);
    std::vector<float> block(static_cast<size_t>(w.format->block));
    Row out;
    out.reserve(static_cast<size_t>(n));
    const std::byte* at = w.data.data() + row * bytes;
    for (int64_t i = 0; i < n; i += w.format->block, at += w.format->bytes) {
      w.format->decode(at, block.data());
      out.insert(out.end(), block.begin(), block.end());
    }
    return out;
  }
  static double dot(const double* a, const double* b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  static void scale(Row& row, double by) {
    for (double& v : row) v *= by;
  }
  static void add(std::vector<Row>& x, const std::vector<Row>& y) {
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
    }
  }

  std::vector<Row> product(const std::string& name, const std::vector<Row>& x) const {
    const HostWeight& w = weight(name);
    std::vector<Row> out(x.size(), Row(static_cast<size_t>(w.n_rows())));
    for (int64_t r = 0; r < w.n_rows(); ++r) {
      const Row row = decoded(w, r);
      for (size_t t = 0; t < x.size(); ++t) out[t][static_cast<size_t>(r)] = dot(row.data(), x[t].data(), row.size());
    }
    return out;
  }
  void norm(double* at, size_t n, const Row& gain) const {
    const double by = 1 / std::sqrt(dot(at, at, n) / static_cast<double>(n) + eps_);
    for (size_t i = 0; i < n; ++i) at[i] *= by * gain[i];
  }
  Row normed(Row row, const std::string& name) const {
    norm(row.data(), row.size(), decoded(weight(name), 0));
    return row;
  }
  std::vector<Row> normed(std::vector<Row> x, const std::string& name) const {
    for (Row& row : x) row = normed(std::move(row), name);
    return x;
  }

  // Llama in GGUF turns neighbours, Gemma halves.
  void rope(Row& row, size_t t, double base) const {
    const auto d = static_cast<size_t>(head_);
    for (size_t h = 0; h < row.size(); h += d) {
      for (size_t i = 0; i < d / 2; ++i) {
        const double angle =
            static_cast<double>(t) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        double& a = row[h + (is_gemma_ ? i : 2 * i)];
        double& b = row[h + (is_gemma_ ? i + d / 2 : 2 * i + 1)];
        const double x = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = x;
      }
    }
  }

  std::vector<Row> attention(const std::vector<Row>& q, const std::vector<Row>& k, const std::vector<Row>& v) const {
    const auto d = static_cast<size_t>(head_), group = static_cast<size_t>(n_heads_ / n_kv_heads_);
    std::vector<Row> out;
    for (size_t t = 0; t < q.size(); ++t) {
      Row& row = out.emplace_back(q[t].size(), 0.0);
      for (size_t h = 0; h < static_cast<size_t>(n_heads_); ++h) {
        const size_t at = h / group * d;
        Row p(t + 1);
        double top = -INFINITY, sum = 0;
        for (size_t s = 0; s <= t; ++s) {
          p[s] = dot(&q[t][h * d], &k[s][at], d) / std::sqrt(static_cast<double>(d));
          top = std::max(top, p[s]);
        }
        for (double& value : p) sum += value = std::exp(value - top);
        for (size_t s = 0; s <= t; ++s) {
          for (size_t i = 0; i < d; ++i) row[h * d + i] += p[s] / sum * v[s][at + i];
        }
      }
    }
    return out;
  }

  void head_norms(std::vector<Row>& x, const std::string& name) const {
    const Row gain = decoded(weight(name), 0);
    for (Row& row : x) {
      for (size_t h = 0; h < row.size(); h += gain.size()) norm(&row[h], gain.size(), gain);
    }
  }

  double activated(double x) const {
    if (!is_gemma_) return x / (1 + std::exp(-x));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }

  void layer(int64_t l, std::vector<Row>& x) const {
    const std::string name = "blk." + std::to_string(l) + ".";
    // Of Gemma's layers five of six look through a window, which is longer than what is asked here, and turn faster.
    const double base = is_gemma_ && (l + 1) % 6 != 0 ? 10000 : base_;
    std::vector<Row> in = normed(x, name + "attn_norm.weight");
    std::vector<Row> q = product(name + "attn_q.weight", in), k = product(name + "attn_k.weight", in);
    if (is_gemma_) head_norms(q, name + "attn_q_norm.weight");
    if (is_gemma_) head_norms(k, name + "attn_k_norm.weight");
    for (size_t t = 0; t < x.size(); ++t) {
      rope(q[t], t, base);
      rope(k[t], t, base);
    }
    std::vector<Row> out = product(name + "attn_output.weight", attention(q, k, product(name + "attn_v.weight", in)));
    add(x, is_gemma_ ? normed(std::move(out), name + "post_attention_norm.weight") : out);
    in = normed(x, name + "ffn_norm.weight");
    std::vector<Row> gate = product(name + "ffn_gate.weight", in);
    const std::vector<Row> up = product(name + "ffn_up.weight", in);
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < gate[t].size(); ++i) gate[t][i] = activated(gate[t][i]) * up[t][i];
    }
    out = product(name + "ffn_down.weight", gate);
    add(x, is_gemma_ ? normed(std::move(out), name + "post_ffw_norm.weight") : out);
  }

  const ModelFile& file_;
  std::string arch_;
  bool is_gemma_ = false;
  int64_t n_layers_ = 0, n_heads_ = 0, n_kv_heads_ = 0, n_embd_ = 0, head_ = 0;
  double eps_ = 0, base_ = 0;
};

}  // namespace quire
