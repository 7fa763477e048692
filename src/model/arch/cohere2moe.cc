// Command A with experts: Command's parallel parts and windows; experts whose shares are softmaxes of the chosen or
// sigmoids, shared ones with which they are added or averaged, dense first layers, which may turn without a window.
#include <algorithm>

#include "model/arch/cohere.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;             // of local and global layers
constexpr int64_t kSigmoids = 2;       // GGUF's number
constexpr int64_t kMostPeriod = 4096;  // of layers
// Of what a layer's experts and shared ones find together. GGUF has no word for it.
constexpr const char* kMixtureScale = "expert_mixture_scale";

class Cohere2Moe final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(configure_cohere(file, prefix, c));
    if (file.meta.find(prefix + "attention.layer_norm_rms_epsilon") != nullptr) c.norm = NormKind::rms;
    QR_TRY(const double mixture, file.meta.get_double_or(prefix + kMixtureScale, 1e-6, 1e6, 1.0));
    c.mixture_scale = static_cast<float>(mixture);
    QR_TRY_VOID(read_windows(file, kPeriod, c));
    if (file.meta.find(prefix + kTurns) != nullptr) return read_turns(file, prefix, 0, c);
    c.is_still = c.is_local;
    c.is_still.flip();
    return {};
  }
};

// How many of the first layers are dense, where the folder lists the kinds of layers or counts those.
Result<int64_t> count_dense(const HfFacts& hf, int64_t n_layers) {
  const MetaValue* kinds = hf.find("mlp_layer_types");
  if (kinds == nullptr) return hf.get_int_or("first_k_dense_replace", 0, n_layers, 0);
  const auto* list = std::get_if<std::vector<std::string>>(kinds);
  if (list == nullptr || list->size() != static_cast<size_t>(n_layers)) {
    return fail(Code::corrupt,
                "key \"mlp_layer_types\": must be a list of " + std::to_string(n_layers) + " kinds of layers");
  }
  const auto first = std::ranges::find(*list, "sparse");
  const int64_t n_dense = first - list->begin();
  if (std::find(first, list->end(), "dense") == list->end()) return n_dense;
  return fail(Code::unsupported, "key \"mlp_layer_types\": dense layers must stand before all others");
}

// Which layers see a window, and which turn: those, and dense ones where they have a pattern of their own.
Status layer_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t n_dense, count_dense(hf, n_layers));
  QR_TRY(const int64_t of_dense, hf.get_int_or("prefix_dense_sliding_window_pattern", 1, kMostPeriod, 1));
  QR_TRY(const int64_t of_rest, hf.get_int_or("sliding_window_pattern", 1, kMostPeriod, kPeriod));
  std::vector<int64_t> local;
  const MetaValue* kinds = hf.find("layer_types");
  const auto* list = kinds != nullptr ? std::get_if<std::vector<std::string>>(kinds) : nullptr;
  if (list != nullptr && list->size() != static_cast<size_t>(n_layers)) {
    return fail(Code::corrupt, "key \"layer_types\": must have " + std::to_string(n_layers) + " entries, has " +
                                   std::to_string(list->size()));
  }
  for (int64_t l = 0; l < n_layers; ++l) {
    const bool by_period = l < n_dense ? (l + 1) % of_dense != 0 : (l - n_dense + 1) % of_rest != 0;
    const bool is_local = list != nullptr ? (*list)[static_cast<size_t>(l)] == "sliding_attention" : by_period;
    local.push_back(is_local ? 1 : 0);
  }
  std::vector<int64_t> turns = local;
  if (of_dense == 1) std::fill_n(turns.begin(), n_dense, 1);
  if (list == nullptr) hf.set("attention.sliding_window_pattern", std::move(local), "sliding_window_pattern");
  hf.set(kTurns, std::move(turns), "layer_types");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(cohere_facts(hf));
  QR_TRY_VOID(hf.require("expert_selection_fn", {"softmax", "sigmoid"}));
  QR_TRY_VOID(hf.require("shared_expert_combination_strategy", {"average", "sum"}));
  hf.copy({"prefix_dense_intermediate_size"}, "feed_forward_length");
  hf.copy({"intermediate_size"}, "expert_feed_forward_length");
  QR_TRY(const int64_t n_shared, hf.get_int_or("num_shared_experts", 0, 1 << 10, 0));
  hf.set("expert_shared_count", n_shared, "num_shared_experts");
  const MetaValue* together = hf.find("shared_expert_combination_strategy");
  const bool is_sum = together != nullptr && *together == MetaValue(std::string("sum"));
  if (n_shared > 0 && !is_sum) hf.set(kMixtureScale, 0.5, "shared_expert_combination_strategy");
  const MetaValue* selection = hf.find("expert_selection_fn");
  const bool sigmoids = selection != nullptr && *selection == MetaValue(std::string("sigmoid"));
  if (sigmoids) hf.set("expert_gating_func", kSigmoids, "expert_selection_fn");
  if (!sigmoids) hf.set("expert_weights_norm", true, "expert_selection_fn");
  return layer_facts(hf);
}

QR_REGISTER(ArchEntry,
            "cohere2moe",
            ArchEntry{.summary = "Command A with experts: parallel parts, windows, shared experts",
                      .no_gguf = "unknown to gguf 0.19.0; files that say this name open",
                      .hf = {.model_types = {"cohere2_moe"}, .facts = facts},
                      .load = &load_decoder<Cohere2Moe>,
                      .info = &decoder_info<Cohere2Moe>});

}  // namespace
}  // namespace quire
