// A file's tensors into a backend, so that a layer's loading reads as a list of names and shapes. Where another weight
// format is wanted, a matrix is converted on its way, in parallel, through one buffer that is gone before the next:
// loading needs the model's memory and its largest tensor's (the file's pages are given back as tensors are done with).
// One thread (the conversion forks and joins inside).
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "io/content_hash.h"
#include "model/model.h"

namespace quire {

// The format that a tensor will have: the one that fits where the options want another (fitting_format), else its own.
// Routers whose products would round the rows that they choose for become f32, as learned positions and mixes' shares.
const WeightFormat& loaded_format(const HostWeight& weight, const LoadOptions& options);

class WeightLoader {
 public:
  // All of them outlive the loader.
  WeightLoader(const ModelFile& file, Ops& ops, const LoadOptions& options);

  // Names that follow have this in front: "blk.3.".
  void enter(std::string prefix) {
    prefix_ = std::move(prefix);
    taken_.clear();
  }
  // Of a tensor's dimension; 1 where the file has no such tensor, or no such dimension of it.
  int64_t extent(const std::string& name, size_t dimension) const;
  bool has(const std::string& name) const { return file_.find(prefix_ + name) != nullptr; }
  // The tensor `name`, f32 [n].
  void vector(Tensor& out, const std::string& name, int64_t n);
  // The same of a tensor of any shape, n numbers in all.
  void numbers(Tensor& out, const std::string& name, int64_t n);
  // Those numbers on the host, for what given() makes of them; empty where it fails.
  std::vector<float> host_numbers(const std::string& name, int64_t n);
  // These numbers, f32, of no tensor. Then one of them n times, [n].
  void given(Tensor& out, std::span<const float> values);
  void constant(Tensor& out, int64_t n, float value);
  void ones(Tensor& out, int64_t n) { constant(out, n, 1.0F); }
  // The tensor `name` [n_out, n_in], or with dimensions of 1 besides, as f32 [n_in, n_out].
  void load_transposed(Tensor& out, const std::string& name, int64_t n_out, int64_t n_in);
  // Of several [n_out, n_in] the same, side by side: f32 [n_in, Σ n_out].
  struct Part {
    std::string name;
    int64_t n_out;
  };
  void load_transposed(Tensor& out, std::span<const Part> parts, int64_t n_in);
  // Appends `name`.weight [n_out, n_in] with `name`.bias [n_out] where the file has one.
  void linear(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in);
  // The same of `name`.weight [n_in], one output; GGUF has such a matrix as a vector.
  void gate(std::vector<Linear>& out, const std::string& name, int64_t n_in);
  // linear() of as many rows as the file has.
  void table(std::vector<Linear>& out, const std::string& name, int64_t n_in);
  // Appends the last one once more, in the same memory.
  void again(std::vector<Linear>& out);
  // linear(), and the bias must be there.
  void biased_linear(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in);
  // Appends two: the first and the last n_out rows of `name`.weight [2 · n_out, n_in], likewise.
  void halves(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in);
  // Appends `name`_exps.weight, matrix by matrix, with `name`_exps.bias [n_experts, n_out] where the file has it, or
  // where the file has them one by one `name`.<e>.weight. shape [n_experts, n_out, n_in].
  void experts(std::vector<Linear>& out, const std::string& name, const std::array<int64_t, 3>& shape);
  // Appends of `name`.weight [n, 2 · n_out, n_in], matrix by matrix, the first n_out rows and the last. shape [n,
  // n_out, n_in].
  void paired_experts(std::vector<Linear>& first,
                      std::vector<Linear>& last,
                      const std::string& name,
                      const std::array<int64_t, 3>& shape);
  // Appends `name`.weight [n, n_out, n_in], matrix by matrix, likewise. shape [n, n_out, n_in].
  void stacked(std::vector<Linear>& out, const std::string& name, const std::array<int64_t, 3>& shape);
  // Appends two: of `name`.weight [n_out[0] + n_out[1], n_in] the last n_out[1] rows, then those before them, likewise.
  void last_rows_first(std::vector<Linear>& out,
                       const std::string& name,
                       const std::array<int64_t, 2>& n_out,
                       int64_t n_in);
  // Of `name`.weight [heads · (k + v), n], which has k rows of a head, then v: appends to `transposed` the first of
  // every head transposed, [n, k], in their type or in F32 where that has blocks, and to `kept` the others, [v, n].
  // shape: heads, k, v, n.
  void cut_by_heads(std::vector<Linear>& transposed,
                    std::vector<Linear>& kept,
                    const std::string& name,
                    const std::array<int64_t, 4>& shape);
  // Of `name`.weight [n · (a + b), n_in], n times a rows and then b: appends to `out` all of the first, then all of the
  // others; no adapter adds to them. shape: n, a, b, n_in.
  void runs_apart(std::vector<Linear>& out, const std::string& name, const std::array<int64_t, 4>& shape);
  // Of `name`.weight [n_heads · 2 · n_out, n_in]: appends to `first` the first n_out rows of every head, matrix by
  // matrix, to `second` the others, each with its numbers of `name`.bias where the file has one. shape: n_heads, n_out,
  // n_in.
  void heads_apart(std::vector<Linear>& first,
                   std::vector<Linear>& second,
                   const std::string& name,
                   const std::array<int64_t, 3>& shape);
  // The first failure: file, tensor, wanted and found shape. After it nothing more is loaded.
  const Status& status() const { return status_; }
  // Every matrix that came into a list since enter(), in order: which tensor of the file its rows are of, and from
  // which of them on.
  struct Taken {
    std::string tensor;
    const std::vector<Linear>* list;
    size_t index;
    int64_t first_row;
  };
  const std::vector<Taken>& taken() const { return taken_; }
  // Of all tensors of the file, whether loaded or not.
  Hash128 content() { return content_.finish(); }

 private:
  struct Rows {
    int64_t begin, n;
    std::vector<Linear>* out = nullptr;  // in place of append's
  };
  // Appends the matrices that these rows of `name`.weight are, of all dimensions but the last together, each with its
  // numbers of `name`.bias where the file has one.
  void append(std::vector<Linear>& out,
              const std::string& name,
              const std::vector<int64_t>& shape,
              std::span<const Rows> parts);
  const HostWeight* get(const std::string& name, const std::vector<int64_t>& shape);
  // The same of one whose columns are in order. Of one whose bytes lie in the file: not of a folder's quantised ones,
  // which are made. Then of one that has no blocks.
  const HostWeight* get_ordered(const std::string& name, const std::vector<int64_t>& shape);
  const HostWeight* get_stored(const std::string& name, const std::vector<int64_t>& shape);
  const HostWeight* get_plain(const std::string& name, const std::vector<int64_t>& shape);
  Result<Linear> load(const HostWeight& weight, const HostWeight* bias);
  void took(const HostWeight& weight);
  template <class T>
  void take(T& out, Result<T> loaded) {
    if (loaded) {
      out = std::move(*loaded);
    } else {
      status_ = tl::make_unexpected(std::move(loaded).error());
    }
  }

  const ModelFile& file_;
  Ops& ops_;
  const LoadOptions& options_;
  std::string prefix_;
  ContentHash content_;
  std::vector<Taken> taken_;
  int64_t done_bytes_ = 0, total_bytes_ = 0;
  Status status_;
};

}  // namespace quire
