// KV events from anybody: any bytes as a batch. What is told keeps its promises, the same bytes say the same again, and
// a batch that is cut is not a batch.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "events/kv_batch.h"
#include "events/msgpack_reader.h"

namespace {

using namespace quire;

uint64_t told(std::string_view payload, bool& good) {
  uint64_t sum = 0;
  const auto each = [&](const KvEvent& e) {
    sum = sum * 31 + static_cast<uint64_t>(e.kind) + 7 * e.hashes.size() + 11 * e.tokens.size() + e.adapter;
    for (const uint64_t hash : e.hashes) sum = sum * 31 + hash;
    if (e.kind != KvEvent::Kind::stored || !e.in_memory || e.group != 0) return;
    QR_CHECK(e.block_tokens >= 1 && e.block_tokens <= kMostKvBlockTokens);
    QR_CHECK(e.tokens.size() == e.hashes.size() * static_cast<size_t>(e.block_tokens));
    QR_CHECK(e.extras.empty() || e.extras.size() == e.hashes.size());
    for (const Token token : e.tokens) {
      QR_CHECK(token >= 0);
      sum = sum * 31 + static_cast<uint64_t>(token);
    }
  };
  good = read_kv_batch(payload, each).has_value();
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  bool good = false, again = false, cut = false;
  const uint64_t sum = told(bytes, good);
  QR_CHECK(told(bytes, again) == sum && again == good, "the same bytes say something else");
  if (good) {
    told(bytes.substr(0, size - 1), cut);
    QR_CHECK(!cut, "a batch that is cut is read");
    MsgpackReader whole(bytes);
    QR_CHECK(whole.skip() == bytes, "a batch is one value");
  }
  return 0;
}
