#include "model/lora.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "base/bounded_reader.h"
#include "base/hash128.h"
#include "io/hf_config.h"
#include "io/in_quotes.h"
#include "model/lora_config.h"
#include "model/paired_rows.h"
#include "model/peft_folder.h"

namespace quire {
namespace {

constexpr uint64_t kContentSeed = 0x6c6f7261ULL;
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

// A module's matrices as they are computed with.
struct Matrices {
  int64_t rank = 0;
  std::vector<float> a;  // [rank, n_in]
  std::vector<float> b;  // [rows of the tensor of the model, rank], its factor in it
};

class Reader {
 public:
  Reader(const Model& model, Ops& ops, int64_t most_bytes)
      : model_(model), ops_(ops), most_bytes_(most_bytes), entry_(Registry<ArchEntry>::get().find(model.info().arch)) {
    facts_.values[std::string(kHfPrefix) + "num_attention_heads"] = int64_t{model.info().n_heads};
  }

  Result<std::shared_ptr<const Adapter>> read(const std::string& folder) {
    if (model_.adapter_sites().empty() || entry_ == nullptr)
      return fail(Code::unsupported, "a model of architecture " + model_.info().arch + " takes no adapter");
    QR_TRY(const Json json, read_folder_json(folder, kPeftConfig, kMaxPeftConfigBytes));
    auto config = read_lora_config(json);
    if (!config) return error_within(kPeftConfig, std::move(config).error());
    QR_TRY(const TensorFile file, open_tensor_file(folder, kPeftWeights));
    auto read = read_tensors(file, *config);
    if (!read) return error_within(kPeftWeights, std::move(read).error());
    return make();
  }

 private:
  Status read_tensors(const TensorFile& file, const LoraConfig& config) {
    QR_TRY(const auto pairs, find_pairs(file, config));
    for (const auto& [module, pair] : pairs) QR_TRY_VOID(read_pair(module, pair, config, *file.map));
    return file.map->check_unchanged();
  }

  // Every matrix of the model that the tensor `ours` is cut into.
  std::vector<size_t> sites_of(std::string_view ours) const {
    std::vector<size_t> out;
    const auto sites = model_.adapter_sites();
    for (size_t i = 0; i < sites.size(); ++i) {
      if (sites[i].tensor == ours) out.push_back(i);
    }
    return out;
  }

  Status read_pair(const std::string& module, const Pair& pair, const LoraConfig& config, const MappedFile& map) {
    const std::vector<Renamed> ours = our_names(module + ".weight", entry_->hf);
    const std::vector<size_t> at = ours.empty() ? std::vector<size_t>() : sites_of(ours.front().name);
    if (at.empty())
      return fail(Code::unsupported, "tensor " + in_quotes(pair.a->name) + ": this model has no " + in_quotes(module) +
                                         " that adapters may add to: only projections of attention and of dense "
                                         "feed-forward units");
    const auto sites = model_.adapter_sites();
    Matrices& out = matrices_.emplace_back();
    out.rank = config.rank_of(module);
    int64_t n_out = 0;
    for (const size_t i : at) n_out += sites[i].n_out;
    const int64_t n_in = sites[at.front()].n_in;
    QR_TRY_VOID(take_bytes(out.rank * (n_in * static_cast<int64_t>(at.size()) + n_out) * 4));
    QR_TRY(out.a, read_finite(*pair.a, {out.rank, n_in}, map));
    QR_TRY(out.b, read_finite(*pair.b, {n_out, out.rank}, map));
    QR_TRY_VOID(turn_rows(ours.front(), pair, n_out, out));
    const auto factor = static_cast<float>(config.factor_of(module));
    for (float& value : out.b) value *= factor;
    if (!std::ranges::all_of(out.b, [](float value) { return value - value == 0; }))
      return fail(Code::corrupt, "tensor " + in_quotes(pair.b->name) + ": times its factor of " +
                                     std::to_string(factor) + " it is not finite");
    for (const size_t i : at) {
      if (at_site_.emplace(i, matrices_.size() - 1).second) continue;
      return fail(Code::corrupt,
                  "tensor " + in_quotes(pair.a->name) + ": two modules mean " + in_quotes(sites[i].tensor));
    }
    return {};
  }

  Status take_bytes(int64_t n) {
    bytes_ += n;
    if (bytes_ <= most_bytes_) return {};
    return fail(Code::exhausted, "its matrices take " + std::to_string(bytes_) + " bytes and more; there is room for " +
                                     std::to_string(most_bytes_));
  }

