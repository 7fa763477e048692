// The head for multi-token prediction that a model carries in its own file (DeepSeek-AI 2024, "DeepSeek-V3 Technical
// Report", 2.2): one more layer of the model's own kind behind the others, which tells the next token but one from the
// state that the model left and from the token that came, and goes on from its own state. It stands where GGUF and
// folders have it, behind the last layer: "blk.<n>.nextn.enorm", ".hnorm", ".eh_proj", ".shared_head_norm", maybe
// ".shared_head_head", and a layer's tensors. Embeddings are the model's own. Constant once it is loaded; the pass over
// it is spec/mtp_pass.h.
#pragma once
#include <memory>
#include <vector>

#include "model/model.h"

namespace quire {

// A model of one layer whose rows begin with begin() in place of embed() alone.
class MtpHead final : public Model {
 public:
  struct Parts {
    std::unique_ptr<Model> layer;               // with its last norm and its product over the vocabulary
    Tensor model_norm, token_norm, state_norm;  // [n_embd]: the model's last one; of embeddings; of states
    std::vector<Linear> proj;                   // 2 · n_embd → n_embd: token | state
    float norm_eps = 0.0F;
  };
  // `target`, whose embeddings these are, outlives it.
  MtpHead(Parts parts, const Model& target);

  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;
  Tensor embed(const Pass& pass) const override { return target_.embed(pass); }
  Tensor layers(Tensor x, LayerRange range, const Pass& pass) const override {
    return parts_.layer->layers(x, range, pass);
  }
  Tensor head(Tensor x, const Pass& pass) const override { return parts_.layer->head(x, pass); }
  Tensor hidden(Tensor x, const Pass& pass) const override { return parts_.layer->hidden(x, pass); }

  // States that the model left behind its last layer as this head reads them, [n, n_embd]: out = the model's last norm
  // of `states`.
  void norm_states(Tensor out, Tensor states, Ops& ops) const;
  // What layers() begins with: of each row of the batch the embedding of its token and `states` [n, n_embd], those of
  // norm_states() or what the head itself left behind its last norm. → [n, n_embd].
  Tensor begin(Tensor states, const Pass& pass) const;

 private:
  const Parts parts_;
  const Model& target_;
};

// The same model as such a head; null where it is none.
const MtpHead* as_mtp_head(const Model* model);

// The head that `file` carries, the first where it has several: a file as open_model() gives it, or neutral_form() of
// it. `target` is the model of that file on the same `ops`. Errors name file, key or tensor, what is wanted and what
// was found: Code::not_found where it carries none, Code::unsupported where its layers differ by lists.
Result<std::unique_ptr<Model>> load_mtp(const ModelFile& file, const Model& target, Ops& ops, LoadOptions options);

// For an architecture's facts(): a folder counts these layers beside the others ("num_nextn_predict_layers"), GGUF
// among them.
Status take_mtp_layers(HfFacts& facts);

}  // namespace quire
