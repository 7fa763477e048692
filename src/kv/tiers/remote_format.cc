#include "kv/tiers/remote_format.h"

#include <array>
#include <cstring>
#include <vector>

namespace quire {
namespace {

constexpr uint64_t kMagic = 0x31'6b'76'52'72'69'75'51;  // "QuirRvk1": with another layout it ends otherwise
constexpr uint64_t kShapeSeed = 0x51c7'5a09'3b1e'8d2f;  // never changes

struct RemoteHead {
  uint64_t magic, groups;
  Hash128 shape;
};
static_assert(sizeof(RemoteHead) == kRemoteHeadBytes);

RemoteHead head_of(const StoreShape& shape, uint8_t groups) { return {kMagic, groups, hash_of(shape)}; }

}  // namespace

Hash128 hash_of(const StoreShape& shape) {
  std::array<uint64_t, 2 + GroupBlocks::kMaxGroups> parts{shape.fingerprint, static_cast<uint64_t>(shape.block_tokens)};
  size_t n = 2;
  for (const int64_t bytes : shape.group_bytes) parts.at(n++) = static_cast<uint64_t>(bytes);
  return hash128(parts.data(), n * sizeof parts[0], kShapeSeed);
}

std::string remote_key(const Hash128& shape, const Hash128& name) {
  return "quire:kv:" + to_hex(shape) + ":" + to_hex(name);
}

int64_t most_value_bytes(const StoreShape& shape) {
  return static_cast<int64_t>(kRemoteHeadBytes) + most_head_bytes(shape) + shape.bytes_of(shape.all_groups()) + 7;
}

std::string remote_value(const StoreShape& shape, const Spelling& spelling, const TierBlock& block) {
  const std::vector<std::byte> record = record_bytes(shape, spelling, block);
  const RemoteHead head = head_of(shape, block.groups);
  std::string out(sizeof head + record.size(), '\0');
  std::memcpy(out.data(), &head, sizeof head);
  std::memcpy(out.data() + sizeof head, record.data(), record.size());
  return out;
}

uint8_t groups_of_head(std::string_view head, const StoreShape& shape) {
  RemoteHead got;
  if (head.size() < sizeof got) return 0;
  std::memcpy(&got, head.data(), sizeof got);
  if (got.groups > shape.all_groups()) return 0;
  const auto groups = static_cast<uint8_t>(got.groups);
  const RemoteHead wanted = head_of(shape, groups);
  return std::memcmp(&got, &wanted, sizeof got) == 0 ? groups : uint8_t{0};
}

RemoteValue parse_value(std::string_view value, const StoreShape& shape, const Spelling& wanted) {
  using Outcome = RemoteValue::Outcome;
  RemoteHead head;
  if (value.size() < sizeof head) return {Outcome::damaged, {}};
  std::memcpy(&head, value.data(), sizeof head);
  if (head.magic != kMagic || head.groups > shape.all_groups()) return {Outcome::damaged, {}};
  if (head.shape != hash_of(shape)) return {Outcome::other, {}};
  const std::span<const std::byte> record{reinterpret_cast<const std::byte*>(value.data()) + sizeof head,
                                          value.size() - sizeof head};
  const Result<RecordHead> found = parse_record_head(record, shape);
  if (!found || std::ssize(record) != found->record_bytes() || found->groups != head.groups)
    return {Outcome::damaged, {}};
  if (found->spelling != wanted) return {Outcome::other, {}};
  const auto payload =
      record.subspan(static_cast<size_t>(found->head_bytes), static_cast<size_t>(found->payload_bytes));
  if (!is_payload(*found, payload)) return {Outcome::damaged, {}};
  return {Outcome::found, {found->groups, {payload.begin(), payload.end()}}};
}

}  // namespace quire
