#include "app/memory_plan.h"

#include <algorithm>
#include <cstdio>

#include "app/spec_options.h"
#include "base/bounded_reader.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/limits.h"
#include "model/eagle.h"
#include "model/medusa.h"
#include "model/mtp.h"
#include "model/weight_loader.h"
#include "ops/no_ops.h"
#include "spec/several.h"

namespace quire {
namespace {

constexpr int64_t kCtxStep = 256;  // a context that was not asked for is a multiple of it
constexpr int64_t kLeastCtx = 512;
// Measured: a server of a model without weights to speak of, and what vocabularies of 32,000 to 150,000 tokens add.
constexpr int64_t kProcessBytes = int64_t{22} << 20;
constexpr int64_t kVocabularyBytes = 350;
constexpr int64_t kHugePage = int64_t{2} << 20;  // weights lie on such pages: the last one is taken whole

// Takes weights by their shapes and keeps none.
class CountingOps final : public NoOps {
 public:
  CountingOps(const ModelOptions& options, const WeightFormat* convert) : options_(options), convert_(convert) {}
  std::string describe() const override { return "counting"; }
  Result<Buffer> allocate(int64_t) override { return fail(Code::unsupported, "this backend only counts"); }
  void sample(std::span<Sampled>, Tensor, std::span<const SampleParams>) override {}

  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard) override {
    LoadOptions how;
    how.weights = convert_;
    const WeightFormat& format = loaded_format(weight, how);
    Linear out;
    out.format = &format;
    out.n_out = weight.n_rows();
    out.n_in = weight.n_cols();
    take(linear_bytes(options_, format, out.n_out, out.n_in));
    elements += out.n_out * out.n_in;
    const bool is_converted = &format != weight.format || (weight.data.empty() && weight.made == nullptr);
    if (is_converted) largest = std::max(largest, out.n_out * format.row_bytes(out.n_in));
    if (bias != nullptr) {
      QR_TRY(out.bias, load_vector(*bias));
    }
    return out;
  }
  Result<Tensor> load_vector(const HostWeight& weight) override {
    const int64_t n = weight.n_rows() * weight.n_cols();
    take(n * 4);
    return Tensor::dense(&nowhere_, DType::f32, {n});
  }

  int64_t bytes = 0, largest = 0, elements = 0;

 private:
  void take(int64_t n) { bytes += (n + 63) / 64 * 64; }
  std::byte nowhere_{};
  const ModelOptions& options_;
  const WeightFormat* convert_;
};

Error does_not_fit(const std::string& what, int64_t needs, int64_t has, const std::string& advice) {
  return {Code::exhausted,
          what + " does not fit: needs " + memory_text(needs) + ", has " + memory_text(has) + "; try " + advice};
}

}  // namespace

