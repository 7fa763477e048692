#include "model/eagle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"
#include "model/config.h"
#include "model/head_folder.h"
#include "model/tensor_taker.h"
#include "model/weight_loader.h"
#include "ops/op_check.h"
#include "quant/convert.h"
#include "quant/kv_codec.h"

namespace quire {
namespace {

constexpr HeadFolderKind kKind{"draft_vocab_size", "model.safetensors", "pytorch_model.bin"};
constexpr int kMostTaps = 16;
constexpr std::string_view kLayers = "num_hidden_layers";

// What config.json says. Shapes are the tensors' affair.
struct Config {
  int n_heads = 0, n_kv_heads = 0, head_dim = 0, n_draft = 0;
};

class ConfigReader {
 public:
  explicit ConfigReader(const Json& json) : json_(json) {}

  Result<int> count(std::string_view key, int64_t lo, int64_t hi, std::optional<int> otherwise = {}) const {
    const Json* value = found(key);
    if (value == nullptr && otherwise) return *otherwise;
    return head_count(key, value, lo, hi);
  }

  Result<double> positive(std::string_view key, double otherwise) const {
    const Json* value = found(key);
    if (value == nullptr) return otherwise;
    if (value->is_number() && value->number() > 0 && std::isfinite(value->number())) return value->number();
    return tl::make_unexpected(bad_head_key(key, "a number above 0", value));
  }

  // What a head may say and this program does not compute. Of one that joins the tensors say where biases are.
  Status check_plain(bool joins) const {
    for (const char* key : {"norm_before_residual", "norm_before_fc", "mlp_bias", "attention_bias"}) {
      const Json* value = found(key);
      if (joins && std::string_view(key) == "attention_bias") continue;
      if (value != nullptr && (value->as_bool() == nullptr || *value->as_bool()))
        return fail(Code::unsupported, std::string(kHeadConfig) + ": key " + in_quotes(key) + ": must be false");
    }
    if (const Json* scaling = found("rope_scaling"); scaling != nullptr) {
      return fail(Code::unsupported, std::string(kHeadConfig) + ": key \"rope_scaling\": is not supported for a head");
    }
    const Json* act = found("hidden_act");
    if (act == nullptr || (act->as_string() != nullptr && *act->as_string() == "silu")) return {};
    return tl::make_unexpected(bad_head_key("hidden_act", "\"silu\"", act));
  }

  // Where it says nothing, as the authors choose them.
  Result<std::vector<int>> taps(int n_layers) const {
    const char* key = "eagle_aux_hidden_state_layer_ids";
    const Json* within = found("eagle_config");
    const Json* list = within == nullptr || within->as_object() == nullptr ? nullptr : within->find(key);
    if (list == nullptr) list = found(key);
    if (list == nullptr) {
      if (n_layers < 6)
        return tl::make_unexpected(bad_head_key(key, "there for a model of less than 6 layers", nullptr));
      return std::vector<int>{2, n_layers / 2, n_layers - 3};
    }
    const std::string wanted = "ascending numbers of layers, each 1 to " + std::to_string(n_layers);
    std::vector<int> out;
    if (list->as_array() == nullptr || list->as_array()->empty() || list->as_array()->size() > kMostTaps)
      return tl::make_unexpected(bad_head_key(key, wanted, list));
    for (const Json& item : *list->as_array()) {
      const int64_t* n = item.as_int();
      if (n == nullptr || *n <= (out.empty() ? 0 : out.back()) || *n > n_layers)
        return tl::make_unexpected(bad_head_key(key, wanted, list));
      out.push_back(static_cast<int>(*n));
    }
    return out;
  }

