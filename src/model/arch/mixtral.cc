// Mixtral: Mistral with experts. (GGUF has no architecture of this name: its Mixtral files say llama, and a decoder has
// experts wherever the file has a router.)
#include "model/decoder.h"
#include "model/gguf_form.h"

namespace quire {
namespace {

class Mixtral final : public Decoder {};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

Status as_gguf(ModelFile& file) {
  rename_arch(file, "mixtral", "llama");
  return {};
}

QR_REGISTER(
    ArchEntry,
    "mixtral",
    ArchEntry{
        .summary = "Mixtral: Mistral with experts",
        .no_gguf = "these are `llama` there",
        .hf = {.model_types = {"mixtral"},
               .tensors = {{"model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w1.weight", "blk.{}.ffn_gate.{}.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w3.weight", "blk.{}.ffn_up.{}.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w2.weight", "blk.{}.ffn_down.{}.weight"}},
               .facts = facts,
               .as_gguf = as_gguf},
        .load = &load_decoder<Mixtral>,
        .info = &decoder_info<Mixtral>});

}  // namespace
}  // namespace quire
