// The paged cache and attention over it: which kernels, over which rows.
#pragma once
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/cuda_ops.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/tables.h"
#include "ops/ops.h"
#include "ops/parts.h"

namespace quire::cuda {

// Code::unsupported names the heads where a block of theirs takes more shared memory than `device` has; of a layer
// whose codec has kernels.
Status check_room(const AttnParams& layer, const DeviceSize& device);

// Slopes of heads (ops/slopes.h), which stay where they are: an upload may be under way.
class Slopes {
 public:
  const std::vector<float>& of(int n_heads, float most_bits);

 private:
  std::map<std::pair<int, float>, std::vector<float>> known_;  // of a model's layers: one or two
};

// What attention computes with.
struct AttendUses {
  Runtime& runtime;
  const TableCopies& tables;
  Slopes& slopes;
  std::span<std::byte> workspace;
  CudaArithmetic arithmetic;
};

struct NewRows {
  const Tensor &k, &v, &slots;
};
void write_cache(const AttendUses& uses, const NewRows& rows, const KvView& kv, const AttnParams& params);

struct StripEnds {
  const Tensor &slots, &tails;
};
// Ops::pack_strips.
void pack_cache_strips(const AttendUses& uses, const StripEnds& rows, const KvView& kv, const AttnParams& params);

// Rotates queries and keys and writes keys and values; false where no kernel does both, and nothing is done then.
bool rotate_and_keep(const AttendUses& uses, const AttentionScratch& at, const AttentionPart& part);

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
void attend_rows(
    const AttendUses& uses, const Tensor& out, const Tensor& q, const AttentionPart& part, const AttendPlan& plan);

}  // namespace quire::cuda
