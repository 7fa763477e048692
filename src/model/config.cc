#include "model/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/bounded_reader.h"
#include "model/latent.h"
#include "model/weight_loader.h"
#include "quant/kv_codec.h"

namespace quire {
namespace {

// The error of a part of heads that cannot turn, under the key that gives its width.
std::string turning_part(const Metadata& meta, const std::string& prefix, const DecoderConfig& c) {
  const auto key = [&](const char* name) { return meta.shown(prefix + name); };
  const auto is_there = [&](const char* name) { return meta.find(prefix + name) != nullptr; };
  const std::string is = ", is " + std::to_string(c.n_rope);
  if (is_there("rope.dimension_count")) {
    return "key " + key("rope.dimension_count") + ": must be even, at least 2 and at most " +
           std::to_string(c.head_dim) + is;
  }
  if (is_there("attention.key_length")) return "key " + key("attention.key_length") + ": must be even, at least 2" + is;
  return "key " + key("embedding_length") + ": " + std::to_string(c.n_embd) + " by " + key("attention.head_count") +
         ", which is " + std::to_string(c.n_heads) + ", makes heads of " + std::to_string(c.n_rope) +
         " numbers: must be even, at least 2";
}

Status check_heads(const ModelFile& file, const std::string& prefix, const DecoderConfig& c) {
  const auto key = [&](const char* name) { return file.meta.shown(prefix + name); };
  const std::string n_heads = "key " + key("attention.head_count") + ": " + std::to_string(c.n_heads);
  if (c.n_heads % c.n_kv_heads != 0) {
    return fail(Code::corrupt, n_heads + " is no multiple of " + key("attention.head_count_kv") + ", which is " +
                                   std::to_string(c.n_kv_heads));
  }
  if (c.head_dim < 1) {
    return fail(Code::corrupt,
                n_heads + " is more than " + key("embedding_length") + ", which is " + std::to_string(c.n_embd));
  }
  if (c.n_rope < 2 || c.n_rope % 2 != 0 || c.n_rope > c.head_dim) {
    return fail(Code::corrupt, turning_part(file.meta, prefix, c));
  }
  const HeadSizes& local = c.local;
  if (local.n_kv == 0 || (c.n_heads % local.n_kv == 0 && local.n_rope % 2 == 0 && local.n_rope <= local.k_dim)) {
    return {};
  }
  return fail(Code::corrupt,
              "key " + key("attention.key_length_swa") + ": layers with a window have " + std::to_string(local.n_kv) +
                  " heads of " + std::to_string(local.k_dim) + " numbers, of which " + std::to_string(local.n_rope) +
                  " turn; these must be even, and " + std::to_string(c.n_heads) + " a multiple of those");
}

// Whether layers with a window, which the file lists, have one number and the others another. Both are read then.
Result<bool> read_kinds_of_heads(const Metadata& meta,
                                 const std::string& prefix,
                                 const std::vector<int64_t>& heads,
                                 DecoderConfig& c) {
  QR_TRY(const std::vector<int64_t> is_local, by_layer(meta, prefix + "attention.sliding_window_pattern", c));
  int64_t global = 0, local = 0;
  for (size_t l = 0; l < is_local.size(); ++l) {
    int64_t& of_kind = is_local[l] != 0 ? local : global;
    if (heads[l] < 1 || heads[l] > c.n_heads || (of_kind != 0 && of_kind != heads[l])) return false;
    of_kind = heads[l];
  }
  if (global == 0 || local == 0) return false;
  c.n_kv_heads = static_cast<int>(global);
  c.local.n_kv = static_cast<int>(local);
  return true;
}

// One number of all layers, or one a layer: of those that keep a state in place of attention it is 0. A folder has
// "attention.recurrent_layers" instead.
Status read_kv_heads(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  const std::string key = prefix + "attention.head_count_kv";
  QR_TRY(const std::vector<int64_t> heads, by_layer(meta, key, c));
  QR_TRY(const std::vector<int64_t> kinds, by_layer(meta, prefix + "attention.recurrent_layers", c));
  if (heads.empty()) {
    QR_TRY(const int64_t n_kv_heads, meta.get_int_or(key, 1, c.n_heads, c.n_heads));
    c.n_kv_heads = static_cast<int>(n_kv_heads);
    for (const int64_t kind : kinds) c.is_state.push_back(kind != 0);
  } else {
    QR_TRY(const bool of_kinds, read_kinds_of_heads(meta, prefix, heads, c));
    if (of_kinds) return {};
    const int64_t most = *std::max_element(heads.begin(), heads.end());
    for (const int64_t n : heads) {
      if (n == most ? n >= 0 && n <= c.n_heads : n == 0) continue;
      return fail(Code::unsupported, "key " + meta.shown(key) + ": must be 0 or one number of 1 to " +
                                         std::to_string(c.n_heads) + " for each layer, has " + std::to_string(n));
    }
    c.n_kv_heads = most == 0 ? c.n_heads : static_cast<int>(most);
    for (const int64_t n : heads) c.is_state.push_back(n == 0);
  }
  if (std::find(c.is_state.begin(), c.is_state.end(), true) == c.is_state.end()) c.is_state.clear();
  return {};
}

Status read_norms(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  const std::string rms = prefix + "attention.layer_norm_rms_epsilon";
  QR_TRY(const double eps, meta.get_double_or(meta.find(rms) != nullptr ? rms : prefix + "attention.layer_norm_epsilon",
                                              1e-12, 1.0, 1e-5));
  c.norm_eps = static_cast<float>(eps);
  return {};
}

// Sizes of values, and of heads in layers with a window: those of keys and of other layers unless the file says so.
Status read_value_sizes(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  const auto read = [&](const char* key, int usual, int& out) -> Status {
    QR_TRY(const int64_t value, meta.get_int_or(prefix + key, 1, kMaxHeadDim, usual));
    out = static_cast<int>(value);
    return {};
  };
  QR_TRY_VOID(read("attention.value_length", c.head_dim, c.v_dim));
  HeadSizes& local = c.local;
  if (local.n_kv == 0) local.n_kv = c.n_kv_heads;
  QR_TRY_VOID(read("attention.key_length_swa", c.head_dim, local.k_dim));
  QR_TRY_VOID(read("attention.value_length_swa", c.v_dim, local.v_dim));
  QR_TRY_VOID(read("rope.dimension_count_swa", c.n_rope, local.n_rope));
  const bool is_same =
      local.n_kv == c.n_kv_heads && local.k_dim == c.head_dim && local.v_dim == c.v_dim && local.n_rope == c.n_rope;
  if (is_same) local = {};
  return {};
}

Status read_attention(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  QR_TRY_VOID(read_kv_heads(meta, prefix, c));
  const int natural = c.n_embd / c.n_heads;
  QR_TRY(const int64_t head_dim, meta.get_int_or(prefix + "attention.key_length", 1, kMaxHeadDim, natural));
  c.head_dim = static_cast<int>(head_dim);
  QR_TRY(const int64_t n_rope, meta.get_int_or(prefix + "rope.dimension_count", 1, kMaxHeadDim, c.head_dim));
  c.n_rope = static_cast<int>(n_rope);
  c.v_dim = c.head_dim;
  if (meta.find(prefix + "attention.kv_lora_rank") == nullptr) QR_TRY_VOID(read_value_sizes(meta, prefix, c));
  const double scale = 1.0F / std::sqrt(static_cast<float>(std::max(c.head_dim, 1)));
  QR_TRY(const double attn_scale, meta.get_double_or(prefix + "attention.scale", 1e-6, 1e6, scale));
  c.attn_scale = static_cast<float>(attn_scale);
  QR_TRY(const int64_t window, meta.get_int_or(prefix + "attention.sliding_window", 0, int64_t{1} << 30, 0));
  c.window = static_cast<int>(window);
  return {};
}

Status read_positions(const ModelFile& file, const std::string& prefix, const LoadOptions& options, DecoderConfig& c) {
  const Metadata& meta = file.meta;
  QR_TRY(c.rope_theta, meta.get_double_or(prefix + "rope.freq_base", 1.0, 1e12, 10000.0));
  QR_TRY(const std::string scaling, rope_kind(file, prefix));
  if (scaling == "yarn" || scaling == "dynamic") {  // these stretch the context that the file names
    const std::string own = prefix + "rope.scaling." + std::string(kDynamicFactor);
    const std::string key = meta.find(own) != nullptr ? own : prefix + "rope.scaling.factor";
    QR_TRY(const double factor, meta.get_double(key, 1e-3, 1e6));
    QR_TRY(const int64_t original,
           meta.get_int_or(prefix + "rope.scaling.original_context_length", 1, int64_t{1} << 28, c.n_ctx));
    const double stretched = std::min(static_cast<double>(original) * factor, 0x1p28);
    c.n_ctx = std::max(c.n_ctx, static_cast<int>(stretched));
  }
  const int served = options.shift.is_on() ? options.shift.n_positions() : options.n_ctx;
  const int n_ctx = served > 0 ? served : c.n_ctx;
  QR_TRY(c.rope, read_rope(file, RopeQuery{prefix, c.n_rope, c.rope_theta, n_ctx, c.n_ctx}));
  c.rope_local = c.rope;
  return {};
}

// Of feed-forward parts: one number of all layers, or one a layer, 0 where a layer has none. A model all of whose
// layers have experts may say their width alone.
Status read_widths(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  constexpr int64_t kMost = 1 << 22;
  const std::string key = prefix + "feed_forward_length", of_experts = prefix + "expert_feed_forward_length";
  QR_TRY(std::vector<int64_t> widths, by_layer(meta, key, c));
  if (widths.empty()) {
    const bool is_said = meta.find(key) != nullptr || meta.find(of_experts) == nullptr;
    QR_TRY(const int64_t width, meta.get_int(is_said ? key : of_experts, 1, kMost));
    c.n_ff = static_cast<int>(width);
    return {};
  }
  const auto [least, most] = std::ranges::minmax(widths);
  if (least < 0 || most < 1 || most > kMost) {
    return fail(Code::corrupt, "key " + meta.shown(key) + ": must hold numbers of 0 to " + std::to_string(kMost) +
                                   ", and some above 0, has " + std::to_string(least < 0 ? least : most));
  }
  c.n_ff = static_cast<int>(most);
  if (least == 0) {
    for (const int64_t n : widths) c.has_unit.push_back(n > 0);
  }
  if (std::ranges::any_of(widths, [most](int64_t n) { return n != 0 && n != most; })) c.n_ff_of = std::move(widths);
  return {};
}

// What layers have that keep a state and no heads.
enum class WithoutHeads : uint8_t { no_such, nothing_else, feed_forward };

WithoutHeads without_heads(const Metadata& meta, const std::string& prefix) {
  const auto is_none = [&](const char* name) {
    const MetaValue* value = meta.find(prefix + name);
    return value != nullptr && (*value == MetaValue(int64_t{0}) || *value == MetaValue(uint64_t{0}));
  };
  if (!is_none("attention.head_count")) return WithoutHeads::no_such;
  if (is_none("feed_forward_length")) return WithoutHeads::nothing_else;
  return meta.find(prefix + "wkv.head_size") != nullptr ? WithoutHeads::feed_forward : WithoutHeads::no_such;
}

Status read_sizes(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  const auto read = [&](std::string_view key, int64_t lo, int64_t hi, int& out) -> Status {
    QR_TRY(const int64_t value, meta.get_int(prefix + std::string(key), lo, hi));
    out = static_cast<int>(value);
    return {};
  };
  QR_TRY_VOID(read("block_count", 1, 4096, c.n_layers));
  QR_TRY_VOID(read("embedding_length", 1, 1 << 20, c.n_embd));
  QR_TRY_VOID(read("context_length", 1, 1 << 28, c.n_ctx));
  const WithoutHeads kind = without_heads(meta, prefix);
  const auto n = static_cast<size_t>(c.n_layers);
  if (kind != WithoutHeads::no_such) c.is_state.assign(n, true);
  if (kind == WithoutHeads::nothing_else) {
    c.has_unit.assign(n, false);
    return {};
  }
  QR_TRY_VOID(read_widths(meta, prefix, c));
  if (kind == WithoutHeads::feed_forward) return {};
  return read("attention.head_count", 1, 4096, c.n_heads);
}

// GGUF's numbers: 1 softmax, 2 sigmoid, 3 a softmax of the chosen.
Status read_scoring(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  const std::string key = prefix + "expert_gating_func";
  QR_TRY(const int64_t kind, meta.get_int_or(key, 0, 1000, 0));
  if (kind > 3) {
    return fail(Code::unsupported,
                "key " + meta.shown(key) + ": " + std::to_string(kind) + " is not supported; known: 1 2 3");
  }
  if (kind == 2) c.routing.scoring = Routing::Scoring::sigmoid;
  if (kind == 3) c.routing.normalised = true;
  QR_TRY(const int64_t n_shared, meta.get_int_or(prefix + "expert_shared_count", 0, 1 << 10, 0));
  QR_TRY(const int64_t shared,
         meta.get_int_or(prefix + "expert_shared_feed_forward_length", 0, 1 << 22, n_shared * c.n_ff_expert));
  if (shared > 1 << 22) {
    return fail(Code::corrupt, "key " + meta.shown(prefix + "expert_shared_count") + ": must be at most " +
                                   std::to_string((1 << 22) / c.n_ff_expert) + ", is " + std::to_string(n_shared));
  }
  c.n_ff_shared = static_cast<int>(shared);
  return {};
}

Status read_expert_groups(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  const std::string key = prefix + "expert_group_count";
  QR_TRY(int64_t n_expert_groups, meta.get_int_or(key, 0, c.n_experts, 1));
  n_expert_groups = std::max<int64_t>(n_expert_groups, 1);  // 0: not set
  if (c.n_experts % n_expert_groups != 0) {
    return fail(Code::corrupt, "key " + meta.shown(key) + ": must divide the " + std::to_string(c.n_experts) +
                                   " experts, is " + std::to_string(n_expert_groups));
  }
  QR_TRY(const int64_t used, meta.get_int_or(prefix + "expert_group_used_count", 0, n_expert_groups, n_expert_groups));
  c.routing.n_expert_groups = static_cast<int>(n_expert_groups);
  c.routing.n_expert_groups_used = used == 0 ? c.routing.n_expert_groups : static_cast<int>(used);
  const int64_t most = c.n_experts / n_expert_groups * c.routing.n_expert_groups_used;
  if (c.routing.n_used <= most) return {};
  return fail(Code::corrupt, "key " + meta.shown(prefix + "expert_used_count") + ": must be at most the " +
                                 std::to_string(most) + " experts of the groups used, is " +
                                 std::to_string(c.routing.n_used));
}

Status read_experts(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
  QR_TRY(const int64_t n_experts, meta.get_int_or(prefix + "expert_count", 0, 1 << 16, 0));
  if (n_experts == 0) return {};
  QR_TRY(const int64_t n_used, meta.get_int(prefix + "expert_used_count", 1, n_experts));
  QR_TRY(const int64_t n_ff, meta.get_int_or(prefix + "expert_feed_forward_length", 1, 1 << 22, c.n_ff));
  QR_TRY(c.routing.normalised, meta.get_bool_or(prefix + "expert_weights_norm", true));
  QR_TRY(const double scale, meta.get_double_or(prefix + "expert_weights_scale", 0.0, 1e6, 1.0));
  c.n_experts = static_cast<int>(n_experts);
  c.routing.n_used = static_cast<int>(n_used);
  c.n_ff_expert = static_cast<int>(n_ff);
  c.routing.scale = scale == 0.0 ? 1.0F : static_cast<float>(scale);  // 0: not set
  QR_TRY_VOID(read_scoring(meta, prefix, c));
  return read_expert_groups(meta, prefix, c);
}

Status read_all(const ModelFile& file, const LoadOptions& options, DecoderConfig& c) {
  QR_TRY(const std::string arch, file.meta.get_string("general.architecture"));
  const std::string prefix = arch + ".";
  QR_TRY_VOID(read_sizes(file.meta, prefix, c));
  QR_TRY_VOID(read_norms(file.meta, prefix, c));
  if (c.n_heads > 0) {
    QR_TRY_VOID(read_attention(file.meta, prefix, c));
    QR_TRY_VOID(read_latent(file, prefix, c));
    QR_TRY_VOID(check_heads(file, prefix, c));
  }
  QR_TRY_VOID(read_experts(file.meta, prefix, c));
  QR_TRY_VOID(read_positions(file, prefix, options, c));
  QR_TRY_VOID(read_windows(file, 1, c));
  const HostWeight* embedding = file.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return fail(Code::corrupt, "tensor " + file.shown("token_embd.weight") + " [n_vocab, n_embd] is missing");
  }
  if (embedding->shape[0] > 1 << 24) {
    return fail(Code::unsupported,
                "vocabulary of " + std::to_string(embedding->shape[0]) + " tokens, at most " + std::to_string(1 << 24));
  }
  c.n_vocab = static_cast<int>(embedding->shape[0]);
  return {};
}

}  // namespace

