// Falcon-H1: every layer has attention and Mamba-2 side by side, of the same rows, and a unit behind them. Folders have
// factors within all parts, which GGUF has in its matrices.
#include <map>

#include "model/arch/mamba2.h"

namespace quire {
namespace {

class FalconH1 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    const auto n = static_cast<size_t>(c.n_layers);
    c.is_state.assign(n, true);
    c.attends.assign(n, true);
    QR_TRY_VOID(read_state_config(file, prefix, c));
    c.state.has_norm = file.find("blk.0.ssm_norm.weight") != nullptr;
    return read_factors(file.meta, prefix, c);
  }

 private:
  static Status read_factors(const Metadata& meta, const std::string& prefix, DecoderConfig& c) {
    float input = 1, key = 1;
    StateScales& state = c.state.scales;
    float state_input = 1;
    const std::pair<const char*, float*> factors[] = {{"embedding", &c.embed_scale},
                                                      {"logit", &c.logit_scale},
                                                      {"attention_in", &input},
                                                      {"key", &key},
                                                      {"attention_out", &c.scales.attention},
                                                      {"gate", &c.scales.gate},
                                                      {"down", &c.scales.unit},
                                                      {"ssm_in", &state_input},
                                                      {"ssm_gate", &state.gate},
                                                      {"ssm_x", &state.x},
                                                      {"ssm_b", &state.b},
                                                      {"ssm_c", &state.c},
                                                      {"ssm_steps", &state.steps},
                                                      {"ssm_out", &state.found}};
    for (const auto& [name, out] : factors) {
      QR_TRY(const double factor, meta.get_double_or(prefix + "factor." + name, -1e6, 1e6, 1.0));
      *out = static_cast<float>(factor);
    }
    c.attn_scale *= input * input * key;  // of a query, and of a key
    c.scales.attention *= input;          // of values
    for (float* by : {&state.gate, &state.x, &state.b, &state.c, &state.steps}) *by *= state_input;
    return {};
  }
};

// A list of as many numbers as names, each a fact of its own; absent: none.
Status list_facts(HfFacts& hf, std::string_view key, std::initializer_list<std::string_view> names) {
  const MetaValue* value = hf.find(key);
  if (value == nullptr) return {};
  std::vector<double> numbers;
  if (const auto* list = std::get_if<std::vector<double>>(value)) numbers = *list;
  if (const auto* list = std::get_if<std::vector<int64_t>>(value)) numbers.assign(list->begin(), list->end());
  if (numbers.size() != names.size()) {
    return fail(Code::corrupt,
                "key \"" + std::string(key) + "\": must have " + std::to_string(names.size()) + " numbers");
  }
  size_t i = 0;
  for (const std::string_view name : names) hf.set("factor." + std::string(name), numbers[i++], key);
  return {};
}

Status factor_facts(HfFacts& hf) {
  hf.copy({"embedding_multiplier"}, "factor.embedding");
  hf.copy({"lm_head_multiplier"}, "factor.logit");
  hf.copy({"attention_in_multiplier"}, "factor.attention_in");
  hf.copy({"attention_out_multiplier"}, "factor.attention_out");
  hf.copy({"key_multiplier"}, "factor.key");
  hf.copy({"ssm_in_multiplier"}, "factor.ssm_in");
  hf.copy({"ssm_out_multiplier"}, "factor.ssm_out");
  QR_TRY_VOID(list_facts(hf, "mlp_multipliers", {"gate", "down"}));
  return list_facts(hf, "ssm_multipliers", {"ssm_gate", "ssm_x", "ssm_b", "ssm_c", "ssm_steps"});
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  for (const char* key : {"attention_bias", "mamba_proj_bias"}) QR_TRY_VOID(hf.require_bool(key, false));
  QR_TRY(const bool is_normed, hf.get_bool_or("mamba_rms_norm", false));
  if (is_normed) QR_TRY_VOID(hf.require_bool("mamba_norm_before_gate", false));
  QR_TRY_VOID(factor_facts(hf));
  return mamba2_facts(hf, {"mamba_d_conv", "mamba_d_state", "mamba_n_heads", "mamba_d_head", "mamba_n_groups"});
}

// Rows [begin, begin + n) times a factor, in their own type, which rounds them.
void scale_rows(HostWeight& weight, int64_t begin, int64_t n, double factor, ModelFile& file) {
  if (factor == 1.0) return;
  auto made = std::make_shared<std::vector<std::byte>>(weight.data.begin(), weight.data.end());
  const WeightFormat& format = *weight.format;
  const int64_t d = weight.shape.size() == 1 ? 1 : weight.n_cols();
  for (int64_t i = begin * d; i < (begin + n) * d; ++i) {
    float value = 0;
    format.decode(made->data() + i * format.bytes, &value);
    value = static_cast<float>(value * factor);
    format.encode(&value, made->data() + i * format.bytes);
  }
  weight.data = *made;
  file.owned.push_back(std::move(made));
}

