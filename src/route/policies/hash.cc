// Each key has one worker, and a next one for when that is full: consistent hashing with bounded loads (Mirrokni,
// Thorup, Zadimoghaddam 2017) over the highest random weight (Thaler, Ravishankar 1998). Needs no memory, so every
// router chooses alike.
#include "route/policy.h"

namespace quire {
namespace {

QR_REGISTER(RoutePolicyEntry, "hash", RoutePolicyEntry{&by_key, false});

}  // namespace
}  // namespace quire
