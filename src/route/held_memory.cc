// What this room holds for clients, beside what its sockets do.
#include "base/held_memory.h"

#include "http/byte_budget.h"
#include "http/limits.h"
#include "http/tls_bytes.h"
#include "route/fleet.h"
#include "route/kv_feeds.h"
#include "route/limits.h"
#include "route/proxied.h"

namespace quire {
namespace {

constexpr int64_t kSessionBytes = 160;    // an entry in a list and in a table, with the allocator's share
constexpr int64_t kHeldBlockBytes = 100;  // two entries in tables, with the allocator's share
constexpr int64_t kTlsBytes = kTlsSessionBytes + kMaxTlsTalk + kTlsRecordBytes;
constexpr int64_t kWaitingBytes = 2 << 10;  // a request beside its head and body
static_assert(sizeof(Proxied) <= kWaitingBytes);

std::vector<HeldRow> rows() {
  const RouteLimits l;
  const HttpLimits http;
  return {
      {.what =
           "router: answers and events that are held until they are whole, what was told of streams that can move, and "
           "prompts' tokens",
       .of_request = {"gathered_bytes or event_bytes", l.gathered_bytes},
       .in_all = {"held_bytes", l.held_bytes},
       .test = "Proxied.WholeAnswersKeepTheirLengthAndWhatFindsNoRoomIsPassedOnAsItComes"},
      {.what = "router: requests that wait for a worker, or for their model's engine; their bodies are of "
               "all_body_bytes too",
       .of_request = {"body_bytes + 2 × header_bytes + 2 KiB", http.body_bytes + kWaitingBytes + 2 * http.header_bytes},
       .in_all = {"all_body_bytes + 2 × n_waiting × (4 KiB + 2 × header_bytes + 2 KiB)",
                  http.all_body_bytes + 2 * l.n_waiting * (kFreeBytes + kWaitingBytes + 2 * http.header_bytes)},
       .test = "Proxied.RequestsThatWaitForAWorkerAreFewAndTheirBodiesAreCounted"},
      {.what = "router: TLS with the workers that answer; n_kept more of it to each worker and io thread",
       .of_request = {"64 KiB + 32 KiB + a record", kTlsBytes},
       .in_all = {"… × n_connections", kTlsBytes * http.n_connections},
       .test = "UpstreamTls.WhatPassesIsTheSameAndTheConnectionIsKept"},
      {.what = "router: beginnings of prompts and sessions, and their workers",
       .in_all = {"19 × n_prefix_blocks × 1024 workers + 160 × n_sessions",
                  PrefixMap::kBlockBytes * l.n_prefix_blocks * kMostKnownWorkers + kSessionBytes * l.n_sessions},
       .test = "PrefixMap.HasAsManyNodesAsItsBoundHasRoomFor"},
      {.what = "router: blocks that workers say they have, what they were given just now, and names of salts "
               "(`--worker-events`)",
       .in_all = {"100 × n_kv_blocks + 296 KiB × 900 workers",
                  kHeldBlockBytes * l.n_kv_blocks + KvIndex::kWorkerBytes * static_cast<int64_t>(KvFeeds::kMostFeeds)},
       .test = "KvIndex.BlocksBeyondAWorkersShareAreNotKept"},
  };
}

QR_REGISTER(HeldRows, "route", rows);

}  // namespace
}  // namespace quire