namespace {

// A model without numbers.
struct Counted {
  std::unique_ptr<CountingOps> ops;
  std::unique_ptr<Model> model;
};

// The model of a file, or the head beside the model `target` that it carries.
Result<Counted> count(const ModelFile& file, const ModelOptions& options, const Model* target = nullptr) {
  QR_TRY(LoadOptions how, load_options(options, &file));
  Counted out;
  out.ops = std::make_unique<CountingOps>(options, how.weights);
  how.weights = nullptr;  // counted instead of converted
  QR_TRY(out.model, target == nullptr ? load_model(file, *out.ops, how) : load_mtp(file, *target, *out.ops, how));
  return out;
}

// The tokenizer of a draft with other tokens, which stays, and the bridge's tables. 0 where there is no bridge; what
// cannot be read is refused where it is loaded.
int64_t bridge_bytes(const std::string& target, int n_target, const std::string& draft, int n_draft) {
  if (n_draft >= n_target) {
    const auto ours = load_tokenizer_of(target), its = load_tokenizer_of(draft);
    if (!ours || !its || !needs_bridge(**ours, n_target, **its, n_draft)) return 0;
  }
  return kVocabularyBytes * n_draft + int64_t{sizeof(Token)} * (n_target + n_draft);
}

// What guesses for `target`, the model of `file`, adds; `options` have n_ctx and max_draft filled in.
Status add_draft(const ModelFile& file,
                 const Model& target,
                 const EngineOptions& options,
                 const DraftSource& draft,
                 MemoryNeeds& needs) {
  ProposerEnv env = proposer_shapes(target, options);
  Counted counted;
  std::unique_ptr<MedusaHeads> heads;
  std::unique_ptr<EagleHead> eagle;
  ModelOptions as_target = draft.how;
  as_target.weights = draft.target_weights;
  QR_TRY(const WeightFormat* head_format, heads_format(file, as_target));
  if (draft.kind == DraftKind::medusa) {
    counted.ops = std::make_unique<CountingOps>(draft.how, head_format);
    QR_TRY(heads, load_medusa(draft.how.model, target.info(), *counted.ops));
  } else if (draft.kind == DraftKind::eagle) {
    counted.ops = std::make_unique<CountingOps>(draft.how, head_format);
    QR_TRY(const LoadOptions how, load_options(draft.how, &file));
    QR_TRY(eagle, load_eagle(draft.how.model, {target.info(), &file, &how}, *counted.ops));
    needs.draft.token_bytes = eagle->kv_layout.token_bytes();
  } else if (draft.kind == DraftKind::model) {
    QR_TRY(const std::string path, model_path(draft.how.model));
    QR_TRY(const ModelFile its, open_model(path));
    QR_TRY(counted, count(its, draft.how));
    QR_TRY(counted.model, shorten(std::move(counted.model), its, draft, *counted.ops, true));
    needs.process += bridge_bytes(file.path, target.info().n_vocab, path, counted.model->info().n_vocab);
  } else if (draft.kind == DraftKind::mtp) {
    QR_TRY(counted, count(file, draft.how, &target));
  }
  if (counted.model != nullptr) needs.draft.token_bytes = counted.model->info().kv_layout.token_bytes();
  env.draft = counted.model.get();
  env.medusa = heads.get();
  env.eagle = eagle.get();
  if (counted.ops != nullptr) {
    needs.draft.weights = counted.ops->bytes;
    needs.largest = std::max(needs.largest, counted.ops->largest);
  }
  needs.draft.scratch = proposer_bytes(options.proposer, {options.max_draft, options.max_side}, env);
  needs.weights += needs.draft.weights;
  needs.token_bytes += needs.draft.token_bytes;
  needs.scratch += needs.draft.scratch;
  return {};
}

}  // namespace

std::string memory_text(int64_t bytes) {
  char text[64];
  const double mib = static_cast<double>(bytes) / (1 << 20);
  std::snprintf(text, sizeof text, mib < 1024 ? "%.1f MiB" : "%.2f GiB", mib < 1024 ? mib : mib / 1024);
  return text;
}

Result<MemoryNeeds> measure_needs(const ModelFile& file,
                                  const ModelOptions& model,
                                  const EngineOptions& options,
                                  const DraftSource& draft) {
  QR_TRY(const Counted counted, count(file, model));
  const CountingOps& ops = *counted.ops;
  const ModelInfo& info = counted.model->info();
  MemoryNeeds out;
  out.weights = ops.bytes;
  out.matrix_elements = ops.elements;
  out.largest = ops.largest;
  const int64_t behind_weights = (kHugePage - ops.bytes % kHugePage) % kHugePage;
  out.process = kProcessBytes + kVocabularyBytes * info.n_vocab + behind_weights;
  out.block_tokens = options.block_tokens;
  out.n_ctx = info.n_ctx;
  out.step = StepNeeds(info);
  out.token_bytes = info.kv_layout.token_bytes();
  const int64_t step_blocks = (options.step_tokens + options.block_tokens - 1) / std::max(options.block_tokens, 1);
  for (int g = 1; g < info.kv_layout.n_groups(); ++g) {
    if (info.kv_layout.group(g).kind == KvGroup::Kind::state) continue;
    if (info.kv_layout.group(g).is_private) {
      out.token_bytes -= info.kv_layout.token_bytes(g);
      out.tail_bytes += (2 + step_blocks) * info.kv_layout.block_bytes(g, std::max(options.block_tokens, 1));
      continue;
    }
    const int64_t blocks = info.kv_layout.group(g).most_blocks(1, std::max(options.block_tokens, 1)) + step_blocks;
    out.window_tokens = std::max(out.window_tokens, blocks * options.block_tokens);
    out.window_token_bytes += info.kv_layout.token_bytes(g);
  }
  EngineOptions resolved = options;
  if (resolved.n_ctx == 0) resolved.n_ctx = info.n_ctx;
  const bool gives_way = draft.gives_way && info.kv_layout.state_bytes() > 0;
  settle_drafts(resolved, !resolved.proposer.empty() && !gives_way);
  out.state_bytes = n_states_for(resolved, 1) * info.kv_layout.state_bytes();
  QR_TRY_VOID(check_options(resolved, info.strip_tokens));
  out.scratch = scratch_bytes(*counted.model, resolved);
  // A device's steps leave them on the host, which is not planned for here.
  if (resolved.overlap.value_or(false) && !has_own_memory(model)) out.scratch += sent_bytes(info.n_vocab, resolved);
  QR_TRY_VOID(add_draft(file, *counted.model, resolved, draft, out));
  return out;
}

