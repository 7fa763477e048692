// Bytes as a segment of the disk tier: read at the start, then every block that it seems to have, then one more is
// stored beside it. Nothing may crash, and whatever is found spells what was asked for.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "kv/tiers/segment_store.h"
#include "kv/tiers/test_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  const StoreShape shape{0x1234, 4, {40, 24}};
  TestDisk disk;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  // With the right head in front, so that what comes behind it is looked at; and as it is.
  std::vector<std::byte> headed = segment_head(shape, 1);
  headed.insert(headed.end(), bytes, bytes + size);
  disk.files["0000000000000001.kvseg"] = std::move(headed);
  disk.files["0000000000000002.kvseg"] = {bytes, bytes + size};
  auto store = SegmentStore::open(std::make_unique<TestFolder>(disk), {shape, int64_t{16} << 20, 0});
  QR_CHECK(store.has_value());
  for (size_t at = 0; at < size; at += 8) {
    const Result<RecordHead> head = parse_record_head({bytes + at, size - at}, shape);
    if (!head) continue;
    const SegmentStore::Read read = (*store)->read(head->spelling);
    if (read.outcome != SegmentStore::Read::Outcome::found) continue;
    QR_CHECK(static_cast<int64_t>(read.block.bytes.size()) == shape.bytes_of(read.block.groups));
  }
  SegmentStore::Block block{{{1, 2}, {}, {}, {1, 2, 3, 4}, {}}, {3, std::vector<std::byte>(64)}};
  QR_CHECK((*store)->append({block}).has_value());
  (void)(*store)->read(block.spelling);
  return 0;
}