Result<DecoderConfig> read_decoder_config(const ModelFile& file, const LoadOptions& options) {
  DecoderConfig c;
  auto done = read_all(file, options, c);
  if (!done) return error_within(file.path, std::move(done).error());
  return c;
}

Result<std::vector<int64_t>> by_layer(const Metadata& meta, const std::string& key, const DecoderConfig& c) {
  const MetaValue* value = meta.find(key);
  const auto* list = value != nullptr ? std::get_if<std::vector<int64_t>>(value) : nullptr;
  if (list == nullptr) return std::vector<int64_t>();
  if (list->size() == static_cast<size_t>(c.n_layers)) return *list;
  return fail(Code::corrupt, "key " + meta.shown(key) + ": must have " + std::to_string(c.n_layers) + " entries, has " +
                                 std::to_string(list->size()));
}

Status read_windows(const ModelFile& file, int period, DecoderConfig& c) {
  c.is_local.clear();
  if (c.window == 0) return {};
  const std::string arch = file.meta.get_string_or("general.architecture", "").value_or("");
  const std::string key = arch + ".attention.sliding_window_pattern";
  const MetaValue* pattern = file.meta.find(key);
  const auto* list = pattern != nullptr ? std::get_if<std::vector<int64_t>>(pattern) : nullptr;
  if (list == nullptr) {
    QR_TRY(const int64_t every, file.meta.get_int_or(key, 1, 4096, period));
    period = static_cast<int>(every);
  } else if (list->size() != static_cast<size_t>(c.n_layers)) {
    return fail(Code::corrupt, "key " + file.meta.shown(key) + ": must have " + std::to_string(c.n_layers) +
                                   " entries, has " + std::to_string(list->size()));
  }
  for (int l = 0; l < c.n_layers; ++l) {
    const bool by_period = period == 1 || l % period < period - 1;
    c.is_local.push_back(list != nullptr ? (*list)[static_cast<size_t>(l)] != 0 : by_period);
  }
  return {};
}

