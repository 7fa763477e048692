// A LoRA adapter's adapter_config.json as PEFT writes it: ranks and factors of modules. What would change the numbers
// and is not computed here is refused by key. Values; any thread.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace quire {

inline constexpr int kMaxLoraRank = 512;
// Behind "this model has no X".
inline constexpr std::string_view kAdaptable =
    " that adapters may add to: only embeddings, the head, projections of attention and feed-forward units";

struct LoraConfig {
  // A number for the modules that a pattern fits: those whose last names it is, or with "^" in front the one that it
  // is.
  struct Pattern {
    std::string name;
    bool whole = false;   // "^name": all of it
    bool within = false;  // ".*name": its end may begin within one of the names
    double value = 0;
    bool fits(std::string_view module) const;
  };
  int rank = 0;
  double alpha = 0;
  bool by_root = false;                // rsLoRA: the factor is alpha / √rank
  bool scales_rows = false;            // DoRA: every module has a magnitude too
  bool ties = false;                   // the head has the embedding's matrices, and targets need not name it
  std::vector<Pattern> ranks, alphas;  // the first that fits counts
  // Modules by their last names; empty: the tensors say which.
  std::vector<std::string> targets;
  // Parameters of modules by their last names: "mlp.experts.gate_up_proj".
  std::vector<std::string> parameters;

  std::vector<int64_t> invocation;  // of an activated LoRA; empty: it is none

  // Of "model.layers.0.self_attn.q_proj".
  int rank_of(std::string_view module) const;
  // What B·(A·x) is multiplied by.
  double factor_of(std::string_view module) const;
  bool targets_module(std::string_view module) const;
  // Which parameter of a module has the matrices of "model.layers.0.mlp.experts", with a ".base_layer" behind it for
  // each that wraps them: PEFT wraps gate_up_proj or up_proj first, then down_proj. Of any module it may be its weight:
  // "model.layers.0.mlp.gate.weight". Empty: none.
  std::string parameter_of(std::string_view module) const;
};

// Errors name key, what is wanted and what was found: Code::corrupt, or Code::unsupported for another kind of adapter,
// a variant of LoRA that is not computed here or two at once, unknown keys, and experts' parameters of PEFT before
// 0.19.1, which has their two matrices the other way round.
Result<LoraConfig> read_lora_config(const Json& config);

}  // namespace quire
