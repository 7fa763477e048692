// Importance of a model's weights: for every linear layer the mean square of each input over a text, which is what the
// square of an error in that input's column adds to the square of the output's. In a file as llama.cpp's tool writes
// them since it writes GGUF: general.type "imatrix", and for each weight W the tensors "W.in_sum2" (sums of squares)
// and "W.counts" (rows that were summed), so that files of several texts are added up number by number.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "app/wire.h"

namespace quire {

struct Imatrix {
  struct Sums {
    std::vector<double> squares;  // of each input
    double n_rows = 0;
    std::vector<float> means() const;
  };
  std::map<std::string, Sums, std::less<>> weights;  // by the weight's name
  std::vector<std::string> datasets;                 // names of the texts
  int64_t n_chunks = 0, chunk_tokens = 0;

  // Code::corrupt names file and tensor: sums without counts, of another length, negative or not finite.
  static Result<Imatrix> open(const std::string& path);
  // Code::corrupt where a sum is not finite; Code::io as GgufWriter's.
  Status write(const std::string& path) const;
  // Code::invalid where the other is of another model.
  Status add(const Imatrix& other);
};

// Adds the squares of what goes into every linear layer of `loaded` over the text to `out`, in windows of n_ctx tokens
// that each begin anew. REQUIRES a model loaded with watch_inputs(), tokens in range, 1 ≤ n_ctx ≤ the model's.
Status add_text(const LoadedModel& loaded, std::span<const Token> tokens, int n_ctx, Imatrix& out);
// For load(): a backend that computes as the given one and watches the inputs of its linear layers.
std::unique_ptr<Ops> watch_inputs(std::unique_ptr<Ops> ops);

}  // namespace quire
