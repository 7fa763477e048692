// What adapters add to a model's ends: to the embeddings of tokens, and to the product that makes logits. Both lie in
// one entry of Adapter::layers, behind those of the model's layers. An embedding is looked up, not multiplied: so is
// what an adapter's A has for it, a row of `rank` numbers for each token, which B then turns into n_embd.
// Tied weights are two places all the same, as for PEFT: who adds to one leaves the other as it is.
#pragma once
#include <cstdint>
#include <vector>

#include "model/pass.h"
#include "ops/ops.h"

namespace quire {

// Of that entry. The table is the matrix `a` of its only part, n_vocab rows of `rank` numbers; what it gives goes
// through kEmbedding, whose own `a` leaves it as it is.
inline constexpr std::vector<LowRank> AdapterLayer::* kEmbeddingTable = &AdapterLayer::qkv;
inline constexpr std::vector<LowRank> AdapterLayer::* kEmbedding = &AdapterLayer::gate_up;
inline constexpr std::vector<LowRank> AdapterLayer::* kHead = &AdapterLayer::down;

// Bytes of an arena that add_to_embeddings takes at most.
int64_t embedding_adapter_bytes();
// x [n, n_embd]: the embeddings of the batch's tokens, as the table has them. `ends`: the entry's number.
void add_to_embeddings(const Tensor& x, int ends, const Pass& pass);
// logits [n_out, n_vocab]: a product of x [n_out, n_embd], the rows that Batch::out_rows names.
void add_to_logits(const Tensor& logits, const Tensor& x, int ends, const Pass& pass);

}  // namespace quire
