// Hyper-parameters of a decoder-only transformer, read from the file's facts and checked before anything is allocated.
#pragma once
#include <string>

#include "base/result.h"
#include "io/model_file.h"
#include "model/model.h"

namespace quire {

struct DecoderConfig {
  int n_layers = 0, n_embd = 0, n_ff = 0, n_vocab = 0, n_ctx = 0;
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int n_rope = 0;  // rotated components of a head
  double rope_theta = 10000.0;
  float norm_eps = 1e-5F;
};

// Errors name file, key, range and value; ranges are those under which every product of sizes fits 64 bits.
Result<DecoderConfig> read_decoder_config(const ModelFile& file);

// ModelInfo but for kv_layout: names, sizes, fingerprint.
ModelInfo make_model_info(const ModelFile& file, const DecoderConfig& config);

}  // namespace quire
