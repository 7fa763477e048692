// Every limit of the router beside those of its sockets (http/limits.h): the one table. Times in milliseconds. Plain
// values, read-only once it has started.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace quire {

struct RouteLimits {
  int64_t connect_ms = 2'000;          // to find and reach a worker
  int64_t first_byte_ms = 600'000;     // from a request's last byte to the first of its answer
  int64_t stall_ms = 120'000;          // without a byte of an answer that has begun, or taken of a request
  int64_t dead_ms = 30'000;            // without a sign of life from a worker's machine
  int64_t kept_ms = 30'000;            // a connection to a worker that is not used
  int64_t n_kept = 64;                 // such connections to one worker, for each io thread
  int64_t gathered_bytes = 256 << 10;  // an answer of a stated length up to it is sent when it is whole
  int64_t event_bytes = 256 << 10;     // of an event or a line that is held until it is whole
  int64_t held_bytes = 256 << 20;      // of these together, of all requests
  int64_t n_waiting = 256;             // requests for which there is no worker
  int64_t wait_ms = 5'000;             // they wait so long
  int64_t probe_ms = 1'000;            // between two questions for a worker's health
  int64_t probe_answer_ms = 2'000;     // for its answer
  int64_t dns_ms = 5'000;              // between two look-ups of names whose addresses are workers
  int64_t n_failures = 3;              // one after the other: the worker is given nothing for a while
  int64_t n_recoveries = 2;            // good answers about its health, before it is given something again
  int64_t eject_ms = 1'000;            // for so long at first; twice as long each time
  int64_t most_eject_ms = 30'000;      // but no longer, also where the worker itself asks for it (Retry-After)
  int64_t n_retries = 128;             // that may happen at once, beyond one for each five requests
  int64_t n_moves = 3;                 // of a stream whose worker failed, without a token in between
  int64_t n_sessions = 100'000;        // whose worker is remembered
  int64_t session_s = 3'600;           // for so long, in seconds
  int64_t n_prefix_blocks = 32'768;    // blocks of prompts whose workers are remembered, for each worker
  int64_t n_kv_blocks = 1'000'000;     // blocks that workers say they have, with --worker-events
  int64_t tokens_ms = 5;               // for a worker to say the tokens of a prompt
  int64_t replica_requests = 32;       // that a worker is to have at once, and
  int64_t replica_wait_ms = 1'000;     // that a prompt is to wait: goals of the number of workers that is wished for
  int64_t model_start_ms = 600'000;    // a local engine, until it listens
  int64_t model_wait_ms = 600'000;     // a request, for its model's engine
  int64_t model_stop_ms = 60'000;      // a local engine, from when it is told to end until it has
  int64_t model_look_ms = 5'000;       // between two looks at which models are there
};

struct RouteLimitRow {
  std::string_view name;
  int64_t RouteLimits::* value;
  std::string_view what;
};
// One row per member, in their order.
std::span<const RouteLimitRow> route_limit_rows();

}  // namespace quire