namespace {

// "a, b or c" of those that are not empty.
std::string one_of(const std::vector<std::string>& ways) {
  std::string out;
  for (size_t i = ways.size(); i-- > 0;) {
    if (ways[i].empty()) continue;
    const bool last = out.empty(), only_two = out.find(" or ") == std::string::npos;
    out = ways[i] + (last ? "" : only_two ? " or " : ", ") + out;
  }
  return out;
}

// How long a context that memory holds, at most what the model has.
int64_t tokens_in(const MemoryNeeds& needs, int64_t bytes) {
  if (needs.token_bytes == 0) return needs.n_ctx;
  bytes -= needs.state_bytes + needs.tail_bytes;
  const int64_t beyond = bytes - needs.window_tokens * needs.token_bytes;
  if (needs.window_tokens == 0 || beyond <= 0) return bytes / needs.token_bytes;
  const int64_t full = needs.token_bytes - needs.window_token_bytes;
  return full == 0 ? needs.n_ctx : needs.window_tokens + beyond / full;
}

}  // namespace

std::string smaller_weights(const MemoryNeeds& needs) {
  if (needs.matrix_elements <= 0) return "--weights q8_0";
  const double bits = 8.0 * static_cast<double>(needs.weights) / static_cast<double>(needs.matrix_elements);
  return bits > 9.5 ? "--weights q8_0" : bits > 6 ? "--weights q4_k" : "";
}

Result<MemoryPlan> plan_memory(const MemoryNeeds& needs, int64_t available, const EngineOptions& wanted) {
  const int64_t fixed = needs.weights + needs.scratch + needs.largest + needs.process;
  const int64_t left = available - fixed;
  const int64_t smallest = needs.kv_bytes(wanted.n_ctx > 0 ? wanted.n_ctx : std::min<int64_t>(needs.n_ctx, kLeastCtx));
  if (left < needs.kv_bytes(1)) {
    return tl::make_unexpected(does_not_fit("the model", fixed + smallest, available,
                                            one_of({smaller_weights(needs), "a smaller model", "more memory"})));
  }
  const auto tokens_of = [&](int64_t bytes) { return tokens_in(needs, bytes) / kCtxStep * kCtxStep; };
  if (wanted.kv_bytes > 0) {
    if (wanted.kv_bytes <= left) return MemoryPlan{wanted.n_ctx > 0 ? wanted.n_ctx : needs.n_ctx, wanted.kv_bytes};
    return tl::make_unexpected(does_not_fit("--kv-memory " + memory_text(wanted.kv_bytes), fixed + wanted.kv_bytes,
                                            available, "--kv-memory " + std::to_string(left >> 20) + "M or auto"));
  }
  if (smallest > left) {
    const int64_t n_fit = tokens_of(left);
    const std::string ctx = wanted.n_ctx > 0 && n_fit > 0 ? "--ctx " + std::to_string(n_fit) : "";
    const std::string advice = one_of({ctx, smaller_weights(needs), "a smaller model"});
    const std::string what = wanted.n_ctx > 0 ? "--ctx " + std::to_string(wanted.n_ctx) : "the model with a context";
    return tl::make_unexpected(does_not_fit(what, fixed + smallest, available, advice));
  }
  MemoryPlan out;
  out.n_ctx = wanted.n_ctx;
  if (out.n_ctx == 0) {
    const int64_t beside_adapters = std::max(left - needs.adapters, smallest);
    const bool whole = needs.kv_bytes(needs.n_ctx) <= beside_adapters;
    out.n_ctx = whole
                    ? needs.n_ctx
                    : static_cast<int>(std::max(tokens_of(beside_adapters), std::min<int64_t>(needs.n_ctx, kLeastCtx)));
  }
  const int64_t context = needs.kv_bytes(out.n_ctx);
  const int64_t spare = needs.kv_bytes(1);  // a copy of a shared last block
  const int64_t many = context * std::min(wanted.max_seqs, 8) + spare;
  out.kv_bytes = std::clamp(many, context, std::max(context, std::min(left / 2, left - needs.adapters)));
  return out;
}

