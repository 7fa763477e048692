// What PEFT's adapters add to a parameter that holds all experts' matrices of a layer (`target_parameters`): one A, in
// which the experts lie one after the other, and one B, in which the columns of an expert lie n_experts apart. Their
// rows become those of the model's gates and ups, however a folder has these in one tensor. One thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "io/folder_files.h"
#include "model/adapter_builder.h"
#include "model/hf_names.h"

namespace quire {

class ExpertParameter {
 public:
  // name: "model.layers.0.mlp.experts.gate_up_proj". The builder and the rules outlive it.
  ExpertParameter(const AdapterBuilder& builder, const HfRules& rules, const std::string& name);
  // Has no experts where the model has none of this name.
  const AdapterBuilder::Stack& stack() const { return stack_; }
  // Whether A and B stand in each other's place. PEFT asks the module whether it has [n, in, out] or [n, out, in], and
  // modules that do not say are taken for the second: A is then what B is here. None: the shapes fit both, or neither.
  std::optional<bool> is_turned(int64_t rank, const SafeTensor& a, const SafeTensor& b) const;
  // As AdapterBuilder::add_stack() wants them. Errors name the tensor: Code::corrupt for another shape or what is not
  // finite, Code::unsupported for another type, or rows that are none of this model's.
  Result<LoraMatrices> read(
      int64_t rank, bool turned, const SafeTensor& a, const SafeTensor& b, const MappedFile& map) const;

 private:
  Result<std::vector<float>> rows_of(const std::vector<float>& columns, int64_t rank, const std::string& name) const;
  std::vector<int64_t> a_shape(int64_t rank, bool turned) const;
  std::vector<int64_t> b_shape(int64_t rank, bool turned) const;

  AdapterBuilder::Stack stack_;
  std::vector<Renamed> cut_;  // what the folder's tensor becomes, gates first; none: its rows are the model's
};

}  // namespace quire
