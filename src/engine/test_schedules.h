// Ways to run the same prompts that must not make a difference: whole, in chunks, few together, with so few blocks that
// sequences are preempted. Test code only.
#pragma once
#include <array>

#include "engine/engine.h"

namespace quire {

struct TestSchedule {
  int max_seqs, step_tokens, max_chunk;
  int n_blocks;  // as TestEngine takes them
  EngineOptions options(int n_ctx) const {
    EngineOptions out;
    out.max_seqs = max_seqs;
    out.step_tokens = step_tokens;
    out.max_chunk = max_chunk;
    out.n_ctx = n_ctx;
    out.recompute_share = 1;  // all come in, and some have to go
    return out;
  }
};
inline constexpr std::array<TestSchedule, 4> kTestSchedules{
    {{8, 512, 512, 0}, {3, 64, 7, 0}, {8, 20, 20, 0}, {4, 64, 16, 16}}};

}  // namespace quire
