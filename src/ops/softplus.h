// ln(1 + eˣ), as authors' code has it: x itself where that is the same. Not for kernels: it calls the C library.
#pragma once
#include <cmath>

namespace quire {

inline double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

}  // namespace quire
