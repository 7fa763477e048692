// What the engine says of its options, as the command line names them. Pure.
#pragma once
#include "base/result.h"

namespace quire {

// "n_ctx must be …" becomes "--ctx must be …"; what begins with no option's name stays as it is.
Error in_option_names(Error error);

}  // namespace quire
