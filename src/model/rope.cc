#include "model/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "io/in_quotes.h"

namespace quire {
namespace {

using Frequencies = std::vector<double>;

constexpr std::string_view kOldLinearFactor = "rope.scale_linear";  // what GGUF had before rope.scaling

struct Scaling {
  const ModelFile& file;
  const RopeQuery& query;
  std::string prefix;  // of the facts, "llama.rope.scaling."
  int64_t original = 0;

  Result<double> factor() const {
    const std::string old = query.prefix + std::string(kOldLinearFactor);
    return file.meta.get_double(file.meta.find(old) != nullptr ? old : prefix + "factor", 1e-3, 1e6);
  }
  Result<double> dynamic_factor() const {
    const std::string own = prefix + std::string(kDynamicFactor);
    return file.meta.find(own) != nullptr ? file.meta.get_double(own, 1e-3, 1e6) : factor();
  }
  double length() const { return static_cast<double>(original); }
};

Frequencies plain(int n_rope, double base) {
  Frequencies out;
  for (int i = 0; i < n_rope / 2; ++i) out.push_back(std::pow(base, -2.0 * i / n_rope));
  return out;
}

Status none(const Scaling& s, Frequencies&, double& magnitude) {
  QR_TRY(magnitude, s.file.meta.get_double_or(s.prefix + "attn_factor", 1e-3, 1e3, 1.0));
  return {};
}

Status linear(const Scaling& s, Frequencies& freq, double& magnitude) {
  QR_TRY_VOID(none(s, freq, magnitude));
  QR_TRY(const double factor, s.factor());
  for (double& f : freq) f /= factor;
  return {};
}

Status dynamic(const Scaling& s, Frequencies& freq, double&) {
  QR_TRY(const double factor, s.dynamic_factor());
  const int d = s.query.n_rope;
  const double n = std::max<double>(s.query.n_ctx, s.length());
  if (d <= 2) return {};
  const double grown = factor * n / s.length() - (factor - 1);
  freq = plain(d, s.query.base * std::pow(grown, static_cast<double>(d) / (d - 2)));
  return {};
}

// The index whose component turns `n_turns` times over the original context.
double turning_index(const Scaling& s, double n_turns) {
  return s.query.n_rope * std::log(s.length() / (n_turns * 2 * M_PI)) / (2 * std::log(s.query.base));
}

Status yarn(const Scaling& s, Frequencies& freq, double& magnitude) {
  const Metadata& meta = s.file.meta;
  QR_TRY(const double factor, s.factor());
  QR_TRY(const double fast, meta.get_double_or(s.prefix + "yarn_beta_fast", 1e-6, 1e6, 32.0));
  QR_TRY(const double slow, meta.get_double_or(s.prefix + "yarn_beta_slow", 1e-6, 1e6, 1.0));
  QR_TRY(const bool truncate, meta.get_bool_or(s.prefix + "truncate", true));
  QR_TRY(const double mscale, meta.get_double_or(s.prefix + "mscale", 0.0, 1e3, 0.0));
  QR_TRY(const double mscale_all, meta.get_double_or(s.prefix + "mscale_all_dim", 0.0, 1e3, 0.0));
  QR_TRY(const double of_scores, meta.get_double_or(s.prefix + std::string(kYarnLogMultiplier), 0.0, 1e3, 0.0));
  QR_TRY(const double extra, meta.get_double_or(s.prefix + "attn_factor", 1e-3, 1e3, 1.0));
  double low = turning_index(s, fast);
  double high = turning_index(s, slow);
  if (truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(s.query.n_rope - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    freq[i] = freq[i] / factor * ramp + freq[i] * (1 - ramp);
  }
  const bool has_both = mscale > 0 && mscale_all > 0;
  const bool is_in_scores = of_scores > 0 && meta.find(s.prefix + "mscale_all_dim") == nullptr;
  const double natural =
      has_both ? yarn_magnitude(factor, mscale) / yarn_magnitude(factor, mscale_all) : yarn_magnitude(factor, 1.0);
  magnitude = is_in_scores ? extra : extra * natural;
  return {};
}

Status llama3(const Scaling& s, Frequencies& freq, double&) {
  QR_TRY(const double factor, s.factor());
  QR_TRY(const double low, s.file.meta.get_double_or(s.prefix + "low_freq_factor", 1e-3, 1e6, 1.0));
  QR_TRY(const double high, s.file.meta.get_double_or(s.prefix + "high_freq_factor", 1e-3, 1e6, 4.0));
  if (high <= low) {
    return fail(Code::corrupt, "key " + s.file.meta.shown(s.prefix + "high_freq_factor") +
                                   ": must be above low_freq_factor " + std::to_string(low) + ", is " +
                                   std::to_string(high));
  }
  for (double& f : freq) {
    const double turns = s.length() * f / (2 * M_PI);  // over the original context
    const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    f = (1 - smooth) * f / factor + smooth * f;
  }
  return {};
}

// One divisor a pair, from the facts or from a tensor.
Result<std::vector<double>> divisors(const ModelFile& file, const std::string& key, const char* tensor, size_t n) {
  std::vector<double> out;
  if (const HostWeight* weight = file.find(tensor)) {
    const auto found = file.get(tensor, {static_cast<int64_t>(n)});
    if (!found) return tl::make_unexpected(found.error());
    for (size_t i = 0; i < n; ++i) {
      float value = 0;
      if (weight->format->block != 1) return fail(Code::corrupt, "tensor " + file.shown(tensor) + ": must be F32");
      weight->format->decode(weight->data.data() + i * static_cast<size_t>(weight->format->bytes), &value);
      out.push_back(static_cast<double>(value));
    }
  } else if (const MetaValue* value = file.meta.find(key)) {
    if (const auto* numbers = std::get_if<std::vector<double>>(value)) out = *numbers;
    if (const auto* whole = std::get_if<std::vector<int64_t>>(value)) out.assign(whole->begin(), whole->end());
  }
  const bool good = out.size() == n &&
                    std::all_of(out.begin(), out.end(), [](double v) { return v > 1e-6 && v < 2 * kStillDivisor; });
  if (!good) {
    return fail(Code::corrupt, "key " + file.meta.shown(key) + " or tensor " + file.shown(tensor) + ": must hold " +
                                   std::to_string(n) + " positive numbers, has " + std::to_string(out.size()));
  }
  return out;
}

Status longrope(const Scaling& s, Frequencies& freq, double& magnitude) {
  const bool is_long = s.query.n_ctx > s.original;
  QR_TRY(const auto by, divisors(s.file, s.prefix + (is_long ? "long_factor" : "short_factor"),
                                 is_long ? "rope_factors_long.weight" : "rope_factors_short.weight", freq.size()));
  for (size_t i = 0; i < freq.size(); ++i) freq[i] /= by[i];
  const double ratio = static_cast<double>(s.query.n_ctx_trained) / s.length();
  QR_TRY(const double grown, s.file.meta.get_double_or(s.prefix + "factor", 1e-3, 1e6, ratio));
  const double formula = grown <= 1 || s.original <= 1 ? 1.0 : std::sqrt(1 + std::log(grown) / std::log(s.length()));
  QR_TRY(const double own,
         s.file.meta.get_double_or(s.prefix + (is_long ? "long_mscale" : "short_mscale"), 1e-3, 1e3, formula));
  QR_TRY(magnitude, s.file.meta.get_double_or(s.prefix + "attn_factor", 1e-3, 1e3, own));
  return {};
}

// The first pairs turn, the others stand still.
Status proportional(const Scaling& s, Frequencies& freq, double&) {
  QR_TRY(const double part, s.file.meta.get_double_or(s.prefix + "partial_rotary_factor", 0.0, 1.0, 1.0));
  QR_TRY(const double factor, s.file.meta.get_double_or(s.prefix + "factor", 1e-3, 1e6, 1.0));
  const auto n_turning = static_cast<size_t>(part * s.query.n_rope / 2);
  for (size_t i = 0; i < freq.size(); ++i) freq[i] /= i < n_turning ? factor : kStillDivisor;
  return {};
}

struct Kind {
  std::string_view name;
  Status (*apply)(const Scaling&, Frequencies&, double& magnitude);
};
constexpr Kind kKinds[] = {{"none", none},
                           {"default", none},
                           {"linear", linear},
                           {"dynamic", dynamic},
                           {"yarn", yarn},
                           {"llama3", llama3},
                           {"longrope", longrope},
                           {"su", longrope},
                           {"proportional", proportional}};  // "su": longrope's older name

Rope as_bits(const Frequencies& freq, double magnitude) {
  Rope out;
  for (const double f : freq) out.freq.push_back(std::bit_cast<int64_t>(f));
  out.magnitude = magnitude;
  return out;
}

}  // namespace

double yarn_magnitude(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1; }

Result<std::string> rope_kind(const ModelFile& file, const std::string& prefix) {
  const std::string scaling = prefix + "rope.scaling.";
  if (file.meta.find(scaling + std::string(kDynamicFactor)) != nullptr) return std::string("dynamic");
  // GGUF's phi3 does not name its kind: its factors' tensors do. A factor alone is linear.
  const bool factors = file.find("rope_factors_long.weight") != nullptr;
  const bool factor = file.meta.find(scaling + "factor") != nullptr ||
                      file.meta.find(prefix + std::string(kOldLinearFactor)) != nullptr;
  return file.meta.get_string_or(scaling + "type", factors ? "longrope" : factor ? "linear" : "none");
}

Rope plain_rope(int n_rope, double base) { return as_bits(plain(n_rope, base), 1.0); }

Result<Rope> read_rope(const ModelFile& file, const RopeQuery& query) {
  Frequencies freq = plain(query.n_rope, query.base);
  double magnitude = 1.0;
  Scaling scaling{file, query, query.prefix + "rope.scaling."};
  QR_TRY(const std::string type, rope_kind(file, query.prefix));
  const Kind* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == type; });
  if (kind == std::end(kKinds)) {
    return fail(Code::unsupported,
                "key " + file.meta.shown(scaling.prefix + "type") + ": " + in_quotes(type) + " is not supported");
  }
  QR_TRY(scaling.original,
         file.meta.get_int_or(scaling.prefix + "original_context_length", 1, int64_t{1} << 28, query.n_ctx_trained));
  QR_TRY_VOID(kind->apply(scaling, freq, magnitude));
  QR_TRY(magnitude, file.meta.get_double_or(scaling.prefix + "magnitude", 1e-3, 1e3, magnitude));
  if (file.find("rope_freqs.weight") != nullptr) {
    QR_TRY(const auto by, divisors(file, "rope_freqs", "rope_freqs.weight", freq.size()));
    for (size_t i = 0; i < freq.size(); ++i) freq[i] /= by[i];
  }
  return as_bits(freq, magnitude);
}

Tensor frequencies(const Rope& rope) {
  return Tensor::dense(const_cast<int64_t*>(rope.freq.data()), DType::i64, {static_cast<int64_t>(rope.freq.size())});
}

}  // namespace quire
