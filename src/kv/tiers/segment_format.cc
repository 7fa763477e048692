#include "kv/tiers/segment_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/check.h"

namespace quire {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr uint64_t kSegmentMagic = 0x31474553564b5251;  // "QRKVSEG1"
constexpr uint32_t kRecordMagic = 0x4b4c4251;           // "QBLK"
constexpr uint32_t kVersion = 1;
constexpr uint64_t kHeadSeed = 0x71722d68656164ULL, kPayloadSeed = 0x71722d6279746573ULL;
constexpr int64_t kHeadAlign = 64;

struct SegmentHeadBytes {
  uint64_t magic;
  uint32_t version, head_bytes;
  uint64_t number, fingerprint;
  uint32_t block_tokens, n_groups;
  std::array<int64_t, GroupBlocks::kMaxGroups> group_bytes;
  std::array<uint64_t, 5> unused;
  Hash128 hash;  // of everything before it
};
static_assert(sizeof(SegmentHeadBytes) == kSegmentHeadBytes && std::is_trivially_copyable_v<SegmentHeadBytes>);

struct RecordHeadBytes {
  uint32_t magic, head_bytes;
  int64_t payload_bytes;
  Hash128 name, parent;
  uint64_t model, adapter, salt;
  uint32_t n_tokens, n_extras, groups, unused;
  Hash128 payload_hash;
  Hash128 head_hash;  // of the whole head, this being zeros
};
static_assert(sizeof(RecordHeadBytes) == 120 && std::is_trivially_copyable_v<RecordHeadBytes>);

struct ExtraBytes {
  int32_t pos, len;
  Hash128 hash;
};
static_assert(sizeof(ExtraBytes) == 24);

int64_t padded(int64_t bytes, int64_t align) { return (bytes + align - 1) / align * align; }

int64_t head_bytes_of(int64_t n_tokens, int64_t n_extras) {
  return padded(int64_t{sizeof(RecordHeadBytes)} + n_tokens * 4 + n_extras * int64_t{sizeof(ExtraBytes)}, kHeadAlign);
}

// `head` is a copy.
Hash128 hash_of_head(std::vector<std::byte> head) {
  std::memset(head.data() + offsetof(RecordHeadBytes, head_hash), 0, sizeof(Hash128));
  return hash128(head, kHeadSeed);
}

void read_lists(std::span<const std::byte> head, const RecordHeadBytes& fixed, Spelling& out) {
  const std::byte* at = head.data() + sizeof(RecordHeadBytes);
  out.tokens.resize(fixed.n_tokens);
  std::memcpy(out.tokens.data(), at, fixed.n_tokens * sizeof(Token));
  at += fixed.n_tokens * sizeof(Token);
  for (uint32_t i = 0; i < fixed.n_extras; ++i, at += sizeof(ExtraBytes)) {
    ExtraBytes extra;
    std::memcpy(&extra, at, sizeof extra);
    out.extras.push_back({extra.pos, extra.len, extra.hash});
  }
}

}  // namespace

int64_t StoreShape::bytes_of(uint8_t groups) const {
  int64_t out = 0;
  for (size_t g = 0; g < group_bytes.size(); ++g) out += (groups >> g & 1U) != 0 ? group_bytes[g] : 0;
  return out;
}

std::vector<std::byte> segment_head(const StoreShape& shape, uint64_t number) {
  SegmentHeadBytes head = {};
  head.magic = kSegmentMagic;
  head.version = kVersion;
  head.head_bytes = kSegmentHeadBytes;
  head.number = number;
  head.fingerprint = shape.fingerprint;
  head.block_tokens = static_cast<uint32_t>(shape.block_tokens);
  head.n_groups = static_cast<uint32_t>(shape.group_bytes.size());
  std::copy(shape.group_bytes.begin(), shape.group_bytes.end(), head.group_bytes.begin());
  head.hash = hash128(&head, offsetof(SegmentHeadBytes, hash), kHeadSeed);
  std::vector<std::byte> out(sizeof head);
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

Status check_segment_head(std::span<const std::byte> bytes, const StoreShape& shape, uint64_t number) {
  SegmentHeadBytes head;
  if (bytes.size() < sizeof head) return fail(Code::corrupt, "it ends within its head");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kSegmentMagic) return fail(Code::corrupt, "it is no segment");
  if (head.version != kVersion) {
    return fail(Code::unsupported,
                "its version is " + std::to_string(head.version) + ", not " + std::to_string(kVersion));
  }
  if (head.hash != hash128(&head, offsetof(SegmentHeadBytes, hash), kHeadSeed))
    return fail(Code::corrupt, "its head is damaged");
  const std::vector<std::byte> wanted = segment_head(shape, number);
  if (std::ranges::equal(bytes.first(sizeof head), wanted)) return {};
  return fail(Code::unsupported, head.fingerprint != shape.fingerprint ? "it is of another model"
                                 : head.number != number               ? "it is another segment under this name"
                                                                       : "its blocks have another shape");
}

