#include "model/mtp.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/bounded_reader.h"
#include "model/config.h"
#include "model/weight_loader.h"

namespace quire {
namespace {

constexpr std::string_view kCount = "nextn_predict_layers";
constexpr int64_t kMostHeads = 64;

Result<std::string> prefix_of(const ModelFile& file) {
  QR_TRY(std::string arch, file.meta.get_string("general.architecture"));
  return arch + ".";
}

Result<int64_t> count_of(const ModelFile& file, const std::string& prefix) {
  return file.meta.get_int_or(prefix + std::string(kCount), 0, kMostHeads, 0);
}

// The facts of the whole model but for how many layers there are: one, whose kind its tensors tell.
Status put_facts(const ModelFile& file, const std::string& prefix, int64_t n_layers, ModelFile& out) {
  out.meta.spelled = file.meta.spelled;
  for (const auto& [key, value] : file.meta.values) {
    if (!key.starts_with(prefix) && !key.starts_with("general.")) continue;
    const auto* list = std::get_if<std::vector<int64_t>>(&value);
    const bool is_by_layer = list != nullptr && std::cmp_greater_equal(list->size(), n_layers);
    if (is_by_layer && std::ranges::count(*list, list->front()) != std::ssize(*list)) {
      return fail(Code::unsupported,
                  "key " + file.meta.shown(key) + ": a head behind layers that differ by a list is not supported");
    }
    out.meta.values[key] = is_by_layer ? MetaValue(std::vector<int64_t>{list->front()}) : value;
  }
  out.meta.values[prefix + "block_count"] = int64_t{1};
  out.meta.values.erase(prefix + std::string(kCount));
  return {};
}

// Tensors of the whole model that the head has by another name, and those of its layer.
class HeadFile {
 public:
  HeadFile(const ModelFile& file, int64_t layer) : file_(file), layer_("blk." + std::to_string(layer) + ".") {}

  Result<ModelFile> make(const std::string& prefix, int64_t n_layers) {
    ModelFile out;
    out.path = file_.path;
    out.container = file_.container;
    out.maps = file_.maps;
    out.owned = file_.owned;
    QR_TRY_VOID(put_facts(file_, prefix, n_layers, out));
    for (const HostWeight& weight : file_.tensors) {
      if (!weight.name.starts_with(layer_)) continue;
      const std::string rest = weight.name.substr(layer_.size());
      if (!is_of_ends(rest)) add(weight.name, rest.starts_with("nextn.") ? rest : "blk.0." + rest, out);
    }
    add("output_norm.weight", "nextn.model_norm.weight", out);
    add_first({layer_ + "nextn.shared_head_norm.weight", "output_norm.weight"}, "output_norm.weight", out);
    // A product over the vocabulary and no embedding: that one is the model's.
    add_first({layer_ + "nextn.shared_head_head.weight", "output.weight", "token_embd.weight"}, "token_embd.weight",
              out);
    out.sort_tensors();
    // Errors name tensors as the file itself does, those that it has not too.
    out.spelling = [names = names_, layer = layer_, theirs = file_.spelling](std::string_view name) {
      const auto at = names.find(name);
      std::string ours = at != names.end() ? at->second : std::string(name);
      if (at == names.end() && name.starts_with("blk.0.")) ours = layer + std::string(name.substr(6));
      if (at == names.end() && name.starts_with("nextn.")) ours = layer + std::string(name);
      return theirs ? theirs(ours) : ours;
    };
    return out;
  }

 private:
  static bool is_of_ends(std::string_view name) {
    return name == "nextn.embed_tokens.weight" || name == "nextn.shared_head_norm.weight" ||
           name == "nextn.shared_head_head.weight";
  }
  void add(const std::string& theirs, const std::string& ours, ModelFile& out) {
    const HostWeight* found = file_.find(theirs);
    if (found == nullptr) return;
    out.tensors.emplace_back(*found).name = ours;
    names_[ours] = theirs;
  }
  void add_first(const std::vector<std::string>& theirs, const std::string& ours, ModelFile& out) {
    for (const std::string& name : theirs) {
      if (file_.find(name) != nullptr) return add(name, ours, out);
    }
  }