 private:
  // Nothing where the key has null.
  const Json* found(std::string_view key) const {
    const Json* value = json_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  const Json& json_;
};

Result<Config> read_config(const std::string& folder, const ModelInfo& model, EagleHead& out) {
  QR_TRY(const Json json, read_head_config(folder));
  const ConfigReader read(json);
  QR_TRY_VOID(read.check_plain(out.joins));
  Config c;
  QR_TRY(out.n_embd, read.count("hidden_size", 1, 1 << 20));
  if (out.n_embd != model.n_embd) {
    return fail(Code::invalid, std::string(kHeadConfig) + ": key \"hidden_size\": the head is for states of " +
                                   std::to_string(out.n_embd) + " numbers, the model has " +
                                   std::to_string(model.n_embd));
  }
  QR_TRY(out.n_ff, read.count("intermediate_size", 1, 1 << 20));
  QR_TRY(c.n_heads, read.count("num_attention_heads", 1, 1 << 10));
  QR_TRY(c.n_kv_heads, read.count("num_key_value_heads", 1, c.n_heads, c.n_heads));
  QR_TRY(c.head_dim, read.count("head_dim", 2, kMaxHeadDim, std::clamp(out.n_embd / c.n_heads, 2, kMaxHeadDim)));
  if (out.joins) {
    c.n_draft = model.n_vocab;
    out.taps = {model.n_layers};
  } else {
    QR_TRY(c.n_draft, read.count(kKind.key, 1, model.n_vocab));
    QR_TRY(out.taps, read.taps(model.n_layers));
  }
  if (c.n_heads % c.n_kv_heads != 0 || c.head_dim % 2 != 0) {
    return fail(Code::corrupt, std::string(kHeadConfig) + ": num_attention_heads " + std::to_string(c.n_heads) +
                                   ", num_key_value_heads " + std::to_string(c.n_kv_heads) + ", head_dim " +
                                   std::to_string(c.head_dim) +
                                   ": attention heads must be a multiple of key-value heads, head_dim must be even");
  }
  QR_TRY(const double eps, read.positive("rms_norm_eps", 1e-5));
  out.norm_eps = static_cast<float>(eps);
  QR_TRY(const double theta, read.positive("rope_theta", 10000.0));
  out.rope = plain_rope(c.head_dim, theta);
  return c;
}

// Keys and values in F16, as nobody's answer depends on them.
void claim(const Config& c, EagleHead& out) {
  const KvCodec* codec = find_kv_codec("f16");
  out.attn = AttnParams{.k_codec = codec,
                        .v_codec = codec,
                        .n_heads = c.n_heads,
                        .n_kv_heads = c.n_kv_heads,
                        .k_dim = c.head_dim,
                        .v_dim = c.head_dim,
                        .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim))};
  const HeadBytes bytes = head_bytes(out.attn);
  const KvClaim claim = out.kv_layout.claim(KvGroup{}, c.n_kv_heads * (bytes.k + bytes.v));
  out.attn.group = claim.group;
  out.attn.kv_offset = claim.offset;
}

// A head without "d2t" has all tokens.
Status read_tokens(TensorTaker& taker, int n_draft, const ModelInfo& model, std::vector<Token>& out) {
  if (taker.has("t2d")) QR_TRY_VOID(taker.stored("t2d", {model.n_vocab}, "BOOL"));
  if (taker.has("d2t")) {
    QR_TRY(const std::span<const std::byte> bytes, taker.stored("d2t", {n_draft}, "I64"));
    QR_TRY(out, tokens_of_offsets(bytes, model.n_vocab, "model"));
    return {};
  }
  if (n_draft != model.n_vocab) {
    return fail(Code::corrupt, "tensor \"d2t\": is missing, and the head has " + std::to_string(n_draft) + " of " +
                                   std::to_string(model.n_vocab) + " tokens");
  }
  out.resize(static_cast<size_t>(n_draft));
  std::iota(out.begin(), out.end(), 0);
  return {};
}

Status read_matrices(TensorTaker& taker, const Config& c, EagleHead& out) {
  const std::string layer = out.joins || taker.has("layers.0.hidden_norm.weight") ? "layers.0." : "midlayer.";
  const auto linear = [&](std::vector<Linear>& to, const std::string& name, int64_t n_out, int64_t n_in) -> Status {
    const std::string bias = name + ".bias";  // left where a head does not have one
    QR_TRY(to.emplace_back(), taker.linear(name + ".weight", out.joins && taker.has(bias) ? bias : "", n_out, n_in));
    return {};
  };
  const int64_t n = out.n_embd, n_q = int64_t{c.n_heads} * c.head_dim, n_kv = int64_t{c.n_kv_heads} * c.head_dim;
  const int64_t n_read = out.joins ? n : 2 * n;
  QR_TRY_VOID(linear(out.fc, "fc", n, (out.joins ? 2 : std::ssize(out.taps)) * n));
  QR_TRY_VOID(linear(out.qkv, layer + "self_attn.q_proj", n_q, n_read));
  QR_TRY_VOID(linear(out.qkv, layer + "self_attn.k_proj", n_kv, n_read));
  QR_TRY_VOID(linear(out.qkv, layer + "self_attn.v_proj", n_kv, n_read));
  QR_TRY_VOID(linear(out.attn_out, layer + "self_attn.o_proj", n, n_q));
  QR_TRY_VOID(linear(out.gate_up, layer + "mlp.gate_proj", out.n_ff, n));
  QR_TRY_VOID(linear(out.gate_up, layer + "mlp.up_proj", out.n_ff, n));
  QR_TRY_VOID(linear(out.down, layer + "mlp.down_proj", n, out.n_ff));
  QR_TRY(out.ffn_norm, taker.vector(layer + "post_attention_layernorm.weight", n));
  if (!out.joins || taker.has("lm_head.weight")) QR_TRY_VOID(linear(out.out, "lm_head", c.n_draft, n));
  if (out.joins) return {};
  QR_TRY(out.token_norm, taker.vector(layer + "input_layernorm.weight", n));
  QR_TRY(out.state_norm, taker.vector(layer + "hidden_norm.weight", n));
  QR_TRY(out.out_norm, taker.vector("norm.weight", n));
  return {};
}

Status read_weights(const TensorFile& file, const Config& c, const EagleTarget& target, Ops& ops, EagleHead& out) {
  const ModelInfo& model = target.info;
  TensorTaker taker(file, ops, target.how != nullptr ? target.how->weights : nullptr);
  if (out.joins) {
    out.tokens.resize(static_cast<size_t>(c.n_draft));
    std::iota(out.tokens.begin(), out.tokens.end(), 0);
  } else {
    QR_TRY_VOID(read_tokens(taker, c.n_draft, model, out.tokens));
  }
  QR_TRY_VOID(read_matrices(taker, c, out));
  if (taker.has("embed_tokens.weight")) {
    QR_TRY(out.embedding, taker.linear("embed_tokens.weight", "", model.n_vocab, out.n_embd));
  }
  QR_TRY_VOID(taker.check_all_taken(out.joins ? "an EAGLE head" : "an EAGLE-3 head"));
  out.weight_bytes = taker.bytes();
  return file.map->check_unchanged();
}

// What a head that joins takes of its model: the last norm, and the product where it has none of its own.
Status read_ends(const EagleTarget& model, Ops& ops, EagleHead& out) {
  if (model.file == nullptr || model.how == nullptr)
    return fail(Code::invalid, "an EAGLE head needs the file of the model that it is for");
  QR_TRY(const ModelFile file, neutral_form(*model.file));
  LoadOptions how = *model.how;
  how.shift = {};
  how.hash_folder.clear();
  QR_TRY(const DecoderConfig config, read_decoder_config(file, how));
  if (config.norm != NormKind::rms || file.find("output_norm.weight") == nullptr) {
    return fail(Code::unsupported, "an EAGLE head reads states behind an RMS norm with weights, and a " +
                                       model.info.arch + " model has another one");
  }
  const std::string product = file.find("output.weight") != nullptr ? "output" : "token_embd";
  const HostWeight* stored = file.find(product + ".weight");
  if (stored != nullptr && how.weights != nullptr &&
      fitting_format(*stored, *how.weights)->row_bytes(stored->n_cols()) >= stored->row_bytes())
    how.weights = nullptr;
  WeightLoader load(file, ops, how);
  load.vector(out.model_norm, "output_norm.weight", out.n_embd);
  out.model_norm_eps = config.norm_eps;
  out.weight_bytes += out.n_embd * int64_t{sizeof(float)};
  if (out.out.empty()) {
    load.linear(out.out, product, model.info.n_vocab, out.n_embd);
    QR_TRY_VOID(load.status());
    const Linear& loaded = out.out.back();
    out.weight_bytes += loaded.n_out * loaded.format->row_bytes(loaded.n_in);
  }
  return load.status();
}

// Of the first form, or what may be one: its config.json is that of a model of one layer.
bool is_joining_folder(const std::string& folder) {
  if (!is_head_folder(folder, {kLayers, "", ""})) return false;
  const auto config = read_head_config(folder);
  if (!config || config->find(kKind.key) != nullptr || !head_count(kLayers, config->find(kLayers), 1, 1)) return false;
  const auto file = open_head_weights(folder, kKind);
  if (!file) return has_only_pickle(folder, kKind);
  return std::ranges::find(file->tensors, "fc.weight", &SafeTensor::name) != file->tensors.end();
}

}  // namespace

