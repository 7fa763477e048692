// Mixtral: Mistral with experts. (GGUF has no architecture of this name: its Mixtral files say llama, and a decoder has
// experts wherever the file has a router.)
#include "model/decoder.h"

namespace quire {
namespace {

class Mixtral final : public Decoder {};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(
    ArchEntry,
    "mixtral",
    ArchEntry{
        .summary = "Mixtral: Mistral with experts",
        .hf = {.model_types = {"mixtral"},
               .tensors = {{"model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w1.weight", "blk.{}.ffn_gate.{}.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w3.weight", "blk.{}.ffn_up.{}.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w2.weight", "blk.{}.ffn_down.{}.weight"}},
               .facts = facts},
        .load = &load_decoder<Mixtral>,
        .info = &decoder_info<Mixtral>});

}  // namespace
}  // namespace quire