Status check_context(const MemoryNeeds& needs, int n_ctx, int64_t kv_bytes) {
  MemoryNeeds own = needs;
  own.token_bytes -= needs.draft.token_bytes;
  if (n_ctx == 0 || kv_bytes == 0 || own.kv_bytes(n_ctx) <= kv_bytes) return {};
  const int64_t room_tokens = tokens_in(own, kv_bytes) / own.block_tokens * own.block_tokens;
  const std::string ctx = room_tokens > 1 ? "--ctx " + std::to_string(room_tokens) : "";
  const std::string memory = "--kv-memory " + std::to_string((own.kv_bytes(n_ctx) + (1 << 20) - 1) >> 20) + "M";
  return tl::make_unexpected(does_not_fit("--ctx " + std::to_string(n_ctx) + " in that --kv-memory",
                                          own.kv_bytes(n_ctx), kv_bytes, one_of({ctx, memory})));
}

Result<ModelFile> fit_memory(ModelOptions& model,
                             EngineOptions& options,
                             const DraftSource& draft,
                             int64_t adapter_bytes) {
  QR_TRY(model.model, model_path(model.model));
  QR_TRY(ModelFile file, open_model(model.model));
  QR_TRY(MemoryNeeds needs, measure_needs(file, model, options, draft));
  needs.adapters = adapter_bytes;
  if (const Status fits = check_context(needs, options.n_ctx, options.kv_bytes); !fits)
    return error_within(model.model, fits.error());
  const auto own_bytes = static_cast<double>(needs.token_bytes - needs.draft.token_bytes);
  EngineOptions wanted = options;
  const double share = needs.token_bytes == 0 ? 1 : own_bytes / static_cast<double>(needs.token_bytes);
  wanted.kv_bytes = static_cast<int64_t>(static_cast<double>(options.kv_bytes) / share);
  Result<MemoryPlan> plan = plan_memory(needs, memory_of(model), wanted);
  if (!plan) return error_within(model.model, std::move(plan).error());
  if (options.n_ctx == 0 && plan->n_ctx < needs.n_ctx) {
    log_info(model.model + ": a context of " + std::to_string(plan->n_ctx) + " tokens fits; the model could take " +
             std::to_string(needs.n_ctx));
  }
  model.ctx = options.n_ctx = plan->n_ctx;
  if (!draft.is_beside()) {
    options.kv_bytes = plan->kv_bytes;
  } else if (options.kv_bytes == 0) {
    options.kv_bytes = static_cast<int64_t>(static_cast<double>(plan->kv_bytes) * share);
  }
  return file;
}

Status check_weights_fit(const ModelFile& file, const ModelOptions& model) {
  EngineOptions least;
  least.step_tokens = least.max_chunk = least.max_seqs = 1;
  least.n_ctx = 2;
  QR_TRY(const MemoryNeeds needs, measure_needs(file, model, least));
  least.kv_bytes = needs.kv_bytes(1);
  const Result<MemoryPlan> plan = plan_memory(needs, memory_of(model), least);
  if (!plan) return error_within(file.path, plan.error());
  return {};
}

}  // namespace quire
