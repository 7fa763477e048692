#include "engine/engine.h"

#include <algorithm>
#include <string>

#include "base/memory.h"
#include "engine/limits.h"
#include "engine/loop_engine.h"
#include "engine/option_ranges.h"
#include "engine/watched_engine.h"
#include "kv/kv_policy.h"
#include "kv/tiers/disk_tier.h"
#include "kv/tiers/remote_tier.h"
#include "spec/several.h"

namespace quire {
namespace {

// Whether the model gives a proposer what it taps, and there is room for it.
Status check_taps(const Proposer& proposer, const ModelInfo& info, int n_out) {
  for (const Tap& tap : proposer.taps()) {
    if (!info.has_taps) {
      return fail(Code::unsupported,
                  "the proposer drafts from hidden states, and a " + info.arch + " model gives none");
    }
    QR_CHECK(tap.out.rank == 2 && tap.out.dim(0) >= n_out && tap.out.dim(1) == info.n_embd, "taps without room");
  }
  return {};
}

// The same of hidden states of every row.
Status check_all_rows(const Proposer& proposer, const ModelInfo& info, int n_rows) {
  for (const StreamTap& tap : proposer.all_rows()) {
    if (tap.n_layers < 1 || tap.n_layers > info.n_layers) {
      return fail(Code::invalid, "the proposer reads what is behind " + std::to_string(tap.n_layers) +
                                     " layers: the model has " + std::to_string(info.n_layers));
    }
    QR_CHECK(tap.out.rank == 2 && tap.out.dim(0) >= n_rows && tap.out.dim(1) == info.n_embd, "taps without room");
    QR_CHECK(tap.rows.dim(0) >= n_rows, "taps without rows");
  }
  return {};
}

// Puts the proposer that the options name into `env`, unless it has one.
Status find_proposer(ProposerEnv uses, EngineOptions& options, EngineEnv& env) {
  uses.n_out = max_out_rows(options);
  uses.n_rows = options.step_tokens;
  if (env.proposer == nullptr && !options.proposer.empty()) {
    QR_TRY(env.proposer, make_proposers(options.proposer, {options.max_draft, options.max_side}, uses));
  }
  if (env.proposer == nullptr) return {};
  options.max_draft = std::min(options.max_draft, env.proposer->max_draft());
  options.max_side = std::min(options.max_side, env.proposer->max_side());
  QR_TRY_VOID(check_all_rows(*env.proposer, uses.target->info(), options.step_tokens));
  return check_taps(*env.proposer, uses.target->info(), max_out_rows(options));
}

bool has_tier(const EngineOptions& options, const EngineEnv& env) {
  return !env.tiers.empty() || !options.kv_disk.empty() || !options.kv_remote.empty();
}

Status open_disk(const EngineOptions& options, const StoreShape& shape, EngineEnv& env) {
  DiskTierOptions disk;
  disk.store.most_bytes = options.kv_disk_bytes;
  disk.store.shape = shape;
  disk.store.retain_bytes = static_cast<int64_t>(options.retain_share * static_cast<double>(options.kv_disk_bytes));
  Result<std::unique_ptr<DiskTier>> tier = DiskTier::open(options.kv_disk, disk, *env.clock);
  if (!tier) return fail(tier.error().code, "kv_disk: " + tier.error().message);
  env.tiers.push_back(std::move(*tier));
  return {};
}

Status open_remote(const EngineOptions& options, const StoreShape& shape, EngineEnv& env) {
  if (options.kv_remote_keep_s < 1 || options.kv_remote_keep_s > kMostRemoteKeepS) {
    return fail(Code::invalid, "kv_remote_keep_s must be 1 to " + std::to_string(kMostRemoteKeepS) + ", got " +
                                   std::to_string(options.kv_remote_keep_s));
  }
  Result<RemoteTierOptions> remote =
      parse_remote_tier(options.kv_remote, options.kv_remote_password,
                        {options.kv_remote_ca, options.kv_remote_cert, options.kv_remote_key});
  if (!remote) return fail(remote.error().code, "kv_remote: " + remote.error().message);
  remote->shape = shape;
  remote->keep_s = options.kv_remote_keep_s;
  const Status possible = check_remote(*remote);
  if (!possible) return fail(possible.error().code, "kv_remote: " + possible.error().message);
  env.tiers.push_back(std::make_shared<RemoteTier>(std::move(*remote), *env.clock));
  return {};
}

// Puts the tiers that the options name into `env`, nearest first, unless it has some.
Status open_tiers(const EngineOptions& options, const ModelInfo& info, EngineEnv& env) {
  if (!env.tiers.empty() || !has_tier(options, env)) return {};
  if (!options.prefix_cache) {
    return fail(Code::invalid, std::string(options.kv_disk.empty() ? "kv_remote" : "kv_disk") +
                                   " needs the prefix cache, which is off");
  }
  StoreShape shape{info.fingerprint, options.block_tokens, {}};
  for (int g = 0; g < info.kv_layout.n_groups(); ++g)
    shape.group_bytes.push_back(info.kv_layout.block_bytes(g, options.block_tokens));
  if (!options.kv_disk.empty()) {
    QR_TRY_VOID(open_disk(options, shape, env));
  }
  return options.kv_remote.empty() ? Status{} : open_remote(options, shape, env);
}

// Each content once.
Status check_prefixes(std::vector<VirtualTokens>& prefixes, int n_ctx) {
  for (size_t i = 0; i < prefixes.size(); ++i) {
    QR_CHECK(prefixes[i].content != 0);
    QR_TRY_VOID(check_virtual(prefixes[i].n, n_ctx));
    const auto again = [&](const VirtualTokens& other) { return other.content == prefixes[i].content; };
    prefixes.erase(std::remove_if(prefixes.begin() + static_cast<std::ptrdiff_t>(i) + 1, prefixes.end(), again),
                   prefixes.end());
  }
  return {};
}

// Blocks of every group that learned prefixes have for good.
int n_learned_blocks(const EngineEnv& env, int block_tokens) {
  int n = 0;
  for (const VirtualTokens& tokens : env.prefixes) n += (tokens.n + block_tokens - 1) / block_tokens;
  return n;
}

// Blocks that hold something in every layer: where all have a window those of the first group only number the past.
int n_with_bytes(const BlockCounts& counts, const KvLayout& layout) {
  return layout.token_bytes(0) > 0 || layout.token_bytes() == 0 ? counts.n_blocks : counts.n_window_blocks;
}

// What is left where blocks lie: of the system's memory, or of a device's, which the step's arena takes from, too.
int64_t memory_for_blocks(const Model& model, Ops& ops, const EngineOptions& options) {
  const int64_t of_device = ops.free_bytes();
  return of_device < 0 ? available_memory() : std::max<int64_t>(of_device - scratch_bytes(model, options), 0);
}

// What steps cannot overlap beside; empty: nothing. Whom a grammar is guessed for has a rule, which makes steps wait by
// itself. Before find_proposer().
std::string why_no_overlap(const EngineOptions& options, const EngineEnv& env) {
  if (env.recorder != nullptr) return "a recording";
  if (options.step_target_ms > 0) return "step_target_ms, by which streams take turns";
  const bool guesses = env.proposer != nullptr || (!options.proposer.empty() && options.proposer != "grammar");
  return guesses ? "guesses other than a grammar's: whether they were right is known when a step has ended" : "";
}

// Fills in options.overlap. Code::invalid where it was asked for and cannot be.
Status settle_overlap(EngineOptions& options, const EngineEnv& env, Ops& ops) {
  const std::string why = why_no_overlap(options, env);
  if (!why.empty() && options.overlap.value_or(false)) return fail(Code::invalid, "overlap on excludes " + why);
  options.overlap = why.empty() && options.overlap.value_or(ops.ahead() != nullptr);
  return {};
}

Result<EngineMemory> take_memory(
    const EngineUses& uses, const EngineOptions& options, const BlockCounts& counts, int n_learned, bool recorded) {
  const KvLayout& layout = uses.model.info().kv_layout;
  EngineMemory memory;
  memory.n_learned = n_learned;
  memory.counts = counts;
  QR_TRY(memory.pins, limit_pins(options, layout, counts, recorded));
  memory.retention = limit_retention(options, counts);
  for (int g = 0; g < layout.n_groups(); ++g) {
    const int64_t n_blocks = n_learned + memory.counts.of(layout.group(g));
    Buffer& blocks = memory.blocks.emplace_back();
    const int64_t bytes = n_blocks * layout.block_bytes(g, options.block_tokens);
    if (bytes > 0) {
      QR_TRY(blocks, uses.ops.allocate_blocks(bytes));
    }
  }
  QR_TRY(memory.scratch, uses.ops.allocate_arena(scratch_bytes(uses.model, options)));
  return memory;
}

}  // namespace

Result<std::unique_ptr<Engine>> make_engine(const Model& model, Ops& ops, EngineOptions options, EngineEnv env) {
  return make_watched_engine(model, ops, std::move(options), std::move(env), nullptr);
}

Result<std::unique_ptr<Engine>> make_watched_engine(
    const Model& model, Ops& ops, EngineOptions options, EngineEnv env, BlockWatcher* watcher) {
  QR_CHECK(env.clock != nullptr);
  const ModelInfo& info = model.info();
  if (options.n_ctx == 0) options.n_ctx = info.n_ctx;
  QR_TRY_VOID(check_options(options, info.strip_tokens));
  QR_TRY_VOID(check_shift(info.shift, options.block_tokens, {!env.prefixes.empty(), env.recorder != nullptr}));
  QR_TRY_VOID(check_tails(info.kv_layout, env.recorder != nullptr));
  QR_TRY_VOID(check_state(info.kv_layout, {!env.prefixes.empty(), env.recorder != nullptr, has_tier(options, env)}));
  settle_drafts(options, env.proposer != nullptr || !options.proposer.empty());
  QR_TRY(const PolicyEntry* policy, find_entry<PolicyEntry>("policy", options.policy));
  QR_TRY_VOID(find_entry<KvPolicyEntry>("kv_policy", options.kv_policy));
  if (options.kv_bytes == 0)
    options.kv_bytes = default_kv_bytes(options, info.kv_layout, memory_for_blocks(model, ops, options));
  if (options.swap_bytes > 0 && env.recorder != nullptr)
    return fail(Code::invalid, "swap_bytes excludes a recording: no copies are in it");
  QR_TRY_VOID(check_prefixes(env.prefixes, options.n_ctx));
  const int n_learned = n_learned_blocks(env, options.block_tokens);
  QR_TRY(const BlockCounts counts, count_blocks(options, info.kv_layout, n_learned));
  const ProposerEnv proposing{.target = &model,
                              .ops = &ops,
                              .n_ctx = options.n_ctx,
                              .max_seqs = options.max_seqs,
                              .block_tokens = options.block_tokens,
                              .n_blocks = n_with_bytes(counts, info.kv_layout),
                              .prefix_cache = options.prefix_cache,
                              .draft = env.draft,
                              .bridge = env.bridge,
                              .medusa = env.medusa,
                              .eagle = env.eagle,
                              .tokenizer = env.tokenizer,
                              .exit_layers = options.exit_layers};
  QR_TRY_VOID(settle_overlap(options, env, ops));
  QR_TRY_VOID(find_proposer(proposing, options, env));
  if (env.proposer != nullptr && env.proposer->writes_ahead() && env.recorder != nullptr)
    return fail(Code::invalid, "exit_layers excludes a recording: blocks that guesses are written into are not in it");
  QR_TRY_VOID(open_tiers(options, info, env));
  const EngineUses uses{model, ops, *policy->get()};
  QR_TRY(EngineMemory memory, take_memory(uses, options, counts, n_learned, env.recorder != nullptr));
  memory.watcher = watcher;
  options.pin_bytes = memory.pins.bytes;
  bool parts = false;  // with its past, as KvCache::parts_with_past
  for (int g = 1; g < info.kv_layout.n_groups(); ++g) parts = parts || !info.kv_layout.group(g).is_private;
  parts = parts && env.recorder == nullptr;
  if (options.swap_bytes < 0) options.swap_bytes = parts ? options.kv_bytes / 4 : 0;
  auto engine = std::make_unique<LoopEngine>(uses, options, std::move(env), std::move(memory));
  QR_TRY_VOID(engine->learned());
  return engine;
}

}  // namespace quire