int64_t most_head_bytes(const StoreShape& shape) { return head_bytes_of(shape.block_tokens, kMostExtras); }
int64_t usual_head_bytes(const StoreShape& shape) { return head_bytes_of(shape.block_tokens, 0); }
int64_t usual_record_bytes(const StoreShape& shape) {
  return usual_head_bytes(shape) + padded(shape.bytes_of(shape.all_groups()), 8);
}

std::vector<std::byte> record_bytes(const StoreShape& shape, const Spelling& spelling, const TierBlock& block) {
  const auto payload_bytes = static_cast<int64_t>(block.bytes.size());
  QR_CHECK(payload_bytes == shape.bytes_of(block.groups) && std::ssize(spelling.tokens) == shape.block_tokens &&
           spelling.extras.size() <= kMostExtras);
  RecordHeadBytes fixed = {};
  fixed.magic = kRecordMagic;
  fixed.head_bytes = static_cast<uint32_t>(head_bytes_of(std::ssize(spelling.tokens), std::ssize(spelling.extras)));
  fixed.payload_bytes = payload_bytes;
  fixed.name = spelling.name;
  fixed.parent = spelling.parent;
  fixed.model = spelling.key.model;
  fixed.adapter = spelling.key.adapter;
  fixed.salt = spelling.key.salt;
  fixed.n_tokens = static_cast<uint32_t>(spelling.tokens.size());
  fixed.n_extras = static_cast<uint32_t>(spelling.extras.size());
  fixed.groups = block.groups;
  fixed.payload_hash = hash128(block.bytes, kPayloadSeed);
  std::vector<std::byte> out(fixed.head_bytes);
  std::memcpy(out.data(), &fixed, sizeof fixed);
  std::byte* at = out.data() + sizeof fixed;
  std::memcpy(at, spelling.tokens.data(), spelling.tokens.size() * sizeof(Token));
  at += spelling.tokens.size() * sizeof(Token);
  for (const Extra& extra : spelling.extras) {
    const ExtraBytes bytes{extra.pos, extra.len, extra.hash};
    std::memcpy(at, &bytes, sizeof bytes);
    at += sizeof bytes;
  }
  const Hash128 hash = hash_of_head(out);
  std::memcpy(out.data() + offsetof(RecordHeadBytes, head_hash), &hash, sizeof hash);
  out.reserve(out.size() + static_cast<size_t>(padded(payload_bytes, 8)));
  out.insert(out.end(), block.bytes.begin(), block.bytes.end());
  out.resize(fixed.head_bytes + static_cast<size_t>(padded(payload_bytes, 8)));
  return out;
}

Result<RecordHead> parse_record_head(std::span<const std::byte> bytes, const StoreShape& shape) {
  RecordHeadBytes fixed;
  if (bytes.size() < sizeof fixed) return fail(Code::exhausted, "it ends within the head of a record");
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (fixed.magic != kRecordMagic || fixed.n_tokens != static_cast<uint32_t>(shape.block_tokens) ||
      fixed.n_extras > kMostExtras || fixed.head_bytes != head_bytes_of(fixed.n_tokens, fixed.n_extras) ||
      fixed.groups > shape.all_groups() || fixed.payload_bytes != shape.bytes_of(static_cast<uint8_t>(fixed.groups))) {
    return fail(Code::corrupt, "there is no record");
  }
  if (bytes.size() < fixed.head_bytes) return fail(Code::exhausted, "it ends within the head of a record");
  const auto head = bytes.first(fixed.head_bytes);
  if (fixed.head_hash != hash_of_head({head.begin(), head.end()}))
    return fail(Code::corrupt, "the head of a record is damaged");
  RecordHead out;
  out.spelling = {fixed.name, fixed.parent, {fixed.model, fixed.adapter, fixed.salt}, {}, {}};
  out.groups = static_cast<uint8_t>(fixed.groups);
  out.head_bytes = fixed.head_bytes;
  out.payload_bytes = fixed.payload_bytes;
  out.payload_hash = fixed.payload_hash;
  read_lists(head, fixed, out.spelling);
  return out;
}

bool is_payload(const RecordHead& head, std::span<const std::byte> bytes) {
  return static_cast<int64_t>(bytes.size()) == head.payload_bytes && hash128(bytes, kPayloadSeed) == head.payload_hash;
}

}  // namespace quire
