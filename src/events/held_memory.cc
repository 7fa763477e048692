// What this room holds for clients.
#include "base/held_memory.h"

#include "events/kv_publisher.h"

namespace quire {
namespace {

std::vector<HeldRow> rows() {
  const KvPublisherOptions o;
  return {
      {.what = "KV events that wait to be published, and that can be said again (`--kv-events`)",
       .in_all = {"16 MiB + 64 MiB", o.queue_bytes + o.replay_bytes},
       .test = "KvPublisherOf.BytesThatCanBeSaidAgainAreBounded"},
  };
}
QR_REGISTER(HeldRows, "events", rows);

}  // namespace
}  // namespace quire
