#include "model/gguf_form.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "model/config.h"
#include "model/model.h"

namespace quire {
namespace {

// The same facts under another architecture's name.
void rename_arch(ModelFile& file, const std::string& from, const std::string& to) {
  std::map<std::string, MetaValue, std::less<>> values;
  for (auto& [key, value] : file.meta.values) {
    const bool own = key.starts_with(from + ".");
    values[own ? to + key.substr(from.size()) : key] = std::move(value);
  }
  file.meta.values = std::move(values);
  file.meta.values["general.architecture"] = to;
}

std::vector<std::byte>& own(HostWeight& weight, ModelFile& file, size_t bytes) {
  auto owned = std::make_shared<std::vector<std::byte>>(bytes);
  weight.data = *owned;
  file.owned.push_back(owned);
  return *owned;
}

void sort_by_name(ModelFile& file) {
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const HostWeight& a, const HostWeight& b) { return a.name < b.name; });
}

// Row i of the first half of a head's turning rows becomes 2·i, of the second half 2·i + 1.
Status permute_rows(HostWeight& weight, int n_heads, const DecoderConfig& c, ModelFile& file) {
  const bool is_bias = weight.shape.size() == 1;
  const int64_t n_rows = weight.shape.empty() ? 0 : weight.shape.front();
  if (weight.shape.size() > 2 || n_rows != int64_t{n_heads} * c.head_dim) {
    return fail(Code::corrupt, "tensor \"" + weight.name + "\": must have " +
                                   std::to_string(int64_t{n_heads} * c.head_dim) + " rows, has " +
                                   std::to_string(n_rows));
  }
  const auto row_bytes =
      static_cast<size_t>(is_bias ? weight.format->bytes : weight.format->row_bytes(weight.n_cols()));
  const std::span<const std::byte> from = weight.data;
  std::vector<std::byte>& to = own(weight, file, from.size());
  const int half = c.n_rope / 2;
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t at = row % c.head_dim;
    const int64_t turned = at < half ? 2 * at : 2 * (at - half) + 1;
    const int64_t target = at < c.n_rope ? row - at + turned : row;
    std::memcpy(to.data() + static_cast<size_t>(target) * row_bytes, from.data() + static_cast<size_t>(row) * row_bytes,
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

// Vectors, and the routers of experts.
void widen_small(ModelFile& file) {
  const WeightFormat& f32 = *find_weight_format(std::string_view("f32"));
  for (HostWeight& weight : file.tensors) {
    const bool router = weight.name.find(".ffn_gate_inp.") != std::string::npos;
    if ((weight.shape.size() != 1 && !router) || weight.format == &f32) continue;
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

// What llama3's scaling divides each pair's frequency by, as a tensor.
void add_rope_tensor(const DecoderConfig& c, const std::string& arch, ModelFile& file) {
  const Rope plain = plain_rope(c.n_rope, c.rope_theta);
  HostWeight weight;
  weight.name = "rope_freqs.weight";
  weight.format = find_weight_format(std::string_view("f32"));
  weight.shape = {static_cast<int64_t>(plain.freq.size())};
  std::vector<std::byte>& bytes = own(weight, file, plain.freq.size() * sizeof(float));
  for (size_t i = 0; i < plain.freq.size(); ++i) {
    const auto by = static_cast<float>(std::bit_cast<double>(plain.freq[i]) / std::bit_cast<double>(c.rope.freq[i]));
    std::memcpy(bytes.data() + i * sizeof(float), &by, sizeof(float));
  }
  file.tensors.push_back(std::move(weight));
  sort_by_name(file);
  std::erase_if(file.meta.values, [&](const auto& fact) { return fact.first.starts_with(arch + ".rope.scaling."); });
}

// The experts' matrices that lie one by one, a layer's under one name: "blk.0.ffn_up.3.weight" into row 3 of
// "blk.0.ffn_up_exps.weight".
Status stack_experts(const DecoderConfig& c, ModelFile& file) {
  for (const std::string_view part : {"ffn_gate", "ffn_up", "ffn_down"}) {
    for (int l = 0; l < c.n_layers; ++l) {
      const std::string name = "blk." + std::to_string(l) + "." + std::string(part);
      const HostWeight* first = file.find(name + ".0.weight");
      if (first == nullptr) continue;
      HostWeight all = *first;
      all.name = name + "_exps.weight";
      all.shape.insert(all.shape.begin(), c.n_experts);
      const size_t bytes = first->data.size();
      std::vector<std::byte>& to = own(all, file, bytes * static_cast<size_t>(c.n_experts));
      for (int e = 0; e < c.n_experts; ++e) {
        QR_TRY(const HostWeight* one, file.get(name + "." + std::to_string(e) + ".weight", first->shape));
        if (one->format != first->format) {
          return fail(Code::unsupported,
                      "tensor \"" + one->name + "\": its type is not that of the layer's first expert");
        }
        std::memcpy(to.data() + static_cast<size_t>(e) * bytes, one->data.data(), bytes);
      }
      std::erase_if(file.tensors, [&](const HostWeight& w) { return w.name.starts_with(name + "."); });
      file.tensors.push_back(std::move(all));
      sort_by_name(file);
    }
  }
  return {};
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

Result<ModelFile> gguf_form(const ModelFile& folder) {
  QR_TRY(ModelFile out, neutral_form(folder));
  QR_TRY(std::string arch, out.meta.get_string("general.architecture"));
  if (arch == "mistral" || arch == "mixtral") {
    rename_arch(out, arch, "llama");
    arch = "llama";
  }
  QR_TRY(const DecoderConfig config, read_decoder_config(out, LoadOptions{}));
  if (arch == "llama") QR_TRY_VOID(permute(config, out));
  out.meta.values.erase(arch + ".rope.halves");
  QR_TRY(const std::string scaling, out.meta.get_string_or(arch + ".rope.scaling.type", "none"));
  if (scaling == "llama3") add_rope_tensor(config, arch, out);
  if (config.n_experts > 0) QR_TRY_VOID(stack_experts(config, out));
  widen_small(out);
  keep_end_ids(folder, out);
  return out;
}

}  // namespace quire
