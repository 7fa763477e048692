#include "model/config.h"

#include <algorithm>

#include "base/rng.h"

namespace quire {
namespace {

uint64_t mix_bytes(uint64_t hash, std::span<const std::byte> bytes) {
  for (const std::byte b : bytes) hash = mix64(hash ^ static_cast<uint64_t>(b));
  return hash;
}

// Names, shapes, formats and the first kilobyte of every tensor: two models that differ anywhere but deep inside one
// tensor get different fingerprints, at no cost per start.
uint64_t fingerprint(const ModelFile& file, const DecoderConfig& c) {
  uint64_t hash = mix64(static_cast<uint64_t>(c.n_layers));
  for (const auto value : {c.n_embd, c.n_ff, c.n_heads, c.n_kv_heads, c.head_dim, c.n_rope, c.n_vocab}) {
    hash = mix64(hash ^ static_cast<uint64_t>(value));
  }
  for (const HostWeight& w : file.tensors) {
    hash = mix_bytes(hash, std::as_bytes(std::span(w.name)));
    hash = mix_bytes(hash, w.data.first(std::min<size_t>(w.data.size(), 1024)));
    hash = mix64(hash ^ w.format->ggml_type);
  }
  return hash;
}

Status check_heads(const ModelFile& file, const DecoderConfig& c) {
  if (c.n_heads % c.n_kv_heads != 0) {
    return fail(Code::corrupt, file.path + ": head_count " + std::to_string(c.n_heads) +
                                   " is no multiple of head_count_kv " + std::to_string(c.n_kv_heads));
  }
  if (c.n_rope % 2 != 0 || c.n_rope > c.head_dim) {
    return fail(Code::corrupt, file.path + ": rope.dimension_count must be even and at most " +
                                   std::to_string(c.head_dim) + ", got " + std::to_string(c.n_rope));
  }
  return {};
}

}  // namespace

Result<DecoderConfig> read_decoder_config(const ModelFile& file) {
  const Metadata& meta = file.meta;
  QR_TRY(const std::string arch, meta.get_string("general.architecture"));
  const std::string prefix = arch + ".";
  DecoderConfig c;
  const auto read = [&](std::string_view key, int64_t lo, int64_t hi, int& out) -> Status {
    QR_TRY(const int64_t value, meta.get_int(prefix + std::string(key), lo, hi));
    out = static_cast<int>(value);
    return {};
  };
  QR_TRY_VOID(read("block_count", 1, 4096, c.n_layers));
  QR_TRY_VOID(read("embedding_length", 1, 1 << 20, c.n_embd));
  QR_TRY_VOID(read("feed_forward_length", 1, 1 << 22, c.n_ff));
  QR_TRY_VOID(read("context_length", 1, 1 << 28, c.n_ctx));
  QR_TRY_VOID(read("attention.head_count", 1, 4096, c.n_heads));
  QR_TRY(const int64_t n_kv_heads, meta.get_int_or(prefix + "attention.head_count_kv", 1, c.n_heads, c.n_heads));
  c.n_kv_heads = static_cast<int>(n_kv_heads);
  const int natural = c.n_embd / c.n_heads;
  QR_TRY(const int64_t head_dim, meta.get_int_or(prefix + "attention.key_length", 1, 512, natural));
  c.head_dim = static_cast<int>(head_dim);
  QR_TRY(const int64_t n_rope, meta.get_int_or(prefix + "rope.dimension_count", 1, 512, c.head_dim));
  c.n_rope = static_cast<int>(n_rope);
  QR_TRY(c.rope_theta, meta.get_double_or(prefix + "rope.freq_base", 1.0, 1e12, 10000.0));
  QR_TRY(const double eps, meta.get_double_or(prefix + "attention.layer_norm_rms_epsilon", 1e-12, 1.0, 1e-5));
  c.norm_eps = static_cast<float>(eps);
  QR_TRY_VOID(check_heads(file, c));
  const HostWeight* embedding = file.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return fail(Code::corrupt, file.path + ": tensor token_embd.weight [n_vocab, n_embd] is missing");
  }
  if (embedding->shape[0] > 1 << 24) {
    return fail(Code::unsupported, file.path + ": vocabulary of " + std::to_string(embedding->shape[0]) +
                                       " tokens, at most " + std::to_string(1 << 24));
  }
  c.n_vocab = static_cast<int>(embedding->shape[0]);
  return c;
}

ModelInfo make_model_info(const ModelFile& file, const DecoderConfig& c) {
  ModelInfo info;
  info.arch = file.meta.get_string("general.architecture").value_or("");
  info.name = file.meta.get_string("general.name").value_or("");
  info.n_layers = c.n_layers;
  info.n_vocab = c.n_vocab;
  info.n_embd = c.n_embd;
  info.n_ctx = c.n_ctx;
  info.n_heads = c.n_heads;
  info.n_kv_heads = c.n_kv_heads;
  info.head_dim = c.head_dim;
  for (const HostWeight& w : file.tensors) {
    info.n_params += w.n_rows() * w.n_cols();
    info.weight_bytes += static_cast<int64_t>(w.data.size());
    // An embedding that is not also the head is read a row at a time.
    if (w.name == "token_embd.weight" && file.find("output.weight") != nullptr) continue;
    info.step_params += w.n_rows() * w.n_cols();
    info.step_bytes += static_cast<int64_t>(w.data.size());
  }
  info.fingerprint = fingerprint(file, c);
  return info;
}

}  // namespace quire