  const ModelFile& file_;
  const std::string layer_;
  std::map<std::string, std::string, std::less<>> names_;  // of ours in the file
};

Result<std::unique_ptr<Model>> load_head(const ModelFile& file, const Model& target, Ops& ops, LoadOptions options) {
  QR_TRY(const std::string prefix, prefix_of(file));
  QR_TRY(const int64_t n_heads, count_of(file, prefix));
  QR_TRY(const int64_t n_layers, file.meta.get_int(prefix + "block_count", 1, 4096));
  if (n_heads == 0 || n_heads >= n_layers) {
    return fail(Code::not_found, "key " + file.meta.shown(prefix + std::string(kCount)) +
                                     ": the model carries no head that guesses ahead");
  }
  options.shift = {};
  options.hash_folder.clear();
  QR_TRY(const ModelFile own, HeadFile(file, n_layers - n_heads).make(prefix, n_layers - n_heads));
  WeightLoader load(own, ops, options);
  MtpHead::Parts parts;
  const int64_t n = target.info().n_embd;
  load.vector(parts.model_norm, "nextn.model_norm.weight", n);
  load.vector(parts.token_norm, "nextn.enorm.weight", n);
  load.vector(parts.state_norm, "nextn.hnorm.weight", n);
  load.linear(parts.proj, "nextn.eh_proj", n, 2 * n);
  QR_TRY_VOID(load.status());
  QR_TRY(const DecoderConfig config, read_decoder_config(own, options));
  parts.norm_eps = config.norm_eps;
  QR_TRY(parts.layer, load_model(own, ops, options));
  if (parts.layer->info().n_vocab != target.info().n_vocab) {
    return fail(Code::corrupt, "tensor " + own.shown("token_embd.weight") + ": must have " +
                                   std::to_string(target.info().n_vocab) + " rows for this model, has " +
                                   std::to_string(parts.layer->info().n_vocab));
  }
  return std::make_unique<MtpHead>(std::move(parts), target);
}

}  // namespace

MtpHead::MtpHead(Parts parts, const Model& target) : parts_(std::move(parts)), target_(target) {
  info_ = parts_.layer->info();
}

int64_t MtpHead::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  const int64_t n = info_.n_embd;
  return parts_.layer->arena_bytes(n_tokens, n_out) + 2 * Arena::row_bytes(n_tokens, n) +
         Arena::row_bytes(n_tokens, 2 * n);
}

void MtpHead::norm_states(Tensor out, Tensor states, Ops& ops) const {
  ops.rms_norm(out, states, parts_.model_norm, parts_.norm_eps);
}

Tensor MtpHead::begin(Tensor states, const Pass& pass) const {
  const int64_t n = states.dim(0), d = info_.n_embd;
  const Tensor tokens = embed(pass);                     // [n, n_embd]
  const Tensor both = pass.arena->alloc_rows(n, 2 * d);  // [n, token | state]
  const Tensor out = pass.arena->alloc_rows(n, d);       // [n, n_embd]
  pass.ops->rms_norm(both.columns(0, d), tokens, parts_.token_norm, parts_.norm_eps);
  pass.ops->rms_norm(both.columns(d, d), states, parts_.state_norm, parts_.norm_eps);
  pass.ops->linear(out, both, parts_.proj);
  return out;
}

const MtpHead* as_mtp_head(const Model* model) { return dynamic_cast<const MtpHead*>(model); }

Result<std::unique_ptr<Model>> load_mtp(const ModelFile& file, const Model& target, Ops& ops, LoadOptions options) {
  QR_TRY(const ModelFile neutral, neutral_form(file));
  auto head = load_head(neutral, target, ops, std::move(options));
  if (!head && !head.error().message.starts_with(file.path)) return error_within(file.path, std::move(head).error());
  return head;
}

Status take_mtp_layers(HfFacts& facts) {
  const std::string_view key = "num_nextn_predict_layers";
  QR_TRY(const int64_t n_heads, facts.get_int_or(key, 0, kMostHeads, 0));
  facts.set(kCount, n_heads, key);
  if (n_heads == 0) return {};
  QR_TRY(const int64_t n_layers, facts.get_int("num_hidden_layers", 1, 4096));
  facts.set("block_count", n_layers + n_heads, "num_hidden_layers");
  return {};
}

}  // namespace quire
