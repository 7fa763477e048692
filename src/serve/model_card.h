// A model as those who ask are told of it.
#pragma once
#include <cstdint>
#include <string>

namespace quire {

// What is known of the model besides its names, for those who ask; empty and 0 where it is not known.
struct ModelCard {
  std::string architecture, quantization;  // "llama", "q8_0"
  int64_t n_parameters = 0, file_bytes = 0;
  int64_t modified_s = 0;  // of the file, seconds since 1970
  int n_embd = 0;          // 0: the model gives no embeddings
  uint64_t digest = 0;     // of its contents; 0: not known
  std::string file{};      // its name, without a folder
};

}  // namespace quire