Status read_turns(const ModelFile& file, const std::string& prefix, int period, DecoderConfig& c) {
  const std::string key = prefix + kTurns;
  QR_TRY(const std::vector<int64_t> turns, by_layer(file.meta, key, c));
  if (turns.empty() && file.meta.find(key) != nullptr) {
    return fail(Code::corrupt, "key " + file.meta.shown(key) + ": must be a list of numbers");
  }
  c.is_still.clear();
  for (int l = 0; l < c.n_layers; ++l) {
    const bool by_period = period > 0 && l % period == period - 1;
    c.is_still.push_back(turns.empty() ? by_period : turns[static_cast<size_t>(l)] == 0);
  }
  return {};
}

std::optional<double> single_number(const HostWeight& weight) {
  if (weight.format->block != 1 || weight.data.size() != static_cast<size_t>(weight.format->bytes)) return {};
  float value = 0;
  weight.format->decode(weight.data.data(), &value);
  return static_cast<double>(value);
}

Status read_pairs(const ModelFile& file, const std::string& prefix, DecoderConfig& c) {
  QR_TRY(const bool halves, file.meta.get_bool_or(prefix + "rope.halves", false));
  c.rope_pairs = halves ? RopePairs::halves : RopePairs::interleaved;
  return {};
}

Status leave_out_nextn(const ModelFile& file, const std::string& prefix, DecoderConfig& c) {
  QR_TRY(const int64_t n_ahead, file.meta.get_int_or(prefix + "nextn_predict_layers", 0, c.n_layers - 1, 0));
  c.n_layers -= static_cast<int>(n_ahead);
  return {};
}

