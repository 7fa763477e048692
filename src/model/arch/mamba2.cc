// Mamba 2: layers that keep a state and have nothing else.
#include "model/arch/mamba2.h"

#include "model/arch/states_alone.h"

namespace quire {
namespace {

class Mamba2 final : public StatesAlone {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(check_no_heads(file, prefix, c));
    return read_state_config(file, prefix, c);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(states_alone_facts(hf));
  return mamba2_facts(hf, {"conv_kernel", "state_size", "num_heads", "head_dim", "n_groups"});
}

QR_REGISTER(ArchEntry,
            "mamba2",
            ArchEntry{
                .summary = "Mamba 2: states alone",
                .hf = {.model_types = {"mamba2"}, .tensors = mamba2_tensors({}), .facts = facts, .lists_parts = true},
                .load = &load_decoder<Mamba2>,
                .info = &decoder_info<Mamba2>});

}  // namespace
}  // namespace quire
