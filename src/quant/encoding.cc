#include "quant/encoding.h"

namespace quire {

bool EncoderSet::runs_here() const {
#if defined(__x86_64__) || defined(__i386__)
  if (isa == "avx2") return __builtin_cpu_supports("avx2");
  if (isa == "avx512") {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
#endif
  return isa == encoder_sets().front().isa;
}

Encoder find_encoder(const WeightFormat& format, bool quick) {
  size_t i = 0;
  while (weight_formats()[i] != &format) ++i;
  Encoder out = encoder_sets().front().encoders[i];
  for (const EncoderSet& set : encoder_sets()) {
    if (!quick && set.encoders[i] != nullptr && set.runs_here()) out = set.encoders[i];
  }
  return out;
}

}  // namespace quire
