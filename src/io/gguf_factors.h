// Factors that GGUF files hold beside weights in NVFP4, as those do that were converted from folders: of NAME.weight
// NAME.scale or NAME.weight.scale, in F32, one number for all of it or one for each of its experts. What such files say
// of activations (NAME.input_scale) is passed over: they are not rounded so here. Pure function of the file; any
// thread.
#pragma once
#include "io/model_file.h"

namespace quire {

// Every such weight becomes one of f4_64, whose rows are made of the two tensors, and its factors are taken out of the
// list. REQUIRES that file.tensors are sorted. Errors name the tensor: Code::unsupported for a type, Code::corrupt for
// another number of factors or one that is not finite.
Status take_factors(ModelFile& file);

}  // namespace quire
