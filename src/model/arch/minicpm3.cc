// MiniCPM 3: latent attention whose parts turn by halves, dense, with factors of the embedding, of what a part adds and
// of logits. GGUF's files do not say the factors: they are those of the 4B model.
#include <cmath>

#include "model/decoder.h"

namespace quire {
namespace {

constexpr double kEmbedding = 12.0, kDepth = 1.4;
constexpr double kBase = 256.0;  // numbers of a row of the model that the factor of logits comes from

class MiniCpm3 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    const auto factor = [&](const char* name, double usual) {
      return file.meta.get_double_or(prefix + name, 1e-6, 1e6, usual);
    };
    QR_TRY(const double embedding, factor("embedding_scale", kEmbedding));
    QR_TRY(const double residual, factor("residual_scale", kDepth / std::sqrt(c.n_layers)));
    QR_TRY(const double logits, factor("logit_scale", c.n_embd / kBase));
    c.embed_scale = static_cast<float>(embedding);
    c.residual_scale = static_cast<float>(residual);
    c.logit_scale = static_cast<float>(1.0 / logits);
    return {};
  }
  bool takes_latent() const override { return true; }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  QR_TRY(const double embedding, hf.get_double_or("scale_emb", 1e-6, 1e6, kEmbedding));
  QR_TRY(const double depth, hf.get_double_or("scale_depth", 1e-6, 1e6, kDepth));
  QR_TRY(const double base, hf.get_double_or("dim_model_base", 1.0, 1e6, kBase));
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t n_embd, hf.get_int("hidden_size", 1, 1 << 20));
  hf.set("embedding_scale", embedding, "scale_emb");
  hf.set("residual_scale", depth / std::sqrt(static_cast<double>(n_layers)), "scale_depth");
  hf.set("logit_scale", static_cast<double>(n_embd) / base, "dim_model_base");
  return translate_latent(hf, LatentForm::whole);
}

QR_REGISTER(ArchEntry,
            "minicpm3",
            ArchEntry{.summary = "MiniCPM 3: latent attention, dense, factors",
                      .hf = {.model_types = {"minicpm3"}, .tensors = latent_names(LatentForm::whole), .facts = facts},
                      .load = &load_decoder<MiniCpm3>,
                      .info = &decoder_info<MiniCpm3>});

}  // namespace
}  // namespace quire