bool is_eagle_folder(const std::string& folder) { return is_head_folder(folder, kKind) || is_joining_folder(folder); }

Result<std::vector<Token>> tokens_of_offsets(std::span<const std::byte> d2t, int n_vocab, std::string_view whose) {
  std::vector<int64_t> offsets(d2t.size() / sizeof(int64_t));
  std::memcpy(offsets.data(), d2t.data(), offsets.size() * sizeof(int64_t));
  std::vector<Token> out;
  out.reserve(offsets.size());
  for (int64_t i = 0; i < std::ssize(offsets); ++i) {
    const int64_t offset = offsets[static_cast<size_t>(i)];
    if (offset < -i || offset >= n_vocab - i) {
      return fail(Code::corrupt, "tensor \"d2t\": output " + std::to_string(i) + " has the offset " +
                                     std::to_string(offset) + ", and the " + std::string(whose) + " has tokens 0 to " +
                                     std::to_string(n_vocab - 1));
    }
    out.push_back(static_cast<Token>(i + offset));
  }
  return out;
}

Result<int64_t> eagle_bytes(const std::string& folder) { return head_weight_bytes(folder, kKind); }

Result<std::unique_ptr<EagleHead>> load_eagle(const std::string& folder, const EagleTarget& model, Ops& ops) {
  auto out = std::make_unique<EagleHead>();
  const Status done = [&]() -> Status {
    out->joins = is_joining_folder(folder);
    QR_TRY(const Config config, read_config(folder, model.info, *out));
    claim(config, *out);
    QR_TRY(const TensorFile file, open_head_weights(folder, kKind));
    if (auto read = read_weights(file, config, model, ops, *out); !read)
      return error_within(kKind.weights, std::move(read).error());
    return out->joins ? read_ends(model, ops, *out) : Status();
  }();
  if (!done) return error_within(folder, done.error());
  return out;
}

}  // namespace quire