  // B's rows are the model's: they lie as the rows of its weight do.
  Status turn_rows(const Renamed& ours, const Pair& pair, int64_t n_out, Matrices& out) const {
    if (ours.rule->reshape != nullptr) {
      const HostWeight theirs{
          pair.b->name, find_weight_format("f32"), {n_out, out.rank}, std::as_bytes(std::span(out.b))};
      HostWeight turned = theirs;
      ModelFile memory;
      QR_TRY_VOID(ours.rule->reshape(theirs, facts_, turned, memory));
      if (turned.shape != theirs.shape)
        return fail(Code::unsupported, "tensor " + in_quotes(pair.b->name) + ": its rows are not rows of this model");
      std::vector<float> rows(out.b.size());
      std::memcpy(rows.data(), turned.data.data(), turned.data.size());
      out.b = std::move(rows);
    }
    const bool turns = ours.name.ends_with(".attn_q.weight") || ours.name.ends_with(".attn_k.weight");
    if (turns && pairs_rows(model_.info())) pair_up(n_out, out);
    return {};
  }

  void pair_up(int64_t n_out, Matrices& out) const {
    const ModelInfo& info = model_.info();
    const auto rank = static_cast<size_t>(out.rank);
    std::vector<float> rows(out.b.size());
    for (int64_t to = 0; to < n_out; ++to) {
      const int64_t from = unpaired_row(to, info.head_dim, info.n_rope);
      std::copy_n(out.b.begin() + from * out.rank, rank, rows.begin() + to * out.rank);
    }
    out.b = std::move(rows);
  }

  Result<std::shared_ptr<const Adapter>> make() {
    const auto sites = model_.adapter_sites();
    std::vector<LowRankSource> from;
    std::vector<LowRank> to(sites.size());
    for (size_t i = 0; i < sites.size(); ++i) {
      LowRankSource& one = from.emplace_back(LowRankSource{.n_in = sites[i].n_in, .n_out = sites[i].n_out});
      const auto at = at_site_.find(i);
      if (at == at_site_.end()) continue;
      const Matrices& its = matrices_[at->second];
      one.rank = its.rank;
      one.a = its.a;
      one.b = std::span(its.b).subspan(static_cast<size_t>(sites[i].first_row * its.rank),
                                       static_cast<size_t>(sites[i].n_out * its.rank));
    }
    auto out = std::make_shared<Adapter>();
    QR_TRY(out->memory, ops_.load_low_rank(from, to));
    out->content = content(from);
    out->layers.resize(static_cast<size_t>(model_.info().n_layers));
    for (size_t i = 0; i < sites.size(); ++i) {
      auto& product = out->layers[static_cast<size_t>(sites[i].layer)].*sites[i].product;
      product.resize(std::max(product.size(), sites[i].index + 1));
      product[sites[i].index] = to[i];
    }
    for (AdapterLayer& layer : out->layers) {
      for (auto* product : {&layer.qkv, &layer.attn_out, &layer.gate_up, &layer.down}) {
        if (std::ranges::all_of(*product, &LowRank::empty)) product->clear();
      }
    }
    return out;
  }

  static uint64_t content(const std::vector<LowRankSource>& from) {
    std::vector<uint64_t> words;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i].rank == 0) continue;
      const Hash128 a = hash128(std::as_bytes(from[i].a), kContentSeed);
      const Hash128 b = hash128(std::as_bytes(from[i].b), kContentSeed);
      words.insert(words.end(), {i, static_cast<uint64_t>(from[i].rank), a.lo, a.hi, b.lo, b.hi});
    }
    return std::max<uint64_t>(hash128(std::as_bytes(std::span(words)), kContentSeed).lo, 1);
  }

  const Model& model_;
  Ops& ops_;
  const int64_t most_bytes_;
  const ArchEntry* entry_;
  Metadata facts_;
  int64_t bytes_ = 0;
  std::vector<Matrices> matrices_;
  std::map<size_t, size_t> at_site_;  // number of the model's site: of matrices_
};

}  // namespace

Result<std::shared_ptr<const Adapter>> load_lora(const std::string& folder,
                                                 const Model& model,
                                                 Ops& ops,
                                                 int64_t most_bytes) {
  auto out = Reader(model, ops, most_bytes).read(folder);
  if (!out) return error_within(folder, std::move(out).error());
  return out;
}

}  // namespace quire
