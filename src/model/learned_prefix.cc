#include "model/learned_prefix.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/bounded_reader.h"
#include "base/hash128.h"
#include "io/in_quotes.h"
#include "model/paired_rows.h"
#include "model/peft_folder.h"

namespace quire {
namespace {

constexpr const char* kTensorName = "prompt_embeddings";
constexpr uint64_t kContentSeed = 0x6c6561726e6564ULL;

// Keys of PEFT's that say nothing about the numbers, or that are read below.
constexpr auto kKnownKeys = std::to_array<std::string_view>({
    "auto_mapping",
    "base_model_name_or_path",
    "encoder_dropout",
    "encoder_hidden_size",
    "encoder_num_layers",
    "encoder_reparameterization_type",
    "inference_mode",
    "num_attention_heads",
    "num_layers",
    "num_transformer_submodules",
    "num_virtual_tokens",
    "peft_type",
    "peft_version",
    "prefix_projection",
    "prompt_tuning_init",
    "prompt_tuning_init_text",
    "revision",
    "task_type",
    "token_dim",
    "tokenizer_kwargs",
    "tokenizer_name_or_path",
});

Status check_keys(const Json& config) {
  if (config.as_object() == nullptr) return fail(Code::corrupt, "must be an object");
  for (const auto& [key, value] : *config.as_object()) {
    if (std::ranges::find(kKnownKeys, key) == kKnownKeys.end() && !says_nothing(value))
      return fail(Code::unsupported, "key " + in_quotes(key) + ": is not known for a learned prefix");
  }
  return {};
}

Status want_number(const Json& config, const char* key, int64_t wanted) {
  const Json* value = config.find(key);
  if (value != nullptr && value->as_int() != nullptr && *value->as_int() == wanted) return {};
  return fail(Code::corrupt, "key " + in_quotes(key) + ": must be " + std::to_string(wanted) +
                                 " as the model's, found " + shown_json(value));
}

Result<LearnedPrefix::Kind> read_kind(const Json& config) {
  const Json* type = config.find("peft_type");
  const std::string* name = type != nullptr ? type->as_string() : nullptr;
  if (name != nullptr && *name == "PREFIX_TUNING") return LearnedPrefix::Kind::keys_values;
  if (name != nullptr && (*name == "PROMPT_TUNING" || *name == "P_TUNING")) return LearnedPrefix::Kind::embeddings;
  return fail(Code::unsupported,
              "key \"peft_type\": must be PREFIX_TUNING, PROMPT_TUNING or P_TUNING, found " + shown_json(type));
}

// Whether every layer has keys and values of its own, and all have the same shape.
bool has_even_layers(const ModelInfo& info) {
  std::set<std::pair<int, int64_t>> claims;
  return std::ranges::all_of(info.attention, [&](const AttnParams& layer) {
    const bool is_even =
        layer.n_kv_heads == info.n_kv_heads && layer.k_dim == info.head_dim && layer.v_dim == info.head_dim;
    return is_even && claims.emplace(layer.group, layer.kv_offset).second;
  });
}

Result<LearnedPrefix> read_config(const Json& config, const ModelInfo& info) {
  QR_TRY_VOID(check_keys(config));
  LearnedPrefix out;
  QR_TRY(out.kind, read_kind(config));
  QR_TRY_VOID(check_task(config));
  const Json* n = config.find("num_virtual_tokens");
  if (n == nullptr || n->as_int() == nullptr || *n->as_int() < 1 || *n->as_int() > kMaxVirtualTokens) {
    return fail(Code::corrupt, "key \"num_virtual_tokens\": must be 1 to " + std::to_string(kMaxVirtualTokens) +
                                   ", found " + shown_json(n));
  }
  out.n_tokens = static_cast<int>(*n->as_int());
  const Json* parts = config.find("num_transformer_submodules");
  if (parts != nullptr && !parts->is_null()) QR_TRY_VOID(want_number(config, "num_transformer_submodules", 1));
  if (out.kind == LearnedPrefix::Kind::keys_values) {
    if (info.attention.front().values_in_keys)
      return fail(Code::unsupported,
                  "key \"peft_type\": PREFIX_TUNING is not known for a model whose values are part of its keys");
    if (!has_even_layers(info))
      return fail(Code::unsupported,
                  "key \"peft_type\": PREFIX_TUNING is not known for a model whose layers' keys differ or are shared");
    QR_TRY_VOID(want_number(config, "num_layers", info.n_layers));
    QR_TRY_VOID(want_number(config, "num_attention_heads", info.n_kv_heads));
    QR_TRY_VOID(want_number(config, "token_dim", int64_t{info.n_kv_heads} * info.head_dim));
    return out;
  }
  QR_TRY_VOID(want_number(config, "token_dim", info.n_embd));
  if (info.scales_embedding)
    return fail(Code::unsupported,
                "embeddings of virtual tokens are not known for " + info.arch + ", which changes its own");
  return out;
}

// Values of one virtual token.
int64_t row_size(const LearnedPrefix& prefix, const ModelInfo& info) {
  const bool embeds = prefix.kind == LearnedPrefix::Kind::embeddings;
  return embeds ? info.n_embd : int64_t{2} * info.n_layers * info.n_kv_heads * info.head_dim;
}

Status read_values(const TensorFile& file, const ModelInfo& info, LearnedPrefix& out) {
  const std::vector<int64_t> shape{out.n_tokens, row_size(out, info)};
  const SafeTensor* found = nullptr;
  for (const SafeTensor& tensor : file.tensors) {
    if (tensor.name != kTensorName)
      return fail(Code::unsupported, "tensor " + in_quotes(tensor.name) +
                                         ": is not known for a learned prefix, which has " + in_quotes(kTensorName) +
                                         " alone");
    found = &tensor;
  }
  if (found == nullptr) return fail(Code::corrupt, "tensor " + in_quotes(kTensorName) + ": is missing");
  QR_TRY(out.values, read_finite(*found, shape, *file.map));
  return file.map->check_unchanged();
}

// PEFT's keys lie as a folder's rows of K do, the model's cached ones as its own rows.
void pair_up(const ModelInfo& info, std::vector<float>& values) {
  const int64_t kv_dim = int64_t{info.n_kv_heads} * info.head_dim;
  std::vector<float> paired(static_cast<size_t>(kv_dim));
  for (auto keys = values.begin(); keys != values.end(); keys += 2 * kv_dim) {  // behind them their values
    for (int64_t i = 0; i < kv_dim; ++i)
      paired[static_cast<size_t>(i)] = keys[unpaired_row(i, info.head_dim, info.n_rope)];
    std::ranges::copy(paired, keys);
  }
}

Result<LearnedPrefix> read_folder(const std::string& folder, const ModelInfo& info) {
  QR_TRY(const Json config, read_folder_json(folder, kPeftConfig, kMaxPeftConfigBytes));
  auto out = read_config(config, info);
  if (!out) return error_within(kPeftConfig, std::move(out).error());
  QR_TRY(const TensorFile file, open_tensor_file(folder, kPeftWeights));
  auto read = read_values(file, info, *out);
  if (!read) return error_within(kPeftWeights, std::move(read).error());
  return out;
}

Tensor rows_of(const LearnedPrefix& prefix, const Pass& pass, int begin, size_t at, int64_t n_values) {
  const int64_t n = pass.batch->ids.dim(0);
  const size_t row = prefix.values.size() / static_cast<size_t>(prefix.n_tokens);
  const Tensor out = pass.arena->alloc_rows(n, n_values);
  pass.ops->finish();
  for (int64_t i = 0; i < n; ++i) {
    const float* from = prefix.values.data() + static_cast<size_t>(begin + i) * row + at;
    std::copy_n(from, n_values, out.row<float>(i));
  }
  return out;
}

}  // namespace

Result<LearnedPrefix> load_learned_prefix(const std::string& folder, const ModelInfo& info) {
  if (info.attention.empty() || info.n_state_layers > 0)
    return fail(Code::unsupported, folder + ": a model of architecture " + info.arch + " takes no learned prefix");
  auto out = read_folder(folder, info);
  if (!out) return error_within(folder, std::move(out).error());
  const bool keys = out->kind == LearnedPrefix::Kind::keys_values;
  const Hash128 hash = hash128(std::as_bytes(std::span(out->values)), kContentSeed + (keys ? 0 : 1));
  const std::array<uint64_t, 3> words{hash.lo, hash.hi, static_cast<uint64_t>(out->n_tokens)};
  out->content = std::max<uint64_t>(hash128(std::as_bytes(std::span(words)), kContentSeed).lo, 1);
  if (keys && pairs_rows(info)) pair_up(info, out->values);
  return out;
}

void write_learned_prefix(const LearnedPrefix& prefix, const Model& model, const Pass& pass, int begin) {
  const ModelInfo& info = model.info();
  const auto mark = pass.arena->mark();
  if (prefix.kind == LearnedPrefix::Kind::embeddings) {
    model.layers(rows_of(prefix, pass, begin, 0, info.n_embd), {0, info.n_layers}, pass);
    return pass.arena->release(mark);
  }
  const int64_t kv_dim = int64_t{info.n_kv_heads} * info.head_dim;
  size_t at = 0;
  for (const AttnParams& layer : info.attention) {
    const Tensor k = rows_of(prefix, pass, begin, at, kv_dim);                                // [n, kv_dim]
    const Tensor v = rows_of(prefix, pass, begin, at + static_cast<size_t>(kv_dim), kv_dim);  // [n, kv_dim]
    write_kv(k, v, pass, layer);
    pass.arena->release(mark);
    at += 2 * static_cast<size_t>(kv_dim);
  }
}

}  // namespace quire
