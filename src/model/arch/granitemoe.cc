// Granite 3 with experts, whose gates and ups a Hugging Face folder has in one tensor.
#include "model/arch/granite.h"
#include "model/hf_reshape.h"

namespace quire {
namespace {

QR_REGISTER(
    ArchEntry,
    "granitemoe",
    ArchEntry{
        .summary = "Granite with experts",
        .hf = {.model_types = {"granitemoe"},
               .tensors = {{"model.layers.{}.block_sparse_moe.router.layer.weight", "blk.{}.ffn_gate_inp.weight"},
                           {.theirs = "model.layers.{}.block_sparse_moe.input_linear.weight",
                            .ours = "blk.{}.ffn_gate_exps.weight",
                            .reshape = first_rows},
                           {.theirs = "model.layers.{}.block_sparse_moe.input_linear.weight",
                            .ours = "blk.{}.ffn_up_exps.weight",
                            .reshape = last_rows},
                           {"model.layers.{}.block_sparse_moe.output_linear.weight", "blk.{}.ffn_down_exps.weight"}},
               .facts = granite_facts,
               .pairs_in_gguf = true},
        .load = &load_decoder<Granite>,
        .info = &decoder_info<Granite>});

}  // namespace
}  // namespace quire
