#include "model/head_turns.h"

#include <cstring>

namespace quire {
namespace {

// Which numbers of a tensor are of value heads: `unit` of each, behind `before` of others; of rows, or of every row's
// columns.
struct HeadAxis {
  std::string_view part;  // of a layer's tensor's name
  int64_t before, unit;
  bool is_column = false;
};

// The place in a folder's order of head `at` of GGUF's.
int64_t folder_head(int64_t at, const StateConfig& c) {
  const int64_t n_sharing = c.n_heads / c.n_head_groups;
  return at % c.n_head_groups * n_sharing + at / c.n_head_groups;
}

Status reorder(const HeadAxis& axis, const StateConfig& c, HostWeight& weight, ModelFile& file) {
  const size_t at = axis.is_column ? weight.shape.size() - 1 : 0;
  const int64_t n = weight.shape[at], wanted = axis.before + c.n_heads * axis.unit;
  if (n != wanted) {
    return fail(Code::corrupt, "tensor " + file.shown(weight.name) + ": dimension " + std::to_string(at) + " must be " +
                                   std::to_string(wanted) + ", is " + std::to_string(n));
  }
  const int64_t n_outer = axis.is_column ? weight.n_rows() : 1;
  const int64_t bytes = static_cast<int64_t>(weight.data.size()) / n_outer / n;  // of one place of the axis
  auto made = std::make_shared<std::vector<std::byte>>(weight.data.begin(), weight.data.end());
  const auto run = static_cast<size_t>(axis.unit * bytes);
  for (int64_t outer = 0; outer < n_outer; ++outer) {
    const int64_t first = outer * n + axis.before;
    for (int64_t h = 0; h < c.n_heads; ++h) {
      std::memcpy(made->data() + (first + h * axis.unit) * bytes,
                  weight.data.data() + (first + folder_head(h, c) * axis.unit) * bytes, run);
    }
  }
  weight.data = *made;
  file.owned.push_back(std::move(made));
  return {};
}

}  // namespace

Status put_heads_in_turn(const StateConfig& c, ModelFile& file) {
  const int64_t n_keys = 2 * int64_t{c.n_head_groups} * c.state_dim;
  const HeadAxis axes[] = {{".attn_qkv.weight", n_keys, c.head_dim},
                           {".attn_gate.weight", 0, c.head_dim},
                           {".ssm_beta.weight", 0, 1},
                           {".ssm_alpha.weight", 0, 1},
                           {".ssm_dt.bias", 0, 1},
                           {".ssm_a", 0, 1},
                           {".ssm_conv1d.weight", n_keys, c.head_dim},
                           {".ssm_out.weight", 0, c.head_dim, true}};
  for (HostWeight& weight : file.tensors) {
    for (const HeadAxis& axis : axes) {
      if (weight.name.ends_with(axis.part)) QR_TRY_VOID(reorder(axis, c, weight, file));
    }
  }
  return {};
}

}  // namespace quire
