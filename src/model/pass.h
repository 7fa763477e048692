// What a forward pass works with: the step's rows as index tensors, the cache, memory, who computes, and what is wanted
// beside logits. Plain values; the engine thread's.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "ops/ops.h"
#include "ops/votes.h"
#include "tensor/arena.h"

namespace quire {

// One step's rows. All tensors live in the step's arena.
struct Batch {
  Tensor ids;       // i32 [n]
  Tensor pos;       // i32 [n]
  Tensor out_rows;  // i32 [n_out]: rows whose logits are wanted, ascending
  // i32 [n] of every KV group: where each row's K and V go; of a group of states StateRows::to, and attn.blocks are
  // StateRows::from.
  std::array<Tensor, KvView::kMaxGroups> slots;
  // Rows whose K and V go to other places too, where another sequence of the batch goes on behind them in blocks of its
  // own: i32 [m], and of every KV group with a table the slots, i32 [m]. Empty: none.
  Tensor again;
  std::array<Tensor, KvView::kMaxGroups> again_slots;
  AttnMeta attn;
  std::span<const VotingRows> voting;     // rows that every layer with attention has vote (ops/votes.h)
  std::span<const AdapterRows> adapters;  // by rows; lies in the arena too. The adapters were made for this model
};

// Hidden states that a pass hands out beside its logits: of every row of output, written where whoever asks has room.
// Nothing is copied and nothing allocated for it.
struct Tap {
  enum class At : uint8_t { last_norm };  // behind it: what the head multiplies
  At at = At::last_norm;
  Tensor out;  // f32 [≥ n_out, n_embd], in memory of the pass's backend; row i is that of out_rows[i]
};

struct LayerRange {
  int begin = 0, end = 0;
};

// What a forward pass works with.
struct Pass {
  const Batch* batch = nullptr;
  KvView kv;
  Arena* arena = nullptr;
  Ops* ops = nullptr;
  std::span<const Tap> taps = {};  // what head() writes beside, of a model that has_taps; each place once at most
};
// Puts K and V of the batch's rows where their slots of the layer's group say, and again where others go on. v is empty
// where values are part of keys.
void write_kv(const Tensor& k, const Tensor& v, const Pass& pass, const AttnParams& params);
// The rows of the pass's tap at this place, [n_out, n_embd]; an empty tensor: nobody asked.
Tensor tapped(const Pass& pass, Tap::At at);

}  // namespace quire
