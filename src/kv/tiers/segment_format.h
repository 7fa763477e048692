// The bytes of the disk tier's files. A segment is a head, then records, each a block: what it spells, how long it is,
// checksums of both parts. Everything is little-endian and aligned to 8 bytes.
//
//   segment   head of 128 bytes: magic, version, number, fingerprint and shape of what may be in it, checksum
//   record    head: magic, lengths, name, parent's name, key, checksums · tokens · extras, all of it padded to 64 bytes
//             bytes of the groups that it has, padded to 8
//
// Another version is another layout and is not read. Pure functions; nothing of what they are given is believed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/tiers/tier.h"

namespace quire {

// What must be equal for a stored block to be of any use.
struct StoreShape {
  uint64_t fingerprint = 0;          // of the model with codecs, tokenizer and numerics
  int block_tokens = 0;              // 1 to 4096
  std::vector<int64_t> group_bytes;  // of a block, by KV group; some may be 0

  int64_t bytes_of(uint8_t groups) const;
  uint8_t all_groups() const { return static_cast<uint8_t>((1U << group_bytes.size()) - 1); }
  bool operator==(const StoreShape&) const = default;
};

inline constexpr int64_t kSegmentHeadBytes = 128;
inline constexpr size_t kMostExtras = 256;  // of a block; those with more are not stored

std::vector<std::byte> segment_head(const StoreShape& shape, uint64_t number);
// Code::corrupt where it is none, Code::unsupported where it is another version's, model's or shape's.
Status check_segment_head(std::span<const std::byte> bytes, const StoreShape& shape, uint64_t number);

// Where the parts of a record lie, and what it says that it is.
struct RecordHead {
  Spelling spelling;
  uint8_t groups = 0;
  int64_t head_bytes = 0, payload_bytes = 0;  // with padding; without
  Hash128 payload_hash;
  int64_t record_bytes() const { return head_bytes + (payload_bytes + 7) / 8 * 8; }
};

// The most that a head can take, and what one without extras does.
int64_t most_head_bytes(const StoreShape& shape);
int64_t usual_head_bytes(const StoreShape& shape);
// The most bytes of a record without extras.
int64_t usual_record_bytes(const StoreShape& shape);

// REQUIRES block.bytes to be as long as its groups are, tokens as many as a block has, at most kMostExtras extras.
std::vector<std::byte> record_bytes(const StoreShape& shape, const Spelling& spelling, const TierBlock& block);
// Of the head of a record, at the front of `bytes`. Code::exhausted: there are fewer bytes than the head says (and the
// head says no more than most_head_bytes); anything else: no such head.
Result<RecordHead> parse_record_head(std::span<const std::byte> bytes, const StoreShape& shape);
// Whether these are the bytes that the head was written with.
bool is_payload(const RecordHead& head, std::span<const std::byte> bytes);

}  // namespace quire