bool is_of_experts(std::string_view name) {
  if (name.find("_exps.") != std::string_view::npos) return true;
  for (const std::string_view part : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {
    const size_t at = name.find(part);
    if (at != std::string_view::npos) return name.substr(at + part.size()).find('.') != std::string_view::npos;
  }
  return false;
}

// Whether a tensor is of a layer behind the n that there are: of one that guesses ahead.
static bool is_behind(std::string_view name, int n) {
  int64_t layer = 0;
  return name.starts_with("blk.") &&
         std::from_chars(name.data() + 4, name.data() + name.size(), layer).ec == std::errc() && layer >= n;
}

ModelInfo make_model_info(const ModelFile& file, const DecoderConfig& c, const LoadOptions& options) {
  ModelInfo info;
  info.arch = file.meta.get_string("general.architecture").value_or("");
  info.name = file.meta.get_string("general.name").value_or("");
  info.n_layers = c.n_layers;
  info.n_vocab = c.n_vocab;
  info.n_embd = c.n_embd;
  info.n_ctx = options.shift.is_on() ? std::max(c.n_ctx, kStreamTokens) : c.n_ctx;
  info.shift = options.shift;
  info.n_heads = c.n_heads;
  info.n_kv_heads = c.n_kv_heads;
  info.head_dim = c.head_dim;
  info.rope_pairs = c.rope_pairs;
  info.n_rope = c.n_rope;
  info.n_state_layers = static_cast<int>(std::count(c.is_state.begin(), c.is_state.end(), true));
  info.n_attention_layers = c.attends.empty() ? c.n_layers - info.n_state_layers
                                              : static_cast<int>(std::count(c.attends.begin(), c.attends.end(), true));
  info.scales_embedding = c.embed_scale != 1.0F || c.n_positions > 0 || c.has_embed_norm;
  for (const HostWeight& w : file.tensors) {
    if (is_behind(w.name, c.n_layers)) continue;
    const int64_t n = w.n_rows() * w.n_cols();
    const WeightFormat& format = loaded_format(w, options);
    const int64_t bytes = format.row_bytes(n);
    info.n_params += n;
    info.weight_bytes += bytes;
    // An embedding that is not also the head is read a row at a time.
    if (w.name == "per_layer_token_embd.weight") continue;
    if (w.name == "token_embd.weight" && file.find("output.weight") != nullptr) continue;
    // Of experts a row's are read, of many rows' more.
    const bool few = c.n_experts > 0 && is_of_experts(w.name);
    const int64_t used = few ? n / c.n_experts * c.routing.n_used : n;
    info.step_params += used;
    if (!format.integer) info.step_floats += used;
    if (format.rounded) info.step_bf16 += used;
    info.step_bytes += few ? bytes / c.n_experts * c.routing.n_used : bytes;
  }
  return info;
}

}  // namespace quire
