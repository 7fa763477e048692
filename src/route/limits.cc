#include "route/limits.h"

namespace quire {
namespace {

constexpr RouteLimitRow kRows[] = {
    {"connect_ms", &RouteLimits::connect_ms, "to find a worker and to connect"},
    {"first_byte_ms", &RouteLimits::first_byte_ms, "from a request's last byte to the first of its answer"},
    {"stall_ms", &RouteLimits::stall_ms, "without a byte of an answer that has begun, or taken of a request"},
    {"dead_ms", &RouteLimits::dead_ms, "without a sign of life from a worker's machine"},
    {"kept_ms", &RouteLimits::kept_ms, "a connection to a worker that is not used"},
    {"n_kept", &RouteLimits::n_kept, "such connections to one worker, for each io thread"},
    {"gathered_bytes", &RouteLimits::gathered_bytes, "an answer of a stated length up to it is sent when it is whole"},
    {"event_bytes", &RouteLimits::event_bytes, "of an event or a line that is held until it is whole"},
    {"held_bytes", &RouteLimits::held_bytes, "of these together; what finds no room is passed on as it comes"},
    {"n_waiting", &RouteLimits::n_waiting, "requests that wait because no worker may be given one; beyond it 503"},
    {"wait_ms", &RouteLimits::wait_ms, "they wait so long, then 503"},
    {"probe_ms", &RouteLimits::probe_ms, "between two questions for a worker's health"},
    {"probe_answer_ms", &RouteLimits::probe_answer_ms, "for its answer"},
    {"dns_ms", &RouteLimits::dns_ms, "between two look-ups of a name that --discover gives"},
    {"n_failures", &RouteLimits::n_failures,
     "of a worker, one after the other, before it is given nothing for a while"},
    {"n_recoveries", &RouteLimits::n_recoveries, "good answers about its health, before it is given something again"},
    {"eject_ms", &RouteLimits::eject_ms, "a worker that failed is given nothing; twice as long each time"},
    {"most_eject_ms", &RouteLimits::most_eject_ms, "but no longer, also where the worker asks for it (Retry-After)"},
    {"n_retries", &RouteLimits::n_retries, "that may happen at once, beyond one for each five requests"},
    {"n_moves", &RouteLimits::n_moves,
     "to another worker, of a stream whose worker failed, without a token in between; 0: it ends there"},
    {"n_sessions", &RouteLimits::n_sessions, "whose worker is remembered"},
    {"session_s", &RouteLimits::session_s, "for so long, in seconds"},
    {"n_prefix_blocks", &RouteLimits::n_prefix_blocks,
     "blocks of prompts whose workers are remembered, for each worker, up to 1024 of them"},
    {"n_kv_blocks", &RouteLimits::n_kv_blocks,
     "blocks that workers say they have (--worker-events), an equal share for each worker"},
    {"tokens_ms", &RouteLimits::tokens_ms,
     "for a worker to say the tokens of a prompt (--worker-events); then it is known by its text"},
    {"replica_requests", &RouteLimits::replica_requests,
     "that each worker is to have at once (quire_route_desired_replicas)"},
    {"replica_wait_ms", &RouteLimits::replica_wait_ms,
     "in which prompts that wait are to be begun (quire_route_desired_replicas)"},
    {"model_start_ms", &RouteLimits::model_start_ms, "until a local engine listens; then it is killed"},
    {"model_wait_ms", &RouteLimits::model_wait_ms, "a request waits for its model's engine so long, then 503"},
    {"model_stop_ms", &RouteLimits::model_stop_ms, "from when a local engine is told to end; then it is killed"},
    {"model_look_ms", &RouteLimits::model_look_ms, "between two looks at which models are there (--models, --pulled)"},
};

}  // namespace

std::span<const RouteLimitRow> route_limit_rows() { return kRows; }

}  // namespace quire
