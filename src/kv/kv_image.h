// What a sequence holds of the cache, copied out of it, so that its blocks can serve others and its past comes back as
// it was. Plain values; engine thread only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace quire {

struct KvImage {
  int n_tokens = 0;             // that the copy is of
  int n_dropped = 0;            // of them: in blocks that the sequence has dropped
  std::vector<uint8_t> groups;  // of each block: bit g: it has the bytes of group g
  int64_t n_bytes = 0;
  std::unique_ptr<std::byte[]> bytes;  // block by block, group by group
};

}  // namespace quire
