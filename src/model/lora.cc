#include "model/lora.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/bounded_reader.h"
#include "io/hf_config.h"
#include "io/in_quotes.h"
#include "model/adapter_builder.h"
#include "model/lora_config.h"
#include "model/lora_gguf.h"
#include "model/paired_rows.h"
#include "model/peft_folder.h"

namespace quire {
namespace {

constexpr std::string_view kFront = "base_model.model.";
constexpr std::string_view kEndA = ".lora_A.weight", kEndB = ".lora_B.weight", kEndM = ".lora_magnitude_vector";

// The tensors of a module, "model.layers.0.self_attn.q_proj".
struct Parts {
  const SafeTensor* a = nullptr;
  const SafeTensor* b = nullptr;
  const SafeTensor* magnitude = nullptr;  // of DoRA alone
};

// Which of its module's a tensor is, and how its name ends; null: it is none.
struct Kind {
  const SafeTensor* Parts::* part = nullptr;
  std::string_view end;
};
Kind kind_of(std::string_view name, bool scales) {
  if (name.ends_with(kEndA)) return {&Parts::a, kEndA};
  if (name.ends_with(kEndB)) return {&Parts::b, kEndB};
  if (scales && name.ends_with(kEndM)) return {&Parts::magnitude, kEndM};
  return {};
}

std::string known_ends(bool scales) {
  return scales ? "lora_A.weight, lora_B.weight and lora_magnitude_vector of modules alone"
                : "lora_A.weight and lora_B.weight of modules alone";
}

Result<std::map<std::string, Parts>> find_parts(const TensorFile& file, const LoraConfig& config) {
  std::map<std::string, Parts> out;
  for (const SafeTensor& tensor : file.tensors) {
    std::string_view name = tensor.name;
    const Kind kind = kind_of(name, config.scales_rows);
    if (!name.starts_with(kFront) || kind.part == nullptr)
      return fail(Code::unsupported, "tensor " + in_quotes(tensor.name) +
                                         ": is not known for a LoRA adapter, which has " +
                                         known_ends(config.scales_rows));
    name.remove_prefix(kFront.size());
    name.remove_suffix(kind.end.size());
    if (!config.targets_module(name))
      return fail(Code::corrupt, "tensor " + in_quotes(tensor.name) + ": is of no module that target_modules names");
    out[std::string(name)].*kind.part = &tensor;
  }
  for (const auto& [module, parts] : out) {
    const bool has_all =
        parts.a != nullptr && parts.b != nullptr && (parts.magnitude != nullptr || !config.scales_rows);
    if (has_all) continue;
    const std::string_view missing = parts.a == nullptr ? kEndA : parts.b == nullptr ? kEndB : kEndM;
    return fail(Code::corrupt,
                "tensor " + in_quotes(std::string(kFront) + module + std::string(missing)) + ": is missing");
  }
  if (out.empty()) return fail(Code::corrupt, "it has no tensors");
  return out;
}

class Reader {
 public:
  Reader(const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes)
      : model_(model),
        builder_(model, ops, base, most_bytes),
        entry_(Registry<ArchEntry>::get().find(model.info().arch)) {
    facts_.values[std::string(kHfPrefix) + "num_attention_heads"] = int64_t{model.info().n_heads};
  }

  Result<std::shared_ptr<const Adapter>> read(const std::string& folder) {
    QR_TRY(const Json json, read_folder_json(folder, kPeftConfig, kMaxPeftConfigBytes));
    auto config = read_lora_config(json);
    if (!config) return error_within(kPeftConfig, std::move(config).error());
    QR_TRY(const TensorFile file, open_tensor_file(folder, kPeftWeights));
    auto read = read_tensors(file, *config);
    if (!read) return error_within(kPeftWeights, std::move(read).error());
    return builder_.finish();
  }

 private:
  Status read_tensors(const TensorFile& file, const LoraConfig& config) {
    QR_TRY(const auto found, find_parts(file, config));
    for (const auto& [module, parts] : found) QR_TRY_VOID(read_module(module, parts, config, *file.map));
    return file.map->check_unchanged();
  }

  Status read_module(const std::string& module, const Parts& parts, const LoraConfig& config, const MappedFile& map) {
    const std::vector<Renamed> ours = our_names(module + ".weight", entry_->hf);
    const auto place = ours.empty() ? AdapterBuilder::Place() : builder_.place_of(ours.front().name);
    if (place.sites.empty())
      return fail(Code::unsupported, "tensor " + in_quotes(parts.a->name) + ": this model has no " + in_quotes(module) +
                                         " that adapters may add to: only projections of attention and of dense "
                                         "feed-forward units");
    LoraMatrices out;
    out.rank = config.rank_of(module);
    QR_TRY_VOID(builder_.take_room(place, out.rank, config.scales_rows));
    QR_TRY(out.a, read_finite(*parts.a, {out.rank, place.n_in}, map));
    QR_TRY(out.b, read_finite(*parts.b, {place.n_out, out.rank}, map));
    QR_TRY_VOID(reshape_rows(ours.front(), parts.b->name, place.n_out, out));
    if (config.scales_rows) {
      LoraMatrices column;
      column.rank = 1;
      QR_TRY(column.b, read_finite(*parts.magnitude, {place.n_out}, map));
      QR_TRY_VOID(reshape_rows(ours.front(), parts.magnitude->name, place.n_out, column));
      out.magnitude = std::move(column.b);
    }
    return builder_.add(place, std::move(out), config.factor_of(module), in_quotes(parts.a->name),
                        in_quotes(parts.b->name));
  }

  // B's rows are the model's: they lie as the rows of its weight do.
  Status reshape_rows(const Renamed& ours, const std::string& name, int64_t n_out, LoraMatrices& out) const {
    if (ours.rule->reshape != nullptr) {
      const HostWeight theirs{name, find_weight_format("f32"), {n_out, out.rank}, std::as_bytes(std::span(out.b))};
      HostWeight reshaped = theirs;
      ModelFile memory;
      QR_TRY_VOID(ours.rule->reshape(theirs, facts_, reshaped, memory));
      if (reshaped.shape != theirs.shape)
        return fail(Code::unsupported, "tensor " + in_quotes(name) + ": its rows are not rows of this model");
      std::vector<float> rows(out.b.size());
      std::memcpy(rows.data(), reshaped.data.data(), reshaped.data.size());
      out.b = std::move(rows);
    }
    if (is_turned(ours.name) && pairs_rows(model_.info())) out.b = paired_rows_of(out, model_.info());
    return {};
  }

  const Model& model_;
  AdapterBuilder builder_;
  const ArchEntry* entry_;
  Metadata facts_;
};

Result<std::shared_ptr<const Adapter>> load(
    const std::string& path, const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes) {
  if (model.adapter_sites().empty() || Registry<ArchEntry>::get().find(model.info().arch) == nullptr)
    return fail(Code::unsupported, "a model of architecture " + model.info().arch + " takes no adapter");
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return read_gguf_lora(path, model, ops, base, most_bytes);
  return Reader(model, ops, base, most_bytes).read(path);
}

}  // namespace

Result<std::shared_ptr<const Adapter>> load_lora(
    const std::string& path, const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes) {
  auto out = load(path, model, ops, base, most_bytes);
  if (!out) return error_within(path, std::move(out).error());
  return out;
}

}  // namespace quire
