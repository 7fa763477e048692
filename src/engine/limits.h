// Every limit of the engine, checked before work: what options may say, what a request may ask for, how much memory the
// cache takes by itself. Pure functions. Any thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/engine.h"
#include "kv/layout.h"
#include "kv/pins.h"

namespace quire {

inline constexpr int kMostSide = 15;  // tokens of a tree beside its draft, whatever is asked for

// Ranges of the numbers; n_ctx must be filled in, strip_tokens is the model's. Code::invalid names option, range and
// value.
Status check_options(const EngineOptions& options, int strip_tokens);

// A model that shifts its context beside what the engine is to do with it. Code::invalid names both.
struct BesideShift {
  bool learned_prefixes = false, recording = false;
};
Status check_shift(const ContextShift& shift, int block_tokens, const BesideShift& wanted);

// A model that keeps a state beside what the engine is to do with it, likewise.
struct BesideState {
  bool learned_prefixes = false, recording = false, disk = false;
};
Status check_state(const KvLayout& layout, const BesideState& wanted);

// A codec that packs strips, whose tails are in no recording, beside one. Code::invalid says so.
Status check_tails(const KvLayout& layout, bool recording);

struct RequestLimits {
  int n_ctx = 0, n_vocab = 0;
  int n_blocks = 0, block_tokens = 0;  // that requests may take
  std::string_view no_budget = {};     // why none has a kv_budget; empty: they may
  int n_pinnable = 0;                  // of n_blocks: those that pins may hold
};

// Why requests to this model on this backend can have no kv_budget; empty: they can. A constant.
std::string_view why_no_budget(const ModelInfo& model, Ops& ops, bool recorded);

// Refuses what can never run (Engine::submit lists it) and cuts max_tokens at the context. n_virtual tokens come before
// the prompt; their whole blocks are there already.
Status check_request(Request& request, const RequestLimits& limits, int n_virtual = 0);

// Virtual tokens leave room for a prompt and an answer. Code::invalid names the numbers.
Status check_virtual(int n_virtual, int n_ctx);

// What the cache takes for `n_contexts` sequences of n_ctx tokens that run together: of layers with a window what lies
// in the windows and in a step, of those with a state n_states_for, of tokens that are not packed yet a step's and a
// block of each sequence. n_ctx and max_draft must be filled in.
inline constexpr int kStatesPerSequence = 3;  // one that is read, one that is written, one that stays findable
inline constexpr int kGuessingAtOnce = 4;     // sequences that have a state for each of their guesses in a step
// States that n_seqs sequences want.
inline int64_t n_states_for(const EngineOptions& options, int64_t n_seqs) {
  return kStatesPerSequence * n_seqs + std::min<int64_t>(n_seqs, kGuessingAtOnce) * options.max_draft;
}
int64_t cache_bytes(const EngineOptions& options, const KvLayout& layout, int n_contexts);

// Fills in max_draft as an engine of these options has it: what is usual where it is 0, none where nobody guesses, and
// no trees then. A proposer that guesses less makes them smaller later.
void settle_drafts(EngineOptions& options, bool guesses);

// Rows of a step whose logits are wanted at most: one of each that runs, and its guesses.
int max_out_rows(const EngineOptions& options);
// Of n guesses those that a step may have.
int64_t most_drafted(const EngineOptions& options, int64_t n);

// Memory of a step's batch and activations. REQUIRES n_ctx to be filled in.
int64_t scratch_bytes(const Model& model, const EngineOptions& options);
// Of steps that overlap: rows of output that one may have, 0: a row alone is too large. And the bytes that the logits
// of two steps take, and what was picked of them.
constexpr int64_t kMostSentBytes = int64_t{256} << 20;
int64_t sent_rows(int n_vocab, const EngineOptions& options);
int64_t sent_bytes(int n_vocab, const EngineOptions& options);

// Cache memory when nothing was asked for: that of eight contexts (of max_seqs, where these are fewer), as far as
// `available` bytes go. At least a block for every layer.
int64_t default_kv_bytes(const EngineOptions& options, const KvLayout& layout, int64_t available);

struct BlockCounts {
  int n_blocks = 0;         // of every full group
  int n_window_blocks = 0;  // of every group with a window; 0: there is none
  int n_states = 0;         // of a group of states; 0: there is none
  int n_tail_blocks = 0;    // of a private group; 0: there is none

  int of(const KvGroup& group) const {
    if (group.kind == KvGroup::Kind::state) return n_states;
    if (group.is_private) return n_tail_blocks;
    return group.kind == KvGroup::Kind::window ? n_window_blocks : n_blocks;
  }
};
// What kv_bytes make. Groups with a window have enough for one sequence, whatever its length, or as many blocks as the
// others. Code::invalid with the numbers when there are none or more than slots have numbers.
// With n_more blocks that come on top of these.
Result<BlockCounts> count_blocks(const EngineOptions& options, const KvLayout& layout, int n_more = 0);

// How many blocks options.retain_share is, in all and for each tenant.
RetentionLimits limit_retention(const EngineOptions& options, const BlockCounts& counts);
// What pins may hold of `counts`: options.pin_bytes, and of no group so much that one sequence of n_ctx tokens would
// lack room. Code::invalid with the numbers where more was asked for than leaves that. Nothing without a prefix cache
// and in a run that is recorded, which holds no pins: there Code::invalid where some was asked for.
Result<PinLimits> limit_pins(const EngineOptions& options,
                             const KvLayout& layout,
                             const BlockCounts& counts,
                             bool recorded);

}  // namespace quire
