// The matrices of a LoRA adapter on their way to their places in a model, whatever file they come from: a folder of
// PEFT's (model/lora.cc) or a GGUF file (model/lora_gguf.cc). One thread.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "ops/ops.h"

namespace quire {

// Two matrices that B·A is made of, for all rows of one of the model's tensors.
struct LoraMatrices {
  int64_t rank = 0;
  std::vector<float> a;  // [rank, n_in]
  std::vector<float> b;  // [n_out, rank]
};

class AdapterBuilder {
 public:
  // Both outlive it. most_bytes: of matrices as floats.
  AdapterBuilder(const Model& model, Ops& ops, int64_t most_bytes)
      : model_(model), ops_(ops), most_bytes_(most_bytes) {}

  struct Place {
    std::vector<size_t> sites;  // what the model's tensor is cut into; empty: adapters cannot add to it
    int64_t n_in = 0, n_out = 0;
  };
  Place place_of(std::string_view tensor) const;
  // Counts what matrices of this rank will take. Code::exhausted where there is no room.
  Status take_room(const Place& place, int64_t rank);
  // Takes them; B is multiplied by the factor. label_a, label_b: what errors call them. Errors: Code::corrupt where
  // B is not finite then, or the place has some already.
  Status add(
      const Place& place, LoraMatrices matrices, double factor, const std::string& label_a, const std::string& label_b);
  // Everything into the backend's memory.
  Result<std::shared_ptr<const Adapter>> finish();

 private:
  const Model& model_;
  Ops& ops_;
  const int64_t most_bytes_;
  int64_t bytes_ = 0;
  std::vector<LoraMatrices> matrices_;
  std::map<size_t, size_t> at_site_;  // number of the model's site: of matrices_
};

// The order of B's rows, for both ways: row `to` of a model that pairs rows is row from(to) of one that does not.
std::vector<float> paired_rows_of(const LoraMatrices& of, const ModelInfo& info);
std::vector<float> unpaired_rows_of(const LoraMatrices& of, const ModelInfo& info);
bool is_turned(std::string_view tensor);  // of q or k

}  // namespace quire