// Multiplies the factors into the matrices.
class Folded {
 public:
  explicit Folded(ModelFile& file) : file_(file) {}

  Status fold() {
    for (const char* name : {"embedding", "logit", "attention_in", "attention_out", "key", "gate", "down", "ssm_in",
                             "ssm_gate", "ssm_x", "ssm_b", "ssm_c", "ssm_steps", "ssm_out"}) {
      const std::string key = std::string("falcon-h1.factor.") + name;
      QR_TRY(by_[name], file_.meta.get_double_or(key, -1e6, 1e6, 1.0));
      file_.meta.values.erase(key);
    }
    DecoderConfig config;
    QR_TRY_VOID(read_state_config(file_, "falcon-h1.", config));
    untie();
    for (HostWeight& weight : file_.tensors) fold_one(weight, config.state);
    return {};
  }

 private:
  // A head that is the embedding, and has a factor of its own.
  void untie() {
    const HostWeight* embedding = file_.find("token_embd.weight");
    if (embedding == nullptr || file_.find("output.weight") != nullptr || by_["embedding"] == by_["logit"]) return;
    HostWeight head = *embedding;
    head.name = "output.weight";
    file_.tensors.push_back(std::move(head));
    file_.sort_tensors();
  }
  void fold_one(HostWeight& weight, const StateConfig& c) {
    const double in = by_["attention_in"];
    const std::pair<const char*, double> whole[] = {{"token_embd.weight", by_["embedding"]},
                                                    {"output.weight", by_["logit"]},
                                                    {".attn_q.weight", in},
                                                    {".attn_k.weight", in * by_["key"]},
                                                    {".attn_v.weight", in},
                                                    {".attn_output.weight", by_["attention_out"]},
                                                    {".ffn_gate.weight", by_["gate"]},
                                                    {".ffn_gate.bias", by_["gate"]},
                                                    {".ffn_down.weight", by_["down"]},
                                                    {".ffn_down.bias", by_["down"]},
                                                    {".ssm_out.weight", by_["ssm_out"]},
                                                    {".ssm_out.bias", by_["ssm_out"]}};
    for (const auto& [name, factor] : whole) {
      const bool is_its = *name == '.' ? weight.name.ends_with(name) : weight.name == name;
      if (is_its) scale_rows(weight, 0, weight.shape.front(), factor, file_);
    }
    if (!weight.name.ends_with(".ssm_in.weight")) return;
    const int64_t n_shared = int64_t{c.n_head_groups} * c.state_dim;
    const std::pair<int64_t, const char*> parts[] = {{c.n_inner(), "ssm_gate"},
                                                     {c.n_inner(), "ssm_x"},
                                                     {n_shared, "ssm_b"},
                                                     {n_shared, "ssm_c"},
                                                     {c.n_heads, "ssm_steps"}};
    int64_t at = 0;
    for (const auto& [n, name] : parts) {
      if (at + n <= weight.shape.front()) scale_rows(weight, at, n, by_["ssm_in"] * by_[name], file_);
      at += n;
    }
  }

  ModelFile& file_;
  std::map<std::string, double> by_;
};

Status as_gguf(ModelFile& file) { return Folded(file).fold(); }

QR_REGISTER(ArchEntry,
            "falcon-h1",
            ArchEntry{.summary = "Falcon-H1: attention and Mamba-2 side by side in every layer",
                      .hf = {.model_types = {"falcon_h1"},
                             .tensors = mamba2_mixer_tensors(
                                 {{"model.final_layernorm.weight", "output_norm.weight"},
                                  {"model.layers.{}.pre_ff_layernorm.weight", "blk.{}.ffn_norm.weight"},
                                  {"model.layers.{}.feed_forward.gate_proj.weight", "blk.{}.ffn_gate.weight"},
                                  {"model.layers.{}.feed_forward.up_proj.weight", "blk.{}.ffn_up.weight"},
                                  {"model.layers.{}.feed_forward.down_proj.weight", "blk.{}.ffn_down.weight"},
                                  {"model.layers.{}.feed_forward.gate_proj.bias", "blk.{}.ffn_gate.bias"},
                                  {"model.layers.{}.feed_forward.up_proj.bias", "blk.{}.ffn_up.bias"},
                                  {"model.layers.{}.feed_forward.down_proj.bias", "blk.{}.ffn_down.bias"}}),
                             .facts = facts,
                             .as_gguf = as_gguf,
                             .lists_parts = true},
                      .load = &load_decoder<FalconH1>,
                      .info = &decoder_info<FalconH1>});

}  // namespace
}  // namespace quire
