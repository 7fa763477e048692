// Hunyuan 0.5B to 7B, dense.
#include "model/arch/hunyuan.h"

namespace quire {
namespace {

class HunyuanDense final : public Hunyuan {};

QR_REGISTER(ArchEntry,
            "hunyuan-dense",
            ArchEntry{
                .summary = "Hunyuan, dense: norms on heads behind their rotation",
                .hf = {.model_types = {"hunyuan_v1_dense"}, .tensors = hunyuan_tensors({}), .facts = hunyuan_facts},
                .load = &load_decoder<HunyuanDense>,
                .info = &decoder_info<HunyuanDense>});

}  // namespace
}  // namespace quire
