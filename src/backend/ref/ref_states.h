// The truth of layers that keep a state: plain loops in double; what a state holds is rounded when a row is done.
#pragma once
#include "ops/ops.h"

namespace quire {

void ref_short_conv(const Tensor& y, const Tensor& x, const ShortConv& conv, const StateRows& rows);
void ref_scan(const Tensor& y, const ScanInput& in, const ScanParams& params, const StateRows& rows);
void ref_delta_rule(const Tensor& y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows);
void ref_wkv(const Tensor& y, const Tensor& own, const WkvInput& in, const WkvParams& params, const StateRows& rows);

}  // namespace quire
