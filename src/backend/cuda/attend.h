// The paged cache and attention over it: which kernels, over which rows.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "backend/cuda/runtime.h"
#include "backend/cuda/tables.h"
#include "ops/ops.h"
#include "ops/parts.h"

namespace quire::cuda {

// Whether there are kernels for a cache of this codec.
bool has_codec(std::string_view name);

void write_cache(Runtime& runtime,
                 const Tensor& k,
                 const Tensor& v,
                 const int32_t* slots,
                 const KvView& kv,
                 const AttnParams& params);

// Rotates queries and keys and writes keys and values; false where no kernel does both, and nothing is done then.
bool rotate_and_keep(Runtime& runtime,
                     const TableCopies& tables,
                     const AttentionScratch& at,
                     const AttentionPart& part);

// What a step's rows ask for; the host's to make while no work is under way.
struct AttendPlan {
  // Rows of whole sequences, each of which has few of them, or many.
  struct Run {
    int64_t begin, end;
    bool is_of_many;
  };
  int n_chunks = 1;  // that any row may see
  std::vector<Run> runs;
};
AttendPlan plan_of(const AttnMeta& meta);

// States of chunks lie in the workspace; rows that do not fit are done one run of rows after the other.
void attend_rows(Runtime& runtime,
                 const TableCopies& tables,
                 std::span<std::byte> workspace,
                 const Tensor& out,
                 const Tensor& q,
                 const AttentionPart& part,
                 const AttendPlan& plan);

}  // namespace quire::cuda
