// What folders of models with a gated delta rule share: what they call the sizes of its heads.
#pragma once
#include "model/decoder.h"
#include "model/delta_mixer.h"
#include "model/hf_reshape.h"

namespace quire {

inline Status delta_facts(HfFacts& hf) {
  hf.copy({"linear_conv_kernel_dim"}, "ssm.conv_kernel");
  hf.copy({"linear_key_head_dim"}, "ssm.state_size");
  hf.copy({"linear_num_key_heads"}, "ssm.group_count");
  hf.copy({"linear_num_value_heads"}, "ssm.time_step_rank");
  QR_TRY(const int64_t n_heads, hf.get_int("linear_num_value_heads", 1, 4096));
  QR_TRY(const int64_t dim, hf.get_int("linear_value_head_dim", 1, 1 << 16));
  hf.set("ssm.inner_size", n_heads * dim, "linear_value_head_dim");
  return {};
}

}  // namespace quire
