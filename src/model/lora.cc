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
#include "model/adapter_ends.h"
#include "model/hf_reshape.h"
#include "model/lora_config.h"
#include "model/lora_experts.h"
#include "model/lora_gguf.h"
#include "model/paired_rows.h"
#include "model/peft_folder.h"

namespace quire {
namespace {

constexpr std::string_view kFront = "base_model.model.";
// "model.layers.0.self_attn.q_proj" has two matrices and, of DoRA, a magnitude. An embedding's matrices have names of
// their own; with it and with the head PEFT saves the model's own weight.
struct Parts {
  const SafeTensor* a = nullptr;
  const SafeTensor* b = nullptr;
  const SafeTensor* magnitude = nullptr;
  const SafeTensor* base = nullptr;
  bool looks_up = false;
};

// Which of its module's a tensor is.
struct Kind {
  std::string_view end;
  const SafeTensor* Parts::* part = nullptr;
};
constexpr Kind kA = {".lora_A.weight", &Parts::a}, kB = {".lora_B.weight", &Parts::b};
constexpr Kind kTableA = {".lora_embedding_A", &Parts::a}, kTableB = {".lora_embedding_B", &Parts::b};
constexpr Kind kMagnitude = {".lora_magnitude_vector", &Parts::magnitude};
constexpr Kind kBase = {".base_layer.weight", &Parts::base};

// By how its name ends; null: it is none.
const Kind* kind_of(std::string_view name, bool scales) {
  for (const Kind* kind : {&kA, &kB, &kTableA, &kTableB, &kBase}) {
    if (name.ends_with(kind->end)) return kind;
  }
  return scales && name.ends_with(kMagnitude.end) ? &kMagnitude : nullptr;
}

std::string known_ends(bool scales) {
  return scales ? "lora_A.weight, lora_B.weight and lora_magnitude_vector of modules alone"
                : "lora_A.weight and lora_B.weight of modules alone";
}

// What a module lacks; empty: nothing.
std::string_view missing_end(const Parts& parts, bool scales) {
  if (parts.a == nullptr) return parts.looks_up ? kTableA.end : kA.end;
  if (parts.b == nullptr) return parts.looks_up ? kTableB.end : kB.end;
  return scales && parts.magnitude == nullptr ? kMagnitude.end : std::string_view();
}

Result<std::map<std::string, Parts>> find_parts(const TensorFile& file, const LoraConfig& config) {
  std::map<std::string, Parts> out;
  for (const SafeTensor& tensor : file.tensors) {
    std::string_view name = tensor.name;
    const Kind* kind = kind_of(name, config.scales_rows);
    if (!name.starts_with(kFront) || kind == nullptr)
      return fail(Code::unsupported, "tensor " + in_quotes(tensor.name) +
                                         ": is not known for a LoRA adapter, which has " +
                                         known_ends(config.scales_rows));
    name.remove_prefix(kFront.size());
    name.remove_suffix(kind->end.size());
    if (!config.targets_module(name) && config.parameter_of(name).empty())
      return fail(Code::corrupt, "tensor " + in_quotes(tensor.name) + ": is of no module that target_modules names");
    Parts& parts = out[std::string(name)];
    if (parts.*kind->part != nullptr)
      return fail(Code::corrupt, "tensor " + in_quotes(tensor.name) + ": its module has one of another name too");
    parts.*kind->part = &tensor;
    parts.looks_up |= kind == &kTableA || kind == &kTableB;
  }
  for (const auto& [module, parts] : out) {
    const std::string_view missing = missing_end(parts, config.scales_rows);
    if (missing.empty()) continue;
    return fail(Code::corrupt,
                "tensor " + in_quotes(std::string(kFront) + module + std::string(missing)) + ": is missing");
  }
  if (out.empty()) return fail(Code::corrupt, "it has no tensors");
  return out;
}

// [n, m] of [m, n], m the rank.
std::vector<float> transposed(const std::vector<float>& from, int64_t rank) {
  const size_t m = static_cast<size_t>(rank), n = from.size() / m;
  std::vector<float> out(from.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = from[i % m * n + i / m];
  return out;
}

// A module as folders name it: what is "backbone" there may be "model" in memory, as PEFT sees it.
std::string in_folders(const std::string& module, const HfRules& rules) {
  constexpr std::string_view kInMemory = "model.", kInFolders = "backbone.";
  const bool differs = module.starts_with(kInMemory) && std::ranges::any_of(rules.tensors, [&](const NameRule& rule) {
                         return rule.theirs.starts_with(kInFolders);
                       });
  return differs ? std::string(kInFolders) + module.substr(kInMemory.size()) : module;
}

class Reader {
 public:
  Reader(const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes)
      : model_(model),
        builder_(model, ops, base, most_bytes),
        entry_(Registry<ArchEntry>::get().find(model.info().arch)),
        turned_(entry_->hf.turns_adapters) {
    const std::string front(kHfPrefix);
    facts_.values[front + "num_attention_heads"] = int64_t{model.info().n_heads};
    facts_.values[front + "num_kv_heads"] = int64_t{model.info().n_kv_heads};
    facts_.values[front + "new_decoder_architecture"] = true;  // heads of keys are counted
  }

  Result<std::shared_ptr<const Adapter>> read(const std::string& folder) {
    QR_TRY(const Json json, read_folder_json(folder, kPeftConfig, kMaxPeftConfigBytes));
    auto config = read_lora_config(json);
    if (!config) return error_within(kPeftConfig, std::move(config).error());
    if (auto invoked = builder_.invoke_by("alora_invocation_tokens", config->invocation); !invoked)
      return error_within(kPeftConfig, std::move(invoked).error());
    QR_TRY(const TensorFile file, open_tensor_file(folder, kPeftWeights));
    auto read = read_tensors(file, *config);
    if (!read) return error_within(kPeftWeights, std::move(read).error());
    return builder_.finish();
  }

 private:
  Status read_tensors(const TensorFile& file, const LoraConfig& config) {
    QR_TRY(const auto found, find_parts(file, config));
    // Before anything is read: where there is no room for all, somebody makes some and tries again.
    for (const auto& [module, parts] : found) QR_TRY_VOID(take_room(module, parts, config));
    for (const auto& [module, parts] : found) QR_TRY_VOID(read_module(module, parts, config, *file.map));
    return file.map->check_unchanged();
  }

  // What a module's matrices are added to: a parameter with all experts' of a layer, or else a matrix, `ours`.
  struct Where {
    std::vector<Renamed> ours;
    AdapterBuilder::Place place;
    std::string key;  // of ranks and factors: the module, or the parameter
    bool is_matrix = false;
  };
  Where where_of(const std::string& module, const LoraConfig& config) const {
    Where out{our_names(in_folders(module, entry_->hf) + ".weight", entry_->hf), {}, config.parameter_of(module)};
    if (!out.ours.empty()) out.place = builder_.place_of(out.ours.front().name);
    // "down_proj" alone would be a parameter of any module: those that have a matrix of their own are no experts.
    const bool by_parameter = out.key == module + ".weight";
    out.is_matrix = out.key.empty() || (!out.place.sites.empty() && (by_parameter || config.targets_module(module)));
    if (out.is_matrix && !by_parameter) out.key = module;
    return out;
  }
  ExpertParameter parameter_at(const Where& where) const {
    return {builder_, entry_->hf, in_folders(where.key, entry_->hf)};
  }

  // Nothing where A has not the shape that read_module() wants.
  Status take_room(const std::string& module, const Parts& parts, const LoraConfig& config) {
    const Where where = where_of(module, config);
    const int64_t rank = config.rank_of(where.key);
    if (!where.is_matrix) {
      const ExpertParameter parameter = parameter_at(where);
      if (const auto turned = parameter.is_turned(rank, *parts.a, *parts.b); turned) turned_ = *turned;
      return builder_.take_room(parameter.stack(), rank);
    }
    if (parts.a->shape != std::vector{rank, where.place.n_in}) return {};
    return builder_.take_room(where.place, rank, config.scales_rows);
  }

  Status read_module(const std::string& module, const Parts& parts, const LoraConfig& config, const MappedFile& map) {
    const Where where = where_of(module, config);
    if (!where.is_matrix) return read_experts(where, parts, config, map);
    const auto& [ours, place, key, unused] = where;
    if (place.sites.empty())
      return fail(Code::unsupported, "tensor " + in_quotes(parts.a->name) + ": this model has no " + in_quotes(module) +
                                         std::string(kAdaptable));
    if (ours.size() > 1)
      return fail(Code::unsupported, "tensor " + in_quotes(parts.a->name) + ": " + in_quotes(module) +
                                         " is several matrices of this model, which is not supported");
    if (place.looks_up != parts.looks_up)
      return fail(Code::corrupt, "tensor " + in_quotes(parts.a->name) + ": " + in_quotes(module) +
                                     (place.looks_up ? " is an embedding" : " is no embedding"));
    if (place.looks_up && !config.invocation.empty())
      return fail(Code::unsupported, "tensor " + in_quotes(parts.a->name) +
                                         ": an embedding beside alora_invocation_tokens is not supported");
    const int64_t rank = config.rank_of(key);
    LoraMatrices out;
    out.rank = rank;
    QR_TRY(out.a, read_finite(*parts.a, {rank, place.n_in}, map));
    if (place.looks_up) out.a = transposed(out.a, rank);
    QR_TRY(out.b, read_finite(*parts.b, {place.n_out, rank}, map));
    QR_TRY_VOID(reshape_rows(ours.front(), parts.b->name, place.n_out, out));
    if (config.scales_rows) {
      LoraMatrices column;
      column.rank = 1;
      QR_TRY(column.b, read_finite(*parts.magnitude, {place.n_out}, map));
      QR_TRY_VOID(reshape_rows(ours.front(), parts.magnitude->name, place.n_out, column));
      out.magnitude = std::move(column.b);
    }
    if (parts.base != nullptr) QR_TRY_VOID(check_base(module, ours.front(), place, *parts.base, map));
    return builder_.add(place, std::move(out), config.factor_of(key), in_quotes(parts.a->name),
                        in_quotes(parts.b->name));
  }

  Status read_experts(const Where& where, const Parts& parts, const LoraConfig& config, const MappedFile& map) {
    const ExpertParameter parameter = parameter_at(where);
    if (parameter.stack().experts.empty())
      return fail(Code::unsupported, "tensor " + in_quotes(parts.a->name) + ": this model has no " +
                                         in_quotes(where.key) + std::string(kAdaptable));
    if (config.scales_rows || parts.looks_up || parts.base != nullptr)
      return fail(Code::unsupported,
                  "tensor " + in_quotes(parts.a->name) + ": experts have lora_A.weight and lora_B.weight alone");
    QR_TRY(const LoraMatrices all, parameter.read(config.rank_of(where.key), turned_, *parts.a, *parts.b, map));
    return builder_.add_stack(parameter.stack(), all, config.factor_of(where.key), in_quotes(parts.a->name),
                              in_quotes(parts.b->name));
  }

  // The weight that PEFT saves with an embedding or the head is what it was trained on.
  Status check_base(const std::string& module,
                    const Renamed& ours,
                    const AdapterBuilder::Place& place,
                    const SafeTensor& base,
                    const MappedFile& map) {
    const AdapterSite& site = model_.adapter_sites()[place.sites.front()];
    const bool is_head = site.product == kHead && site.layer == model_.info().n_layers;
    if ((!place.looks_up && !is_head) || ours.rule->reshape != nullptr)
      return fail(Code::unsupported,
                  "tensor " + in_quotes(base.name) + ": weights of " + in_quotes(module) + " itself are not supported");
    const std::vector<int64_t> shape =
        place.looks_up ? std::vector{place.n_in, place.n_out} : std::vector{place.n_out, place.n_in};
    QR_TRY_VOID(check_shape(base, shape));
    QR_TRY(const HostWeight weight, make_weight(base, map));
    return builder_.check_same(ours.name, weight);
  }

  // B's rows are the model's: they lie as the rows of its weight do.
  Status reshape_rows(const Renamed& ours, const std::string& name, int64_t n_out, LoraMatrices& out) const {
    // A matrix that only lies turned over has its rows in order.
    if (ours.rule->reshape != nullptr && !makes_rows_of_columns(ours.rule->reshape)) {
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
  bool turned_;  // whether A and B of experts' parameters have changed places: as the shapes of one say, or by default
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
