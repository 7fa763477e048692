// Ways in which a folder's tensors become GGUF's that are more than another name (NameRule::reshape): a layer's experts
// cut into gates and ups, or transposed. Elements are copied, one after another, into memory of the file's own; but
// for minus_exp they stay what they are. Pure functions; any thread. Errors: Code::corrupt or Code::unsupported, by the
// name that the folder has.
#pragma once
#include "base/result.h"
#include "io/model_file.h"
#include "model/hf_names.h"

namespace quire {

// [n, 2 · f, d], or [2 · f, d] → the first or the last f rows of every matrix.
Status first_rows(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
Status last_rows(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// [n, d, 2 · f] → [n, f, d]: every other column, from the first or the second on, as a row.
Status even_columns(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
Status odd_columns(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// The same of the first or the last f columns.
Status first_columns(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
Status last_columns(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// [n, 2 · f, d] → [n, f, d]: every other row, from the first or the second on. Rows are made where they are wanted, of
// any format, also of rows that are made themselves (NameRule::keeps_rows).
Status even_rows(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
Status odd_rows(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// [n, 2 · f] → [n, f]: every other number.
Status even_numbers(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
Status odd_numbers(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// [m, d], or [m], → these runs of its rows, one behind the other.
struct RowRun {
  int64_t begin, n;
};
Status rows_in_order(const HostWeight& theirs, const std::vector<RowRun>& runs, HostWeight& ours, ModelFile& file);
// [n, 1], or [1, n] → [n].
Status flattened(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// [n] → [n, 1].
Status as_column(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// Numbers x [n] → −exp(x) [n, 1], as F32; of a matrix the same in its shape.
Status minus_exp(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// [n, 1, d] → [n, d].
Status without_middle(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// Rows, or numbers, that lie head by head as q, k, v, hf.num_attention_heads times: all of q, then of k, then of v.
Status heads_apart(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// The same of fewer heads of keys and values: n_heads / n_kv_heads of q, one of k and one of v, n_kv_heads times.
Status kv_heads_apart(const HostWeight& theirs, int64_t n_heads, int64_t n_kv_heads, HostWeight& ours, ModelFile& file);
// What makes heads' keys and values of a latent, [heads · (k + v), n], k = hf.qk_nope_head_dim and v = hf.v_head_dim:
// of every head what a query is multiplied with instead, [heads, n, k], or what the mixed latents are, [heads, v, n].
Status latent_to_queries(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
Status latent_to_values(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// [n, f, d] → [n, d, f], or [f, d] → [d, f].
Status transposed(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file);
// Whether it is one of those that make rows of columns.
bool makes_rows_of_columns(Reshape reshape);

}  // namespace quire
