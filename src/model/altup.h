// Alternating updates: a residual stream of several parts, of which a layer computes on the first alone and predicts
// and corrects the others (Baykal et al. 2023, arXiv:2301.13310). Rows [n, n_parts · d] have the parts side by side.
// Functions of values, a row's own; on the host, the engine thread's.
#pragma once
#include "tensor/tensor.h"

namespace quire {

// Part i of out = part i of x + Σ_j coef[i · n_parts + j] · part j of x.  coef [n, n_parts²].
void predict_parts(const Tensor& out, const Tensor& x, const Tensor& coef);
// Part i of out = part i of x + (1 + coef[i]) · (found − part 0 of x).  found [n, d], coef [n, n_parts].
void correct_parts(const Tensor& out, const Tensor& x, const Tensor& found, const Tensor& coef);
// y [n, d] = x · w, column by column.  x [n, d], w [d].
void scale_columns(const Tensor& y, const Tensor& x, const Tensor& w);
// Every row of x times what gives it the root mean square of the same row of `like`.  Both [n, d].
void match_magnitudes(const Tensor& x, const Tensor& like);

}  // namespace quire
