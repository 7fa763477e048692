#include "engine/limits.h"

#include <algorithm>
#include <string>

#include "engine/batcher.h"
#include "engine/budget.h"
#include "engine/option_ranges.h"
#include "engine/policy.h"
#include "engine/tenants.h"

namespace quire {
namespace {

Status check_ids(const Request& request, int n_vocab) {
  const auto outside = [n_vocab](Token id) { return id < 0 || id >= n_vocab; };
  const auto refuse = [n_vocab](const char* what, Token id) {
    return fail(Code::invalid, std::string(what) + " names token " + std::to_string(id) + "; the vocabulary has 0 to " +
                                   std::to_string(n_vocab - 1));
  };
  for (const Token id : request.prompt) {
    if (outside(id)) return refuse("the prompt", id);
  }
  for (const Token id : request.output) {
    if (outside(id)) return refuse("the answer so far", id);
  }
  const SamplingParams& sampling = request.sampling;
  for (const Edit& edit : sampling.logit_bias) {
    if (outside(edit.id)) return refuse("logit_bias", edit.id);
  }
  for (const Token id : sampling.allowed_ids) {
    if (outside(id)) return refuse("allowed_token_ids", id);
  }
  for (const std::vector<Token>& word : sampling.bad_words) {
    const auto at = std::find_if(word.begin(), word.end(), outside);
    if (at != word.end()) return refuse("bad_words", *at);
  }
  return {};
}

}  // namespace

Status check_options(const EngineOptions& o, int strip_tokens) {
  const auto range = [](const char* name, int value, int lo, int hi) -> Status {
    if (value >= lo && value <= hi) return {};
    return fail(Code::invalid, std::string(name) + " must be " + std::to_string(lo) + " to " + std::to_string(hi) +
                                   ", got " + std::to_string(value));
  };
  QR_TRY_VOID(range("max_seqs", o.max_seqs, 1, kMostSeqs));
  QR_TRY_VOID(range("step_tokens", o.step_tokens, 1, kMostStepTokens));
  QR_TRY_VOID(range("max_chunk", o.max_chunk, 1, kMostStepTokens));
  QR_TRY_VOID(range("n_ctx", o.n_ctx, 2, kMostContext));
  QR_TRY_VOID(range("max_draft", o.max_draft, 0, kMostDraft));
  QR_TRY_VOID(range("max_side", o.max_side, 0, kMostSide));
  QR_TRY_VOID(range("draft_rows", o.draft_rows, 0, 1 << 16));
  QR_TRY_VOID(range("max_queue", o.max_queue, 1, kMostQueue));
  QR_TRY_VOID(range("allowance", o.allowance, 0, kMostAllowance));
  QR_TRY_VOID(range("max_pins", o.max_pins, 1, 1 << 16));
  for (const auto& [name, ms] :
       {std::pair("itl_target_ms", o.itl_target_ms), std::pair("step_target_ms", o.step_target_ms)}) {
    if (ms >= 0 && ms <= kMostTargetMs) continue;  // a number that is none is refused too
    return fail(Code::invalid, std::string(name) + " must be 0 to " + std::to_string(static_cast<int>(kMostTargetMs)) +
                                   ", got " + std::to_string(ms));
  }
  for (const auto& [name, share] :
       {std::pair("retain_share", o.retain_share), std::pair("recompute_share", o.recompute_share)}) {
    if (share >= 0 && share <= 1) continue;
    return fail(Code::invalid, std::string(name) + " must be 0 to 1, got " + std::to_string(share));
  }
  if (o.block_tokens < strip_tokens || o.block_tokens > 4096 || o.block_tokens % strip_tokens != 0) {
    return fail(Code::invalid, "block_tokens must be a multiple of " + std::to_string(strip_tokens) +
                                   " up to 4096, got " + std::to_string(o.block_tokens));
  }
  return {};
}

Status check_shift(const ContextShift& shift, int block_tokens, const BesideShift& wanted) {
  if (!shift.is_on()) return {};
  const std::string named = "a context shift with " + std::to_string(shift.n_sinks) + " sinks and a window of " +
                            std::to_string(shift.window) + " tokens";
  if (shift.window < block_tokens) {
    return fail(Code::invalid,
                named + " needs a window of at least a block, which is " + std::to_string(block_tokens) + " tokens");
  }
  if (wanted.learned_prefixes)
    return fail(Code::invalid, named + " excludes learned prefixes: the window would leave them behind");
  if (wanted.recording) return fail(Code::invalid, named + " excludes a recording: what is kept is in none");
  return {};
}

Status check_tails(const KvLayout& layout, bool recording) {
  for (int g = 0; g < layout.n_groups() && recording; ++g) {
    if (layout.group(g).is_private)
      return fail(Code::invalid, "a cache whose codec packs strips of tokens excludes a recording: tails are in none");
  }
  return {};
}

Status check_state(const KvLayout& layout, const BesideState& wanted) {
  if (layout.state_bytes() == 0) return {};
  const std::string named = "a model whose layers keep a state of " + std::to_string(layout.state_bytes()) + " bytes";
  if (wanted.learned_prefixes)
    return fail(Code::invalid, named + " takes no learned prefixes: they bring keys and values but no state");
  if (wanted.recording)
    return fail(Code::invalid, named + " cannot be recorded: a recording does not hold layers' states");
  if (wanted.disk) return fail(Code::invalid, named + " excludes kv_disk and kv_remote: states are not stored there");
  return {};
}

Status check_virtual(int n_virtual, int n_ctx) {
  if (n_virtual >= 1 && n_virtual <= n_ctx - 2) return {};
  return fail(Code::invalid, "a learned prefix has " + std::to_string(n_virtual) + " virtual tokens; the context of " +
                                 std::to_string(n_ctx) + " takes 1 to " + std::to_string(n_ctx - 2));
}

Status check_retention(const Request& request) {
  const auto bad = [](const char* name, int64_t value, int64_t lo, int64_t hi) {
    return fail(Code::invalid, "retention: " + std::string(name) + " must be " + std::to_string(lo) + " to " +
                                   std::to_string(hi) + ", got " + std::to_string(value));
  };
  const auto n = static_cast<int64_t>(request.retention.size());
  const auto most = static_cast<int64_t>(kMostRetentionRanges);
  if (n > most) return bad("ranges", n, 0, most);
  for (const RetentionRange& range : request.retention) {
    if (range.priority < 0 || range.priority > kMostPriority) return bad("priority", range.priority, 0, kMostPriority);
    if (range.duration_ns < 1 || range.duration_ns > kMostRetentionNs)
      return bad("nanoseconds", range.duration_ns, 1, kMostRetentionNs);
    if (range.begin < 0 || range.begin >= range.end)
      return fail(Code::invalid, "retention: a range begins at " + std::to_string(range.begin) + " and ends at " +
                                     std::to_string(range.end) + "; it has at least one token from 0 on");
  }
  return {};
}

std::string_view why_no_budget(const ModelInfo& model, Ops& ops, bool recorded) {
  if (recorded) return "this run is recorded, and a recording holds no votes";
  if (ops.free_bytes() >= 0) return "the backend keeps the cache on a device, where no votes are counted";
  if (model.shift.is_on()) return "the context is shifted, which drops tokens by itself";
  for (int g = 1; g < model.kv_layout.n_groups(); ++g) {
    const KvGroup& group = model.kv_layout.group(g);
    if (group.kind == KvGroup::Kind::state) return "the model has layers that keep a state";
    return group.is_private ? "the cache packs strips of tokens (kivi2)" : "the model has layers that see a window";
  }
  if (model.sees_chunks) return "the model has layers that see a chunk of positions";
  for (const AttnParams& layer : model.attention) {
    if (layer.values_in_keys) return "the model has latent attention";
    if (layer.most_slope_bits > 0) return "the model counts distances by place in the cache (ALiBi)";
  }
  return {};
}

namespace {

Status check_budget(const Request& request, const RequestLimits& limits) {
  if (request.kv_budget == 0) return {};
  const std::string named = "kv_budget is " + std::to_string(request.kv_budget);
  if (!limits.no_budget.empty())
    return fail(Code::invalid, named + ", and there can be none: " + std::string(limits.no_budget));
  if (request.prefix != 0) return fail(Code::invalid, named + ": a request has a budget or a learned prefix, not both");
  if (request.pin.id != 0) return fail(Code::invalid, named + ": a prompt that is pinned is kept as a whole");
  const int least = least_budget(limits.block_tokens);
  if (request.kv_budget >= least) return {};
  return fail(Code::invalid, named + "; it must be at least " + std::to_string(least) + ": the window of " +
                                 std::to_string(kVotingRows) +
                                 " tokens at the prompt's end and the first block, in blocks of " +
                                 std::to_string(limits.block_tokens));
}

}  // namespace

Status check_request(Request& request, const RequestLimits& limits, int n_virtual) {
  if (request.prompt.empty()) return fail(Code::invalid, "the prompt has no tokens; at least 1 is needed");
  if (request.max_tokens < 1) {
    return fail(Code::invalid, "max_tokens must be at least 1, got " + std::to_string(request.max_tokens));
  }
  if (request.deadline_ns < 0 || request.deadline_ns > kMostDeadlineNs) {
    return fail(Code::invalid, "deadline_ns must be 0 to " + std::to_string(kMostDeadlineNs) + ", got " +
                                   std::to_string(request.deadline_ns));
  }
  if (request.weight < 1 || request.weight > kMostWeight) {
    return fail(Code::invalid,
                "weight must be 1 to " + std::to_string(kMostWeight) + ", got " + std::to_string(request.weight));
  }
  if (request.adapter != nullptr && request.prefix != 0)
    return fail(Code::invalid, "a request has an adapter or a learned prefix, not both");
  const int n_ctx = limits.n_ctx - n_virtual;
  if (request.prompt.size() >= static_cast<size_t>(n_ctx)) {
    const std::string behind = n_virtual > 0 ? " behind " + std::to_string(n_virtual) + " virtual tokens" : "";
    return fail(Code::invalid, "the prompt has " + std::to_string(request.prompt.size()) + " tokens; the context of " +
                                   std::to_string(limits.n_ctx) + " leaves room for at most " +
                                   std::to_string(n_ctx - 1) + behind);
  }
  QR_TRY_VOID(check_ids(request, limits.n_vocab));
  QR_TRY_VOID(check_retention(request));
  QR_TRY_VOID(check_budget(request, limits));
  const auto n_prompt = static_cast<int>(request.prompt.size());
  if (request.n_public < 0 || request.n_public > n_prompt) {
    return fail(Code::invalid, "n_public must be 0 to the prompt's " + std::to_string(n_prompt) + " tokens, got " +
                                   std::to_string(request.n_public));
  }
  request.max_tokens = std::min(request.max_tokens, n_ctx - n_prompt);
  // The last token's keys are never needed; what the virtual ones leave of a block is copied.
  const int n_tokens = n_virtual % limits.block_tokens + n_prompt + request.max_tokens - 1;
  const int n_kept = kept_blocks(request.kv_budget, n_prompt, limits.block_tokens);
  const int n_blocks = (n_tokens + limits.block_tokens - 1) / limits.block_tokens + n_kept;
  // Pins leave room for a context; copies come on top of it.
  const int n_there = limits.n_blocks - (n_kept > 0 ? limits.n_pinnable : 0);
  if (n_blocks > n_there) {
    const std::string copied = n_kept > 0 ? ", copies of those that kv_budget keeps among them" : "";
    const std::string pinned = n_kept > 0 && limits.n_pinnable > 0 ? " beside those that may be pinned" : "";
    return fail(Code::exhausted, "prompt and answer of " + std::to_string(n_tokens) + " tokens need " +
                                     std::to_string(n_blocks) + " cache blocks" + copied + "; there are " +
                                     std::to_string(n_there) + pinned);
  }
  return {};
}

namespace {

constexpr int kContexts = 8;     // that memory is taken for when nothing was asked for
constexpr int kLeastStates = 2;  // one that is read, one that is written

// Bytes of a block over the layers of each kind, and what bounds the blocks that windows need.
struct Shape {
  int64_t full_bytes = 0, window_bytes = 0, state_bytes = 0, tail_bytes = 0;
  int64_t for_one = 0;        // blocks that a window needs in a step with one sequence
  int64_t between = 0;        // that it holds between steps
  int64_t tails_for_one = 0;  // blocks of tails that a step with one sequence fills
  int64_t in_step = 0;        // that a whole step's tokens fill
  int64_t for_context = 0;    // that n_ctx tokens fill
};

Shape shape_of(const EngineOptions& o, const KvLayout& layout) {
  Shape out;
  const auto blocks = [&](int64_t n_tokens) { return (n_tokens + o.block_tokens - 1) / o.block_tokens; };
  for (int g = 0; g < layout.n_groups(); ++g) {
    const KvGroup& group = layout.group(g);
    const bool is_window = group.kind == KvGroup::Kind::window;
    if (group.kind == KvGroup::Kind::state) {
      out.state_bytes += layout.block_bytes(g, o.block_tokens);
      continue;
    }
    const int64_t for_one = group.most_blocks(std::min({o.max_chunk, o.step_tokens, o.n_ctx}), o.block_tokens);
    if (group.is_private) {
      out.tail_bytes += layout.block_bytes(g, o.block_tokens);
      out.tails_for_one = std::max(out.tails_for_one, for_one);
      continue;
    }
    (is_window ? out.window_bytes : out.full_bytes) += layout.block_bytes(g, o.block_tokens);
    if (!is_window) continue;
    out.for_one = std::max(out.for_one, for_one);
    out.between = std::max(out.between, group.most_blocks(1, o.block_tokens));
  }
  out.in_step = blocks(o.step_tokens);
  out.for_context = blocks(o.n_ctx);
  return out;
}

// a · b of counts and bytes, held at what no machine has, so that two of them can be added.
int64_t times(int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 61;
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? kMost : std::min(out, kMost);
}

int64_t running(const EngineOptions& o) { return std::min(o.max_seqs, o.step_tokens); }

// Window blocks that `n` sequences can hold at most.
int64_t for_windows(const Shape& s, int64_t n) {
  return std::min(std::max(n * s.between + s.in_step, s.for_one), n * s.for_context);
}

// Blocks of tails that `n` sequences fill in a step: those of its rows, and two that a sequence's rows begin and end
// in.
int64_t for_tails(const Shape& s, int64_t n) {
  return std::min(std::max(2 * n + s.in_step, s.tails_for_one), n * s.for_context);
}

}  // namespace

void settle_drafts(EngineOptions& options, bool guesses) {
  constexpr int kUsual = 4, kUsualAdapting = 8;
  const int usual = options.adapt_draft ? kUsualAdapting : kUsual;
  options.max_draft = !guesses ? 0 : options.max_draft == 0 ? usual : options.max_draft;
  if (!guesses) options.max_side = 0;
}

int64_t most_drafted(const EngineOptions& options, int64_t n) {
  return options.draft_rows == 0 ? n : std::min<int64_t>(n, options.draft_rows);
}

int max_out_rows(const EngineOptions& options) {
  const int64_t n_drafted = running(options) * (options.max_draft + options.max_side);
  return static_cast<int>(std::min<int64_t>(running(options) + most_drafted(options, n_drafted), options.step_tokens));
}

int64_t scratch_bytes(const Model& model, const EngineOptions& options) {
  return model.arena_bytes(options.step_tokens, max_out_rows(options)) +
         batch_bytes({.n_tokens = options.step_tokens,
                      .n_seqs = running(options),
                      .n_ctx = options.n_ctx,
                      .block_tokens = options.block_tokens,
                      .n_groups = model.info().kv_layout.n_groups(),
                      .n_branches = std::min<int64_t>(running(options) * options.max_side, options.step_tokens)});
}

int64_t sent_rows(int n_vocab, const EngineOptions& options) {
  return std::min<int64_t>(std::min(options.max_seqs, options.step_tokens),
                           kMostSentBytes / ((int64_t{n_vocab} + 1) * 4));
}

int64_t sent_bytes(int n_vocab, const EngineOptions& options) {
  return 2 * sent_rows(n_vocab, options) * (int64_t{n_vocab} + 1) * 4;
}

int64_t cache_bytes(const EngineOptions& options, const KvLayout& layout, int n_contexts) {
  const Shape s = shape_of(options, layout);
  return times(n_contexts * s.for_context, s.full_bytes) + times(for_windows(s, n_contexts), s.window_bytes) +
         times(for_tails(s, n_contexts), s.tail_bytes) + times(n_states_for(options, n_contexts), s.state_bytes);
}

// No more than a quarter of the memory that is available now; half of it where one context takes that. Under one
// context the longest requests are refused, which is better than being killed later.
int64_t default_kv_bytes(const EngineOptions& options, const KvLayout& layout, int64_t available) {
  const Shape s = shape_of(options, layout);
  const int64_t one = cache_bytes(options, layout, 1);
  const int64_t room = std::max(available / 4, std::min(one, available / 2));
  const int64_t all = cache_bytes(options, layout, std::min(options.max_seqs, kContexts));
  const int64_t least = s.full_bytes + s.window_bytes + kLeastStates * s.state_bytes + s.tails_for_one * s.tail_bytes;
  return std::max(least, std::min(all, room));
}

namespace {

// Blocks of each kind, before it is known whether they are possible.
struct Shares {
  int64_t full = 0, window = 0, states = 0, tails = 0;
};

// Blocks of tails that are enough for one sequence.
int64_t least_tails(const Shape& s) { return std::min(s.tails_for_one, s.for_context); }

// Bytes of kv_bytes beside one whole context and its windows; below 0: there is no room for these.
int64_t beside_context(const EngineOptions& o, const Shape& s) {
  const int64_t windows = std::min(s.for_one, s.for_context);
  return o.kv_bytes - times(s.for_context, s.full_bytes) - times(windows, s.window_bytes);
}

// How many of kv_bytes' blocks are tails: at most half of the memory, but enough for one sequence. One whole context
// comes first where the memory holds one.
int64_t tail_share(const EngineOptions& o, const Shape& s) {
  if (s.tail_bytes == 0) return 0;
  const int64_t wanted = std::min(for_tails(s, running(o)), o.kv_bytes / 2 / s.tail_bytes);
  const int64_t most = beside_context(o, s) / s.tail_bytes, least = least_tails(s);
  return std::max(most >= least ? std::min(wanted, most) : wanted, least);
}

// How many of kv_bytes' blocks are states. One whole context comes first where the memory holds one and its states. At
// least what one sequence needs, whether or not it fits.
int64_t state_share(const EngineOptions& o, const Shape& s) {
  if (s.state_bytes == 0) return 0;
  if (o.n_states > 0) return o.n_states;
  const bool only = s.full_bytes + s.window_bytes == 0;
  const int64_t room = (only ? o.kv_bytes : o.kv_bytes / 2) / s.state_bytes;
  const int64_t wanted = std::min(n_states_for(o, running(o)), room);
  const int64_t most = (beside_context(o, s) - times(least_tails(s), s.tail_bytes)) / s.state_bytes;
  const bool fits = most >= kStatesPerSequence;
  return std::max<int64_t>(fits ? std::min(wanted, most) : wanted, kLeastStates);
}

// How many of kv_bytes' blocks are for windows.
int64_t window_share(const EngineOptions& o, const Shape& s) {
  if (s.window_bytes == 0) return 0;
  const int64_t even = o.kv_bytes / (s.full_bytes + s.window_bytes);
  if (s.full_bytes == 0) return even;
  if (o.n_window_blocks > 0) return o.n_window_blocks;
  const int64_t wanted = std::min(for_windows(s, running(o)), o.kv_bytes / 2 / s.window_bytes);
  // One whole context comes first, as far as the memory holds one.
  const int64_t beside_context = (o.kv_bytes - times(s.for_context, s.full_bytes)) / s.window_bytes;
  const int64_t n = std::max(beside_context >= s.for_one ? std::min(wanted, beside_context) : wanted, s.for_one);
  // Where that leaves less to the other layers than it gives to windows, both have as many.
  return n <= even ? n : even;
}

// The others. Where every layer has a window they hold no bytes and number the past of as many contexts as memory is
// taken for by itself.
int64_t full_blocks(const EngineOptions& o, const Shape& s, int64_t n_window) {
  if (s.full_bytes > 0) return std::max<int64_t>(o.kv_bytes - times(n_window, s.window_bytes), 0) / s.full_bytes;
  return std::max(n_window, std::min<int64_t>(o.max_seqs, kContexts) * s.for_context);
}

// `o` before states are taken from its kv_bytes.
Status check_states(const EngineOptions& o, const Shape& s, int64_t n_states) {
  if (s.state_bytes == 0) return {};
  if (n_states < kLeastStates) {
    return fail(Code::invalid, "n_states must be at least 2, one that is read and one that is written, got " +
                                   std::to_string(n_states));
  }
  if (times(n_states, s.state_bytes) <= o.kv_bytes) return {};
  return fail(Code::invalid, "kv memory of " + std::to_string(o.kv_bytes) + " bytes has no room for " +
                                 std::to_string(n_states) + " states of " + std::to_string(s.state_bytes) + " bytes");
}

// The error where there would be no block, or too many: what the memory makes beside what is taken first.
std::string no_blocks(const EngineOptions& o, const Shape& s, const Shares& n, int64_t most) {
  const bool asked = o.n_window_blocks > 0 && s.full_bytes > 0;
  const int64_t taken =
      times(n.states, s.state_bytes) + times(n.tails, s.tail_bytes) + (asked ? times(n.window, s.window_bytes) : 0);
  const int64_t block_bytes = s.full_bytes + (asked ? 0 : s.window_bytes);
  const int64_t made = block_bytes > 0 ? std::max<int64_t>(o.kv_bytes - taken, 0) / block_bytes : n.full;
  std::string what = std::to_string(made) + " blocks of " + std::to_string(block_bytes) + " bytes";
  if (asked) what += " beside " + std::to_string(n.window) + " for windows";
  if (n.states > 0) what += (asked ? " and " : " beside ") + std::to_string(n.states) + " states";
  if (n.tails > 0) what += " beside " + std::to_string(n.tails) + " of tokens that are not packed";
  return "kv memory of " + std::to_string(o.kv_bytes) + " bytes makes " + what + "; 1 to " + std::to_string(most) +
         " are possible";
}

}  // namespace

Result<BlockCounts> count_blocks(const EngineOptions& all, const KvLayout& layout, int n_more) {
  const Shape s = shape_of(all, layout);
  const int64_t n_states = state_share(all, s);
  QR_TRY_VOID(check_states(all, s, n_states));
  EngineOptions o = all;  // less what is states and tails
  o.kv_bytes -= times(n_states, s.state_bytes);
  const int64_t n_tails = tail_share(o, s);
  o.kv_bytes = std::max<int64_t>(o.kv_bytes - times(n_tails, s.tail_bytes), 0);
  const int64_t n_window = window_share(o, s);
  int64_t n_blocks = full_blocks(o, s, n_window);
  const int64_t most = (int64_t{1} << 31) / o.block_tokens - 1 - n_more;  // a slot is an int32
  if (n_window < std::min(s.for_one, n_blocks)) {
    if (s.full_bytes > 0 && o.n_window_blocks > 0) {
      return fail(Code::invalid, "n_window_blocks must be at least " + std::to_string(std::min(s.for_one, n_blocks)) +
                                     " for a window and a step, got " + std::to_string(n_window));
    }
    n_blocks = n_window;  // a request that fits into these slides nowhere
  }
  if (n_blocks < 1 || n_blocks > most) {
    return fail(Code::invalid, no_blocks(all, s, {n_blocks, n_window, n_states, n_tails}, most));
  }
  return BlockCounts{static_cast<int>(n_blocks), static_cast<int>(n_window), static_cast<int>(n_states),
                     static_cast<int>(n_tails)};
}

RetentionLimits limit_retention(const EngineOptions& o, const BlockCounts& counts) {
  const auto n = static_cast<int>(counts.n_blocks * o.retain_share);
  return RetentionLimits{n, (n + 1) / 2};
}

Result<PinLimits> limit_pins(const EngineOptions& o, const KvLayout& layout, const BlockCounts& counts, bool recorded) {
  const bool wanted = o.pin_bytes > 0;
  if (wanted && !o.prefix_cache) return fail(Code::invalid, "pin_bytes needs the prefix cache, which is off");
  if (wanted && recorded) return fail(Code::invalid, "pin_bytes excludes a recording: no pins are in it");
  PinLimits out;
  if (o.pin_bytes == 0 || !o.prefix_cache || recorded) return out;
  const Shape s = shape_of(o, layout);
  int64_t most = 0;
  for (int g = 0; g < layout.n_groups(); ++g) {
    const KvGroup& group = layout.group(g);
    if (group.is_private) continue;  // nobody pins these
    const int64_t for_one = group.kind == KvGroup::Kind::full     ? s.for_context
                            : group.kind == KvGroup::Kind::window ? s.for_one
                                                                  : kLeastStates;
    const int64_t n = std::max<int64_t>(counts.of(group) - for_one, 0);
    out.n_blocks[static_cast<size_t>(g)] = static_cast<int>(n);
    most += times(n, layout.block_bytes(g, o.block_tokens));
  }
  if (o.pin_bytes > most) {
    return fail(Code::invalid, "pin_bytes must be at most " + std::to_string(most) + ": kv memory of " +
                                   std::to_string(o.kv_bytes) + " bytes has to hold a context of " +
                                   std::to_string(o.n_ctx) + " tokens beside what is pinned; got " +
                                   std::to_string(o.pin_bytes));
  }
  out.bytes = o.pin_bytes > 0 ? o.pin_bytes : std::min(most, o.kv_bytes / 4);
  out.n_pins = out.bytes > 0 ? o.max_pins : 0;
  return out;
}

}  // namespace quire
