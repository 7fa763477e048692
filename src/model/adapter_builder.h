// The matrices of a LoRA adapter on their way to their places in a model, whatever file they come from: a folder of
// PEFT's (model/lora.cc) or a GGUF file (model/lora_gguf.cc). One thread.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/base_rows.h"
#include "model/model.h"
#include "ops/ops.h"

namespace quire {

// Two matrices that B·A is made of, for all rows of one of the model's tensors W [n_out, n_in]; of an embedding
// [n_vocab, n_embd], for all its columns: W is what it is transposed, n_in is n_vocab.
struct LoraMatrices {
  int64_t rank = 0;
  std::vector<float> a;  // [rank, n_in]; of an embedding [n_vocab, rank]
  std::vector<float> b;  // [n_out, rank]
  // [n_out]: the length that each row of W + B·A is brought to (DoRA); empty: it stays what it is.
  std::vector<float> magnitude = {};
};

class AdapterBuilder {
 public:
  // Model and backend outlive it. base: where that model came from. most_bytes: of matrices as floats.
  AdapterBuilder(const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes);

  struct Place {
    std::vector<size_t> sites;  // what the model's tensor is cut into; empty: adapters cannot add to it
    int64_t n_in = 0, n_out = 0;
    bool looks_up = false;  // an embedding
    // Of a matrix A as LoraMatrices has it.
    std::vector<int64_t> a_shape(int64_t rank) const {
      return looks_up ? std::vector{n_in, rank} : std::vector{rank, n_in};
    }
  };
  Place place_of(std::string_view tensor) const;
  // Of all experts' matrices that GGUF keeps in one tensor, "blk.0.ffn_gate_up_exps.weight": by expert the places of
  // gate, up or both, or down. None: the model has no such experts.
  struct Stack {
    std::vector<std::vector<Place>> experts;
    int64_t n_in = 0, n_out = 0;  // of one expert
  };
  Stack stack_of(std::string_view tensor) const;
  // add for each expert: a [n_experts, rank, n_in], b [n_experts, n_out, rank].
  Status add_stack(const Stack& stack,
                   const LoraMatrices& all,
                   double factor,
                   const std::string& label_a,
                   const std::string& label_b);
  // Counts what matrices of this rank will take as floats, with a magnitude or without; of a place of no sites nothing.
  // Code::exhausted where there is no room.
  Status take_room(const Place& place, int64_t rank, bool has_magnitude = false);
  // The same of all experts: before their matrices are read.
  Status take_room(const Stack& stack, int64_t rank);
  // Takes them; B is multiplied by the factor. label_a, label_b: what errors call them. Errors: Code::unsupported where
  // the model says that adapters must not add there (AdapterSite::why_not); Code::corrupt where B is not finite then, a
  // row has no length that it could be scaled by, or the place has some already; those of the model's file where a
  // magnitude asks for its rows.
  Status add(
      const Place& place, LoraMatrices matrices, double factor, const std::string& label_a, const std::string& label_b);
  // Whether the embedding or the head `tensor` of the model, as it is loaded, is this one [n, n_embd] but for its
  // rounding: adapters on it bring the one along that they were made for. Code::unsupported names the first other row.
  Status check_same(const std::string& tensor, const HostWeight& theirs);
  // Tokens of an activated adapter's invocation, as `key` has them; none: it adds to all tokens. Code::corrupt names
  // key and limit where there are more than kMostInvocation, or one is not in the model's vocabulary.
  Status invoke_by(const std::string& key, std::span<const int64_t> tokens);
  // Everything into the backend's memory.
  Result<std::shared_ptr<const Adapter>> finish();

 private:
  // Numbers of an output in what the backend gets of these.
  static int64_t row_numbers(const LoraMatrices& of);
  // With the rows of the model: b becomes [n_out, rank + 2] (ops/low_rank.h). Then of an embedding, whose columns those
  // are.
  Status scale_rows(const Place& place, LoraMatrices& matrices, const std::string& label);
  Status scale_columns(const Place& place, LoraMatrices& matrices, const std::string& label);
  size_t number_of_entries() const;
  void put_table_behind(std::vector<LowRankSource>& from, std::vector<float>& same) const;

  const Model& model_;
  Ops& ops_;
  BaseRows base_;
  const int64_t most_bytes_;
  int64_t bytes_ = 0;
  std::map<std::string_view, std::vector<size_t>> sites_of_;  // a tensor's: numbers of the model's, ascending
  std::vector<LoraMatrices> matrices_;
  std::map<size_t, size_t> at_site_;  // number of the model's site: of matrices_
  std::vector<Token> invocation_;
};

// The order of B's rows, for both ways: row `to` of a model that pairs rows is row from(to) of one that does not.
std::vector<float> paired_rows_of(const LoraMatrices& of, const ModelInfo& info);
std::vector<float> unpaired_rows_of(const LoraMatrices& of, const ModelInfo& info);
bool is_turned(std::string_view tensor);  // of q or k

}  // namespace quire
