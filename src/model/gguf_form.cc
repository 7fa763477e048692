#include "model/gguf_form.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bounded_reader.h"
#include "model/config.h"
#include "model/model.h"
#include "model/paired_rows.h"
#include "model/rope.h"
#include "quant/convert.h"

namespace quire {
namespace {

std::vector<std::byte>& own(HostWeight& weight, ModelFile& file, size_t bytes) {
  auto owned = std::make_shared<std::vector<std::byte>>(bytes);
  weight.data = *owned;
  file.owned.push_back(owned);
  return *owned;
}

Status permute_rows(HostWeight& weight, int n_heads, const DecoderConfig& c, ModelFile& file) {
  const bool is_bias = weight.shape.size() == 1;
  const int64_t n_rows = weight.shape.empty() ? 0 : weight.shape.front();
  if (weight.shape.size() > 2 || n_rows != int64_t{n_heads} * c.head_dim) {
    return fail(Code::corrupt, "tensor " + file.shown(weight.name) + ": must have " +
                                   std::to_string(int64_t{n_heads} * c.head_dim) + " rows, has " +
                                   std::to_string(n_rows));
  }
  const auto row_bytes =
      static_cast<size_t>(is_bias ? weight.format->bytes : weight.format->row_bytes(weight.n_cols()));
  const std::span<const std::byte> from = weight.data;
  std::vector<std::byte>& to = own(weight, file, from.size());
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t source = unpaired_row(row, c.head_dim, c.n_rope);
    std::memcpy(to.data() + static_cast<size_t>(row) * row_bytes, from.data() + static_cast<size_t>(source) * row_bytes,
                row_bytes);
  }
  return {};
}

Status permute(const DecoderConfig& c, ModelFile& file) {
  for (HostWeight& weight : file.tensors) {
    const bool q = weight.name.find(".attn_q.") != std::string::npos;
    const bool k = weight.name.find(".attn_k.") != std::string::npos;
    if (q || k) QR_TRY_VOID(permute_rows(weight, q ? c.n_heads : c.n_kv_heads, c, file));
  }
  return {};
}

void widen_small(ModelFile& file) {
  const WeightFormat& f32 = *find_weight_format(std::string_view("f32"));
  for (HostWeight& weight : file.tensors) {
    if (!is_small(weight) || weight.format == &f32) continue;
    const std::span<const std::byte> from = weight.data;
    const auto n = static_cast<size_t>(weight.n_rows() * weight.n_cols());
    std::vector<std::byte>& to = own(weight, file, n * sizeof(float));
    for (size_t i = 0; i < n; ++i) {
      float value = 0;
      weight.format->decode(from.data() + i * static_cast<size_t>(weight.format->bytes), &value);
      std::memcpy(to.data() + i * sizeof(float), &value, sizeof(float));
    }
    weight.format = &f32;
  }
}

constexpr int64_t kMostPositions = int64_t{1} << 28;

void add_vector(const char* name, const std::vector<double>& values, ModelFile& file) {
  HostWeight weight;
  weight.name = name;
  weight.format = find_weight_format(std::string_view("f32"));
  weight.shape = {static_cast<int64_t>(values.size())};
  std::vector<std::byte>& bytes = own(weight, file, values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  file.tensors.push_back(std::move(weight));
}

// The facts <arch>.rope.scaling.* of one file.
class Scaling {
 public:
  Scaling(const std::string& arch, ModelFile& file) : file_(file), prefix_(arch + ".rope.scaling.") {}

  void set(std::string_view name, MetaValue value) {
    file_.meta.values[prefix_ + std::string(name)] = std::move(value);
  }
  const MetaValue* find(std::string_view name) const { return file_.meta.find(prefix_ + std::string(name)); }
  void clear_but(std::initializer_list<std::string_view> kept) {
    std::erase_if(file_.meta.values, [&](const auto& fact) {
      if (!fact.first.starts_with(prefix_)) return false;
      const std::string_view name = std::string_view(fact.first).substr(prefix_.size());
      if (name == "finetuned") return false;  // says of some architectures whether heads turn at all
      return std::find(kept.begin(), kept.end(), name) == kept.end();
    });
  }
  // What GGUF multiplies the kind's own magnitude with; none is 1.
  void set_magnitude(double by) {
    if (std::fabs(by - 1) > 1e-9) set("attn_factor", by);
  }
  // What each pair's frequency is divided by.
  void add_divisors(const char* tensor, const Rope& plain, const Rope& rope) {
    std::vector<double> by;
    by.reserve(plain.freq.size());
    for (size_t i = 0; i < plain.freq.size(); ++i) {
      by.push_back(std::bit_cast<double>(plain.freq[i]) / std::bit_cast<double>(rope.freq[i]));
    }
    add_vector(tensor, by, file_);
  }

 private:
  ModelFile& file_;
  std::string prefix_;
};

// Whether other programs compute the same from yarn's facts: some read no other values of these.
bool is_usual_yarn(const Scaling& scaling) {
  const auto is = [&](const char* name, const MetaValue& usual) {
    const MetaValue* value = scaling.find(name);
    return value == nullptr || *value == usual;
  };
  return is("truncate", true) && is("yarn_beta_fast", 32.0) && is("yarn_beta_slow", 1.0);
}

// GGUF's way of saying how positions are scaled. The facts have been read once: what each kind needs is there.
Status put_scaling(const DecoderConfig& c, const std::string& arch, ModelFile& file) {
  const std::string prefix = arch + ".rope.scaling.";
  QR_TRY(const std::string type, file.meta.get_string_or(prefix + "type", "none"));
  QR_TRY(const double factor, file.meta.get_double_or(prefix + "factor", 1e-3, 1e6, 1.0));
  Scaling scaling(arch, file);
  const Rope plain = plain_rope(c.n_rope, c.rope_theta);
  if (type == "llama3" || type == "proportional") {
    scaling.add_divisors("rope_freqs.weight", plain, c.rope);
    scaling.clear_but({});
  } else if (type == "linear") {
    scaling.clear_but({"type", "factor"});
  } else if (type == "yarn" && arch == "llama" && !is_usual_yarn(scaling)) {
    scaling.add_divisors("rope_freqs.weight", plain, c.rope);
    scaling.clear_but({});
    scaling.set_magnitude(c.rope.magnitude);
    file.meta.values[arch + ".context_length"] = int64_t{c.n_ctx};  // yarn's is not the fact's
  } else if (type == "yarn") {
    scaling.clear_but({"type", "factor", "original_context_length", "yarn_beta_fast", "yarn_beta_slow", "truncate",
                       kYarnLogMultiplier});
    const MetaValue* of_scores = scaling.find(kYarnLogMultiplier);
    const bool is_in_scores = of_scores != nullptr && *of_scores != MetaValue(0.0);
    scaling.set_magnitude(c.rope.magnitude / (is_in_scores ? 1.0 : yarn_magnitude(factor, 1.0)));
  } else if (type == "dynamic") {  // which GGUF has not: others take the model within its original context
    scaling.clear_but({"original_context_length"});
    scaling.set("type", std::string("none"));
    scaling.set(kDynamicFactor, factor);
  } else if (type == "longrope" || type == "su") {
    QR_TRY(const int64_t original, file.meta.get_int(prefix + "original_context_length", 1, kMostPositions));
    LoadOptions served;
    served.n_ctx = static_cast<int>(original);
    QR_TRY(const DecoderConfig within, read_decoder_config(file, served));
    served.n_ctx += 1;
    QR_TRY(const DecoderConfig beyond, read_decoder_config(file, served));
    scaling.add_divisors("rope_factors_short.weight", plain, within.rope);
    scaling.add_divisors("rope_factors_long.weight", plain, beyond.rope);
    scaling.clear_but({"original_context_length"});  // a factor would be linear's to others
    scaling.set("type", std::string("longrope"));
    scaling.set("attn_factor", c.rope.magnitude);
  } else {
    scaling.clear_but({});
  }
  file.sort_tensors();
  return {};
}

// The experts' matrices that lie one by one, a layer's under one name: "blk.0.ffn_up.3.weight" into row 3 of
// "blk.0.ffn_up_exps.weight".
Status stack_experts(const DecoderConfig& c, ModelFile& file) {
  for (const std::string_view part : {"ffn_gate", "ffn_up", "ffn_down"}) {
    for (int l = 0; l < c.n_layers; ++l) {
      const std::string name = "blk." + std::to_string(l) + "." + std::string(part);
      QR_TRY_VOID(stack_matrices(name, name + "_exps", c.n_experts, file));
    }
  }
  return {};
}

// Numbers of units' activations that a folder has as tensors, one a layer ("blk.0.xielu.beta"): GGUF has lists of them.
void list_numbers(const DecoderConfig& c, ModelFile& file) {
  for (const std::string_view name : {"alpha_p", "alpha_n", "beta", "eps"}) {
    std::vector<double> list;
    const std::string ending = ".xielu." + std::string(name);
    for (int l = 0; l < c.n_layers; ++l) {
      const HostWeight* weight = file.find("blk." + std::to_string(l) + ending);
      const std::optional<double> value = weight == nullptr ? std::nullopt : single_number(*weight);
      if (!value) break;
      list.push_back(*value);
    }
    if (list.size() != static_cast<size_t>(c.n_layers)) continue;
    file.meta.values["xielu." + std::string(name)] = std::move(list);
    std::erase_if(file.tensors, [&](const HostWeight& w) { return w.name.ends_with(ending); });
  }
}

void keep_end_ids(const ModelFile& folder, ModelFile& out) {
  const MetaValue* value = folder.meta.find("hf_generation.eos_token_id");
  if (value == nullptr) value = folder.meta.find("hf.eos_token_id");
  std::vector<int64_t> ids;
  if (value != nullptr && std::get_if<int64_t>(value) != nullptr) ids = {std::get<int64_t>(*value)};
  if (value != nullptr && std::get_if<std::vector<int64_t>>(value) != nullptr) {
    ids = std::get<std::vector<int64_t>>(*value);
  }
  std::erase_if(ids, [](int64_t id) { return id < 0 || id > std::numeric_limits<int32_t>::max(); });
  if (!ids.empty()) out.meta.values[std::string(kEndTokensKey)] = std::move(ids);
}

}  // namespace

Status stack_matrices(const std::string& name, const std::string& all_name, int n, ModelFile& file) {
  const HostWeight* first = file.find(name + ".0.weight");
  if (first == nullptr) return {};
  HostWeight all = *first;
  all.name = all_name + ".weight";
  all.shape.insert(all.shape.begin(), n);
  const size_t bytes = first->data.size();
  std::vector<std::byte>& to = own(all, file, bytes * static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    QR_TRY(const HostWeight* one, file.get(name + "." + std::to_string(i) + ".weight", first->shape));
    if (one->format != first->format) {
      return fail(Code::unsupported, "tensor " + file.shown(one->name) + ": its type is not that of the first one");
    }
    std::memcpy(to.data() + static_cast<size_t>(i) * bytes, one->data.data(), bytes);
  }
  std::erase_if(file.tensors, [&](const HostWeight& w) { return w.name.starts_with(name + "."); });
  file.tensors.push_back(std::move(all));
  file.sort_tensors();
  return {};
}

void rename_arch(ModelFile& file, const std::string& from, const std::string& to) {
  const auto rename = [&](auto& map) {
    std::remove_reference_t<decltype(map)> renamed;
    for (auto& [key, value] : map) {
      const bool own = key.starts_with(from + ".");
      renamed[own ? to + key.substr(from.size()) : key] = std::move(value);
    }
    map = std::move(renamed);
  };
  rename(file.meta.values);
  rename(file.meta.spelled);
  file.meta.values["general.architecture"] = to;
}

Result<ModelFile> gguf_form(const ModelFile& folder) {
  QR_TRY(ModelFile out, neutral_form(folder));
  for (const HostWeight& weight : out.tensors) {
    if (weight.made == nullptr) continue;
    return fail(Code::unsupported, out.path + ": tensor " + out.shown(weight.name) +
                                       ": is quantised; folders of floats alone are written as GGUF");
  }
  QR_TRY(std::string arch, out.meta.get_string("general.architecture"));
  if (const auto as_gguf = Registry<ArchEntry>::get().find(arch)->hf.as_gguf; as_gguf != nullptr) {
    auto done = as_gguf(out);
    if (!done) return error_within(out.path, std::move(done).error());
    QR_TRY(arch, out.meta.get_string("general.architecture"));
  }
  QR_TRY(const DecoderConfig config, read_decoder_config(out, LoadOptions{}));
  if (Registry<ArchEntry>::get().find(arch)->hf.pairs_in_gguf) QR_TRY_VOID(permute(config, out));
  out.meta.values.erase(arch + ".rope.halves");
  if (!config.is_state.empty()) {
    std::vector<int64_t> heads;
    heads.reserve(config.is_state.size());
    for (const bool is_state : config.is_state) heads.push_back(is_state ? 0 : config.n_kv_heads);
    out.meta.values[arch + ".attention.head_count_kv"] = std::move(heads);
    out.meta.values.erase(arch + ".attention.recurrent_layers");
  }
  if (config.latent.n_kv == 0 && config.n_heads > 0) {  // readers that find no lengths of heads divide the embedding's
    out.meta.values[arch + ".attention.key_length"] = int64_t{config.head_dim};
    out.meta.values[arch + ".attention.value_length"] = int64_t{config.v_dim};
  }
  QR_TRY_VOID(put_scaling(config, arch, out));
  if (config.n_experts > 0) QR_TRY_VOID(stack_experts(config, out));
  list_numbers(config, out);
  widen_small(out);
  keep_end_ids(folder, out);
  return out;
}

}  // namespace quire
