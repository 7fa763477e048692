// The keys and values of the remote tier. A key is "quire:kv:SHAPE:NAME": a hash of everything that must be equal for a
// block to be of any use (StoreShape, so the model with weights, tokenizer, codecs and numerics), and the block's name.
// A value is a head of 32 bytes, which is enough to say what there is, and a record of the disk tier's files.
//
//   head      magic with the version, groups, the shape's hash
//   record    what the block spells, its length, checksums of both parts, its bytes (segment_format.h)
//
// Pure functions; nothing of what they are given is believed.
#pragma once
#include <string>
#include <string_view>

#include "kv/tiers/segment_format.h"

namespace quire {

inline constexpr size_t kRemoteHeadBytes = 32;

Hash128 hash_of(const StoreShape& shape);
std::string remote_key(const Hash128& shape, const Hash128& name);
// No value is longer.
int64_t most_value_bytes(const StoreShape& shape);

// REQUIRES what record_bytes does.
std::string remote_value(const StoreShape& shape, const Spelling& spelling, const TierBlock& block);
// The groups of a value that begins so; 0: it is none of this shape.
uint8_t groups_of_head(std::string_view head, const StoreShape& shape);

struct RemoteValue {
  enum class Outcome : uint8_t { found, damaged, other } outcome = Outcome::damaged;
  TierBlock block;
};
// The block of a value, if it is whole and spells what was wanted.
RemoteValue parse_value(std::string_view value, const StoreShape& shape, const Spelling& wanted);

}  // namespace quire
