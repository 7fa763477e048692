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
constexpr std::string_view kEndA = ".lora_A.weight", kEndB = ".lora_B.weight";

// The two tensors of a module, "model.layers.0.self_attn.q_proj".
struct Pair {
  const SafeTensor* a = nullptr;
  const SafeTensor* b = nullptr;
};

Result<std::map<std::string, Pair>> find_pairs(const TensorFile& file, const LoraConfig& config) {
  std::map<std::string, Pair> out;
  for (const SafeTensor& tensor : file.tensors) {
    std::string_view name = tensor.name;
    const bool is_a = name.ends_with(kEndA);
    if (!name.starts_with(kFront) || (!is_a && !name.ends_with(kEndB)))
      return fail(Code::unsupported, "tensor " + in_quotes(tensor.name) +
                                         ": is not known for a LoRA adapter, which has lora_A.weight and lora_B.weight "
                                         "of modules alone");
    name.remove_prefix(kFront.size());
    name.remove_suffix(kEndA.size());
    if (!config.targets_module(name))
      return fail(Code::corrupt, "tensor " + in_quotes(tensor.name) + ": is of no module that target_modules names");
    Pair& pair = out[std::string(name)];
    (is_a ? pair.a : pair.b) = &tensor;
  }
  for (const auto& [module, pair] : out) {
    if (pair.a != nullptr && pair.b != nullptr) continue;
    const std::string_view missing = pair.a == nullptr ? kEndA : kEndB;
    return fail(Code::corrupt,
                "tensor " + in_quotes(std::string(kFront) + module + std::string(missing)) + ": is missing");
  }
  if (out.empty()) return fail(Code::corrupt, "it has no tensors");
  return out;
}

class Reader {
 public:
  Reader(const Model& model, Ops& ops, int64_t most_bytes)
      : model_(model), builder_(model, ops, most_bytes), entry_(Registry<ArchEntry>::get().find(model.info().arch)) {
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
    QR_TRY(const auto pairs, find_pairs(file, config));
    for (const auto& [module, pair] : pairs) QR_TRY_VOID(read_pair(module, pair, config, *file.map));
    return file.map->check_unchanged();
  }

  Status read_pair(const std::string& module, const Pair& pair, const LoraConfig& config, const MappedFile& map) {
    const std::vector<Renamed> ours = our_names(module + ".weight", entry_->hf);
    const auto place = ours.empty() ? AdapterBuilder::Place() : builder_.place_of(ours.front().name);
    if (place.sites.empty())
      return fail(Code::unsupported, "tensor " + in_quotes(pair.a->name) + ": this model has no " + in_quotes(module) +
                                         " that adapters may add to: only projections of attention and of dense "
                                         "feed-forward units");
    LoraMatrices out;
    out.rank = config.rank_of(module);
    QR_TRY_VOID(builder_.take_room(place, out.rank));
    QR_TRY(out.a, read_finite(*pair.a, {out.rank, place.n_in}, map));
    QR_TRY(out.b, read_finite(*pair.b, {place.n_out, out.rank}, map));
    QR_TRY_VOID(reshape_rows(ours.front(), pair, place.n_out, out));
    return builder_.add(place, std::move(out), config.factor_of(module), in_quotes(pair.a->name),
                        in_quotes(pair.b->name));
  }

  // B's rows are the model's: they lie as the rows of its weight do.
  Status reshape_rows(const Renamed& ours, const Pair& pair, int64_t n_out, LoraMatrices& out) const {
    if (ours.rule->reshape != nullptr) {
      const HostWeight theirs{
          pair.b->name, find_weight_format("f32"), {n_out, out.rank}, std::as_bytes(std::span(out.b))};
      HostWeight reshaped = theirs;
      ModelFile memory;
      QR_TRY_VOID(ours.rule->reshape(theirs, facts_, reshaped, memory));
      if (reshaped.shape != theirs.shape)
        return fail(Code::unsupported, "tensor " + in_quotes(pair.b->name) + ": its rows are not rows of this model");
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

Result<std::shared_ptr<const Adapter>> load(const std::string& path, const Model& model, Ops& ops, int64_t most_bytes) {
  if (model.adapter_sites().empty() || Registry<ArchEntry>::get().find(model.info().arch) == nullptr)
    return fail(Code::unsupported, "a model of architecture " + model.info().arch + " takes no adapter");
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return read_gguf_lora(path, model, ops, most_bytes);
  return Reader(model, ops, most_bytes).read(path);
}

}  // namespace

Result<std::shared_ptr<const Adapter>> load_lora(const std::string& path,
                                                 const Model& model,
                                                 Ops& ops,
                                                 int64_t most_bytes) {
  auto out = load(path, model, ops, most_bytes);
  if (!out) return error_within(path, std::move(out).error());
  return out;
}

}  // namespace quire
