#include "model/lora_gguf.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "io/in_quotes.h"
#include "io/shape_text.h"
#include "model/adapter_builder.h"
#include "model/lora_config.h"
#include "model/paired_rows.h"

namespace quire {
namespace {

constexpr std::string_view kEndA = ".lora_a", kEndB = ".lora_b";
constexpr const char* kInvocation = "adapter.alora.invocation_tokens";

Status check_text(const Metadata& meta, std::string_view key, const std::string& wanted) {
  QR_TRY(const std::string found, meta.get_string(key));
  if (found == wanted) return {};
  return fail(Code::unsupported, "key " + in_quotes(key) + ": must be " + wanted + ", found " + in_quotes(found));
}

// What would change the numbers and is not computed here is refused by key. Returns the numerator of the factor.
Result<double> read_alpha(const Metadata& meta, const ModelInfo& info) {
  QR_TRY_VOID(check_text(meta, "general.type", "adapter"));
  QR_TRY_VOID(check_text(meta, "adapter.type", "lora"));
  QR_TRY_VOID(check_text(meta, "general.architecture", info.arch));
  constexpr std::string_view kKnown[] = {"adapter.type", "adapter.lora.alpha", "adapter.lora.task_name",
                                         "adapter.lora.prompt_prefix", kInvocation};
  for (const auto& [key, value] : meta.values) {
    if (!key.starts_with("adapter.") || std::ranges::find(kKnown, key) != std::end(kKnown)) continue;
    return fail(Code::unsupported, "key " + in_quotes(key) + ": is not supported for a LoRA adapter");
  }
  constexpr double kMost = std::numeric_limits<float>::max();
  return meta.get_double_or("adapter.lora.alpha", -kMost, kMost, 0);
}

// Of an activated LoRA.
Status read_invocation(const Metadata& meta, AdapterBuilder& builder) {
  const MetaValue* value = meta.find(kInvocation);
  if (value == nullptr) return {};
  const auto* tokens = std::get_if<std::vector<int64_t>>(value);
  if (tokens == nullptr)
    return fail(Code::corrupt, "key " + in_quotes(kInvocation) + ": must be an array of integers, which tokens are");
  return builder.invoke_by(kInvocation, *tokens);
}

struct Pair {
  const HostWeight* a = nullptr;
  const HostWeight* b = nullptr;
};

Result<std::map<std::string, Pair>> find_pairs(const ModelFile& file) {
  std::map<std::string, Pair> out;
  for (const HostWeight& tensor : file.tensors) {
    const bool is_a = tensor.name.ends_with(kEndA);
    if (!is_a && !tensor.name.ends_with(kEndB)) {
      return fail(Code::unsupported, "tensor " + in_quotes(tensor.name) +
                                         ": is not known for a LoRA adapter, which has .lora_a and .lora_b alone");
    }
    Pair& pair = out[tensor.name.substr(0, tensor.name.size() - kEndA.size())];
    (is_a ? pair.a : pair.b) = &tensor;
  }
  for (const auto& [name, pair] : out) {
    if (pair.a != nullptr && pair.b != nullptr) continue;
    return fail(Code::corrupt,
                "tensor " + in_quotes(name + std::string(pair.a == nullptr ? kEndA : kEndB)) + ": is missing");
  }
  if (out.empty()) return fail(Code::corrupt, "it has no tensors");
  return out;
}

Status check_shape(const HostWeight& weight, const std::vector<int64_t>& shape) {
  if (weight.shape == shape) return {};
  return fail(Code::corrupt, "tensor " + in_quotes(weight.name) + ": must have shape " + shape_text(shape) + ", has " +
                                 shape_text(weight.shape));
}

Result<std::vector<float>> read_finite(const HostWeight& weight) {
  const int64_t n = weight.n_rows() * weight.n_cols();
  std::vector<float> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i += weight.format->block) {
    weight.format->decode(weight.data.data() + i / weight.format->block * weight.format->bytes, out.data() + i);
  }
  const auto bad = std::ranges::find_if(out, [](float value) { return !std::isfinite(value); });
  if (bad == out.end()) return out;
  return fail(Code::corrupt,
              "tensor " + in_quotes(weight.name) + ": value " + std::to_string(bad - out.begin()) + " is not finite");
}

// All experts of a layer: a [n_experts, rank, n_in], b [n_experts, n_out, rank].
Status add_stacked_pair(const AdapterBuilder::Stack& stack, const Pair& pair, double alpha, AdapterBuilder& builder) {
  const std::vector<int64_t>& shape = pair.a->shape;
  LoraMatrices out;
  out.rank = shape.size() == 3 ? shape[1] : 0;
  const int64_t n_experts = std::ssize(stack.experts);
  if (out.rank < 1 || out.rank > kMaxLoraRank) {
    return fail(Code::corrupt, "tensor " + in_quotes(pair.a->name) + ": must have shape [" + std::to_string(n_experts) +
                                   ", rank, " + std::to_string(stack.n_in) + "] with a rank of 1 to " +
                                   std::to_string(kMaxLoraRank) + ", has " + shape_text(shape));
  }
  QR_TRY_VOID(check_shape(*pair.a, {n_experts, out.rank, stack.n_in}));
  QR_TRY_VOID(check_shape(*pair.b, {n_experts, stack.n_out, out.rank}));
  QR_TRY(out.a, read_finite(*pair.a));
  QR_TRY(out.b, read_finite(*pair.b));
  const double factor = alpha == 0 ? 1 : alpha / static_cast<double>(out.rank);
  return builder.add_stack(stack, out, factor, in_quotes(pair.a->name), in_quotes(pair.b->name));
}

Status add_pair(
    const std::string& tensor, const Pair& pair, double alpha, const ModelInfo& info, AdapterBuilder& builder) {
  const AdapterBuilder::Stack stack = builder.stack_of(tensor);
  if (!stack.experts.empty()) return add_stacked_pair(stack, pair, alpha, builder);
  const AdapterBuilder::Place place = builder.place_of(tensor);
  if (place.sites.empty()) {
    return fail(Code::unsupported, "tensor " + in_quotes(pair.a->name) + ": this model has no " + in_quotes(tensor) +
                                       std::string(kAdaptable));
  }
  LoraMatrices out;
  out.rank = pair.a->shape.size() == 2 ? pair.a->shape[place.looks_up ? 1 : 0] : 0;
  if (out.rank < 1 || out.rank > kMaxLoraRank) {
    const std::string n_in = std::to_string(place.n_in);
    return fail(Code::corrupt, "tensor " + in_quotes(pair.a->name) + ": must have shape " +
                                   (place.looks_up ? "[" + n_in + ", rank]" : "[rank, " + n_in + "]") +
                                   " with a rank of 1 to " + std::to_string(kMaxLoraRank) + ", has " +
                                   shape_text(pair.a->shape));
  }
  QR_TRY_VOID(check_shape(*pair.a, place.a_shape(out.rank)));
  QR_TRY_VOID(check_shape(*pair.b, {place.n_out, out.rank}));
  QR_TRY(out.a, read_finite(*pair.a));
  QR_TRY(out.b, read_finite(*pair.b));
  // The file's rows lie as GGUF's do; those of a model from a folder may lie otherwise.
  const ArchEntry* entry = Registry<ArchEntry>::get().find(info.arch);
  if (is_turned(tensor) && entry->hf.pairs_in_gguf && !pairs_rows(info)) out.b = unpaired_rows_of(out, info);
  const double factor = alpha == 0 ? 1 : alpha / static_cast<double>(out.rank);
  return builder.add(place, std::move(out), factor, in_quotes(pair.a->name), in_quotes(pair.b->name));
}

// Nothing where the shape is one that add_pair() will refuse.
Status take_room(const std::string& tensor, const Pair& pair, AdapterBuilder& builder) {
  const std::vector<int64_t>& shape = pair.a->shape;
  const AdapterBuilder::Stack stack = builder.stack_of(tensor);
  const AdapterBuilder::Place place = builder.place_of(tensor);
  const size_t n_dims = stack.experts.empty() ? 2 : 3;
  if (shape.size() != n_dims) return {};
  const bool looks_up = stack.experts.empty() && place.looks_up;
  const int64_t rank = looks_up ? shape[1] : shape[n_dims - 2];
  if (looks_up ? shape[0] != place.n_in : shape.back() != (stack.experts.empty() ? place.n_in : stack.n_in)) return {};
  if (rank < 1 || rank > kMaxLoraRank) return {};
  return stack.experts.empty() ? builder.take_room(place, rank) : builder.take_room(stack, rank);
}

Result<std::shared_ptr<const Adapter>> read(const ModelFile& file, const Model& model, AdapterBuilder& builder) {
  QR_TRY(const double alpha, read_alpha(file.meta, model.info()));
  QR_TRY_VOID(read_invocation(file.meta, builder));
  QR_TRY(const auto pairs, find_pairs(file));
  // Before anything is read: where there is no room for all, somebody makes some and tries again.
  for (const auto& [tensor, pair] : pairs) QR_TRY_VOID(take_room(tensor, pair, builder));
  for (const auto& [tensor, pair] : pairs) QR_TRY_VOID(add_pair(tensor, pair, alpha, model.info(), builder));
  QR_TRY_VOID(file.check_unchanged());
  return builder.finish();
}

}  // namespace

Result<std::shared_ptr<const Adapter>> read_gguf_lora(
    const std::string& path, const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes) {
  auto file = open_model(path);
  if (!file) {  // whose errors begin with the path, which the caller adds
    Error error = std::move(file).error();
    const std::string front = path + ": ";
    if (error.message.starts_with(front)) error.message.erase(0, front.size());
    return tl::make_unexpected(std::move(error));
  }
  AdapterBuilder builder(model, ops, base, most_bytes);
  return read(*file, model, builder);
}

}  // namespace quire
