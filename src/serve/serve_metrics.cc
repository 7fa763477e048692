#include "serve/serve_metrics.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/log.h"
#include "spec/proposer_names.h"

namespace quire {
namespace {

constexpr double kNsPerSecond = 1e9;

// Seconds: from a step of a tiny model to a long generation.
std::vector<double> short_times() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5};
}
std::vector<double> long_times() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640};
}
std::vector<double> token_counts() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
}

double seconds(int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }

std::string_view cause_name(int cause) {
  switch (static_cast<Cause>(cause)) {
    case Cause::fresh: return "fresh";
    case Cause::recomputed: return "recomputed";
    case Cause::draft: return "draft";
    case Cause::warm_up: return "warm_up";
  }
  return "fresh";
}

}  // namespace

ServeMetrics::ServeMetrics(Metrics& m)
    : first_token(m.histogram("quire_time_to_first_token_seconds",
                              "From the request's head to its first token in the server.",
                              long_times())),
      inter_token(m.histogram("quire_inter_token_latency_seconds", "Between tokens of one choice.", short_times())),
      request(m.histogram(
          "quire_e2e_request_latency_seconds", "From the request's head to the end of its answer.", long_times())),
      aborted(m.counter(
          "quire_request_success_total", "Sequences that finished.", {{"finished_reason", std::string("abort")}})),
      cancelled(m.counter("quire_requests_cancelled_total", "Requests whose client left before the end.")),
      failed(m.counter("quire_requests_failed_total", "Requests that failed while they ran.")),
      stalled(m.counter("quire_requests_stalled_total", "Requests cancelled because the client read too slowly.")),
      metrics_(m),
      queue_(m.histogram("quire_request_queue_time_seconds", "From submission to the first step.", long_times())),
      prefill_(
          m.histogram("quire_request_prefill_time_seconds", "From the first step to the first token.", long_times())),
      decode_(m.histogram("quire_request_decode_time_seconds", "From the first token to the last.", long_times())),
      inference_(
          m.histogram("quire_request_inference_time_seconds", "From the first step to the last token.", long_times())),
      per_token_(m.histogram(
          "quire_request_time_per_output_token_seconds", "Mean time between two tokens of a sequence.", short_times())),
      prompt_tokens_(m.histogram("quire_request_prompt_tokens", "Prompt tokens of a sequence.", token_counts())),
      generation_tokens_(
          m.histogram("quire_request_generation_tokens", "Tokens generated for a sequence.", token_counts())),
      most_tokens_(m.histogram("quire_request_max_num_generation_tokens",
                               "Tokens that a request's longest choice was made of.",
                               token_counts())),
      max_tokens_(m.histogram("quire_request_params_max_tokens",
                              "Tokens that a choice may have, with the context's bound.",
                              token_counts())),
      n_(m.histogram("quire_request_params_n", "Choices that a request asks for.", {1, 2, 5, 10, 20})) {
  m.gauge("quire_build_info", "1; what this server is.", {{"version", QR_VERSION}}).set(1);
  for (const FinishReason reason : {FinishReason::stop, FinishReason::length, FinishReason::tool_calls})
    finished_[static_cast<int>(reason)] = &m.counter("quire_request_success_total", "Sequences that finished.",
                                                     {{"finished_reason", std::string(finish_name(reason))}});
}

void ServeMetrics::count_request(std::string_view endpoint, int status) {
  metrics_
      .counter("quire_requests_total", "Requests by endpoint and status of the answer.",
               {{"endpoint", std::string(endpoint)}, {"status", std::to_string(status)}})
      .add();
}

void ServeMetrics::count_rejected(std::string_view reason) const {
  metrics_
      .counter("quire_rejected_total", "Requests refused, by the code of the error.", {{"reason", std::string(reason)}})
      .add();
}

void ServeMetrics::count_finished(FinishReason reason, const Usage& usage) {
  finished_[static_cast<int>(reason)]->add();
  queue_.observe(seconds(usage.queued_ns));
  prefill_.observe(seconds(std::max<int64_t>(usage.first_token_ns - usage.queued_ns, 0)));
  decode_.observe(seconds(std::max<int64_t>(usage.total_ns - usage.first_token_ns, 0)));
  inference_.observe(seconds(std::max<int64_t>(usage.total_ns - usage.queued_ns, 0)));
  if (usage.n_generated > 1)
    per_token_.observe(seconds(std::max<int64_t>(usage.total_ns - usage.first_token_ns, 0)) / (usage.n_generated - 1));
  prompt_tokens_.observe(usage.n_prompt);
  generation_tokens_.observe(usage.n_generated);
  const int64_t n = int64_t{usage.n_prompt} + usage.n_generated;
  int64_t most = n_tokens_max_.load(std::memory_order_relaxed);
  while (n > most && !n_tokens_max_.compare_exchange_weak(most, n, std::memory_order_relaxed)) continue;
}

void ServeMetrics::count_asked(int n, int max_tokens) {
  n_.observe(n);
  for (int i = 0; i < n; ++i) max_tokens_.observe(max_tokens);
}

void ServeMetrics::set(std::string_view name, std::string_view help, double v, const MetricLabels& labels) {
  metrics_.gauge(name, help, labels).set(v);
}

void ServeMetrics::count(std::string_view name, std::string_view help, int64_t total, const MetricLabels& labels) {
  mirror(metrics_.counter(name, help, labels), total);
}

void ServeMetrics::mirror(Counter& counter, int64_t total) {
  const auto now = static_cast<uint64_t>(std::max<int64_t>(total, 0));
  if (now > counter.value()) counter.add(now - counter.value());
}

void ServeMetrics::refresh(const EngineStats& s, int64_t n_preparing) {
  std::lock_guard lock(mu_);
  count("quire_log_lines_dropped_total", "Lines of the log that were dropped because stderr was not read.",
        static_cast<int64_t>(n_log_lines_dropped()));
  set("quire_num_requests_preparing", "Requests waiting to be parsed and tokenised.", static_cast<double>(n_preparing));
  set("quire_num_requests_waiting", "Sequences waiting in the engine.", s.n_waiting);
  set("quire_num_requests_running", "Sequences running in the engine.", s.n_running);
  const int n_used = s.n_blocks - s.n_free_blocks - s.n_cached_blocks;
  const int n_window_used = s.n_window_blocks - s.n_free_window_blocks - s.n_cached_window_blocks;
  const auto share = [](int n, int all) { return all > 0 ? static_cast<double>(n) / all : 0.0; };
  set("quire_kv_cache_usage_perc", "Share of the blocks that running sequences hold, of the scarcer kind, 0 to 1.",
      std::max(share(n_used, s.n_blocks), share(n_window_used, s.n_window_blocks)));
  constexpr std::string_view kWindowBlocks = "Blocks of layers that see a window, by what they hold.";
  if (s.n_states > 0) {
    constexpr std::string_view kStates = "States of layers that keep one in place of attention, by what holds them.";
    set("quire_kv_states", kStates, s.n_states - s.n_free_states - s.n_cached_states, {{"state", "used"}});
    set("quire_kv_states", kStates, s.n_cached_states, {{"state", "cached"}});
    set("quire_kv_states", kStates, s.n_free_states, {{"state", "free"}});
  }
  if (s.n_window_blocks > 0) {
    set("quire_kv_window_blocks", kWindowBlocks, n_window_used, {{"state", "used"}});
    set("quire_kv_window_blocks", kWindowBlocks, s.n_cached_window_blocks, {{"state", "cached"}});
    set("quire_kv_window_blocks", kWindowBlocks, s.n_free_window_blocks, {{"state", "free"}});
  }
  constexpr std::string_view kBlocks =
      "Blocks by what they hold: used by sequences and pins, cached for later ones, free.";
  set("quire_kv_blocks", kBlocks, n_used, {{"state", "used"}});
  set("quire_kv_blocks", kBlocks, s.n_cached_blocks, {{"state", "cached"}});
  set("quire_kv_blocks", kBlocks, s.n_free_blocks, {{"state", "free"}});
  set("quire_engine_step_seconds", "Duration of the last step.", seconds(s.step_ns));
  count("quire_engine_steps_total", "Steps of the engine.", s.n_steps);
  count("quire_prompt_tokens_total", "Prompt tokens of sequences admitted.", s.n_prompt_tokens);
  count("quire_generation_tokens_total", "Tokens generated.", s.n_generated_tokens);
  count("quire_prefix_cache_queries_total", "Prompt tokens looked up in the prefix tree.", s.n_prompt_tokens);
  count("quire_prefix_cache_hits_total", "Prompt tokens that came from the prefix tree.", s.n_cached_tokens);
  count("quire_prompt_tokens_cached_total", "Prompt tokens that were not computed for their sequence.",
        s.n_cached_tokens);
  count("quire_reused_tokens_total", "Tokens that came from the prefix tree, on resuming too.", s.spent.n_reused);
  count("quire_wasted_tokens_total", "Rows computed whose blocks were dropped for another's.", s.spent.n_wasted);
  const int64_t n_recomputed = s.spent.computed[static_cast<size_t>(Cause::recomputed)];
  set("quire_recomputed_share", "Of all rows computed, those that preemption had cost before, 0 to 1.",
      s.n_rows > 0 ? static_cast<double>(n_recomputed) / static_cast<double>(s.n_rows) : 0.0);
  set("quire_engine_queue_seconds", "Until what waits will have been computed, as the engine predicts it.",
      seconds(s.queue_ns));
  constexpr std::array kStages{"plan", "batch", "forward", "sample", "commit"};
  for (size_t i = 0; i < kStages.size(); ++i)
    metrics_
        .total("quire_engine_cpu_seconds_total",
               "Processor time of all threads while the engine was at this part of its steps.", {{"stage", kStages[i]}})
        .set(seconds(s.stage_ns[i]));
  count("quire_steps_ahead_total", "Steps that were planned while the one before them ran.", s.n_steps_ahead);
  count("quire_dropped_rows_total", "Rows of these that nobody needed: their sequences had ended.", s.n_dropped_rows);
  count("quire_num_preemptions_total", "Sequences preempted.", s.n_preempted);
  count("quire_kv_bounded_prompts_total", "Prompts that dropped blocks of the cache for their kv_budget.", s.n_bounded);
  count("quire_kv_dropped_tokens_total", "Tokens of these blocks.", s.n_dropped_tokens);
  count("quire_out_of_blocks_total", "Of these: those for whom blocks ran out.", s.n_out_of_blocks);
  count("quire_recomputed_for_blocks_total", "Rows computed again for that reason.", s.n_recomputed_for_blocks);
  set("quire_recompute_credit_tokens", "Tokens that may still be lost to that before admission is strict.",
      static_cast<double>(s.recompute_credit));
  for (int i = 0; i < kNCauses; ++i)
    count("quire_computed_tokens_total", "Rows computed, by cause.", s.spent.computed[static_cast<size_t>(i)],
          {{"cause", std::string(cause_name(i))}});
  refresh_drafts(s);
  constexpr std::string_view kSequences = "Sequences by how they left the engine.";
  count("quire_sequences_total", kSequences, s.n_finished, {{"end", "finished"}});
  count("quire_sequences_total", kSequences, s.n_cancelled, {{"end", "cancelled"}});
  count("quire_sequences_total", kSequences, s.n_failed, {{"end", "failed"}});
}

// Of a server that never guessed ahead there are no series. REQUIRES mu_.
void ServeMetrics::refresh_drafts(const EngineStats& s) {
  constexpr std::string_view kAlarms = "Runs of steps in which guessing ahead did not do what it is there for.";
  if (s.n_never_drafted > 0)
    count("quire_spec_decode_alarms_total", kAlarms, s.n_never_drafted, {{"reason", "never_pays"}});
  if (s.n_drafts == 0 && s.n_bad_drafts == 0) return;
  count("quire_spec_decode_alarms_total", kAlarms, s.n_few_accepted, {{"reason", "few_accepted"}});
  count("quire_spec_decode_num_drafts_total", "Guesses that were verified.", s.n_drafts);
  count("quire_spec_decode_num_draft_tokens_total", "Tokens of these.",
        s.spent.computed[static_cast<size_t>(Cause::draft)]);
  count("quire_spec_decode_num_accepted_tokens_total", "Of these tokens those that came true.", s.spent.n_accepted);
  count("quire_spec_decode_bad_drafts_total", "Guesses that cannot be, and failures of whoever guesses.",
        s.n_bad_drafts);
  for (size_t i = 0; i < s.n_drafted_at.size() && s.n_drafted_at[i] > 0; ++i) {
    const MetricLabels at = {{"position", std::to_string(i)}};
    count("quire_spec_decode_num_draft_tokens_per_pos_total", "Tokens of guesses, by their place in the guess.",
          s.n_drafted_at[i], at);
    count("quire_spec_decode_num_accepted_tokens_per_pos_total", "Of these those that came true.", s.n_accepted_at[i],
          at);
  }
  constexpr std::string_view kTime = "Time that guessing as it pays is reckoned to have saved, and to have lost.";
  metrics_.total("quire_spec_decode_seconds_total", kTime, {{"what", "saved"}})
      .set(static_cast<double>(s.draft_saved_ns) / 1e9);
  metrics_.total("quire_spec_decode_seconds_total", kTime, {{"what", "lost"}})
      .set(static_cast<double>(s.draft_lost_ns) / 1e9);
  set("quire_spec_decode_depth", "Tokens that guesses were to have at most in the last step.", s.draft_depth);
  if (s.n_drafts > 0)
    set("quire_spec_decode_mean_length", "Tokens of an answer that a guess brought on the mean, the due one too.",
        1 + static_cast<double>(s.spent.n_accepted) / static_cast<double>(s.n_drafts));
}

void ServeMetrics::refresh_drafters(const EngineStats& s, std::string_view proposers) {
  const std::vector<std::string> names = proposer_names(proposers);
  std::lock_guard lock(mu_);
  for (size_t i = 0; i < std::min(names.size(), s.drafted_by.size()); ++i) {
    if (s.drafted_by[i].n_drafts == 0) continue;
    const MetricLabels by = {{"drafter", names[i]}};
    count("quire_spec_decode_drafter_drafts_total", "Guesses that were verified, by who made them.",
          s.drafted_by[i].n_drafts, by);
    count("quire_spec_decode_drafter_draft_tokens_total", "Tokens of these.", s.drafted_by[i].n_drafted, by);
    count("quire_spec_decode_drafter_accepted_tokens_total", "Of these tokens those that came true.",
          s.drafted_by[i].n_accepted, by);
  }
}

void ServeMetrics::refresh_pins(const EngineStats& s) {
  if (s.pin_bytes == 0) return;
  std::lock_guard lock(mu_);
  set("quire_kv_pins", "Prompts that are pinned.", s.n_pins);
  set("quire_kv_pinned_blocks", "Blocks that pins hold, each counted once; they count as used.", s.n_pinned_blocks);
  set("quire_kv_pinned_bytes", "Bytes of the blocks that pins hold.", static_cast<double>(s.pinned_bytes));
  set("quire_kv_pinned_bytes_limit", "Bytes that pins may hold.", static_cast<double>(s.pin_bytes));
}

void ServeMetrics::refresh_swaps(const EngineStats& s) {
  if (s.swap_bytes == 0) return;
  std::lock_guard lock(mu_);
  set("quire_swapped_bytes", "Of copies of preempted sequences.", static_cast<double>(s.swapped_bytes));
  set("quire_swapped_bytes_limit", "Bytes that these copies may have.", static_cast<double>(s.swap_bytes));
  count("quire_swaps_out_total", "Preempted sequences that were copied out of the cache.", s.n_swaps_out);
  count("quire_swaps_in_total", "Of these: those that were copied back and went on behind it.", s.n_swaps_in);
  count("quire_swaps_refused_total", "Preempted sequences for whose copy there was no room.", s.n_swaps_refused);
  count("quire_swapped_tokens_total", "Tokens that came back so instead of being computed again.", s.n_swapped_tokens);
}

void ServeMetrics::refresh_retention(const EngineStats& s) {
  std::lock_guard lock(mu_);
  set("quire_kv_retained_blocks", "Cached blocks that stay for longer, as requests wished.", s.n_retained_blocks);
  set("quire_kv_retained_blocks_limit", "Blocks that may.", s.most_retained_blocks);
  count("quire_kv_unretained_blocks_total", "Blocks that were to stay for longer and do not, for a limit.",
        s.n_unretained_blocks);
}

void ServeMetrics::refresh_tiers(const EngineStats& s) {
  if (s.tiers.empty()) return;
  std::lock_guard lock(mu_);
  for (const TierStats& tier : s.tiers) refresh_tier(tier);
  count("quire_kv_loaded_tokens_total", "Tokens whose keys and values were brought from tiers.", s.n_loaded_tokens);
  count("quire_kv_unretained_below_total", "Blocks in tiers that were to stay for longer and do not, for a limit.",
        s.n_unretained_below);
  count("quire_kv_loads_total", "Runs of blocks that were begun to be brought.", s.n_loads);
  count("quire_kv_loads_declined_total", "Runs not begun, because computing was sooner.", s.n_loads_declined);
  count("quire_kv_loads_overtaken_total", "Runs given up, because computing had become sooner.", s.n_loads_overtaken);
  count("quire_kv_loads_lost_total", "Runs that ended at a block that could not be had.", s.n_loads_lost);
}

void ServeMetrics::refresh_tier(const TierStats& t) {
  const MetricLabels labels{{"tier", std::string(name_of(t.place))}};
  const auto set = [&](std::string_view name, std::string_view help, double v) { this->set(name, help, v, labels); };
  const auto count = [&](std::string_view name, std::string_view help, int64_t v) {
    this->count(name, help, v, labels);
  };
  set("quire_kv_tier_writing", "1 while the tier takes blocks, 0 while a failure keeps it from that.",
      t.writing ? 1 : 0);
  metrics_
      .total("quire_kv_tier_engine_seconds_total", "Time that the engine's thread spent giving blocks to the tier.",
             labels)
      .set(seconds(t.engine_ns));
  metrics_.total("quire_kv_tier_read_seconds_total", "Time that reading blocks took, in sum.", labels)
      .set(seconds(t.read_ns));
  count("quire_kv_tier_written_blocks_total", "Blocks stored.", t.n_written);
  count("quire_kv_tier_written_bytes_total", "Bytes stored.", t.written_bytes);
  count("quire_kv_tier_read_blocks_total", "Blocks brought back.", t.n_read);
  count("quire_kv_tier_read_bytes_total", "Bytes brought back.", t.read_bytes);
  count("quire_kv_tier_refused_blocks_total", "Blocks not taken, for more came than were written.", t.n_refused);
  count("quire_kv_tier_damaged_blocks_total", "Blocks found to be damaged; computed again.", t.n_damaged);
  count("quire_kv_tier_other_blocks_total", "Names that stood for another block; computed again.", t.n_other);
  count("quire_kv_tier_read_errors_total", "Reads that the system failed.", t.n_read_errors);
  count("quire_kv_tier_write_errors_total", "Groups of blocks that could not be stored.", t.n_write_errors);
  if (t.place == TierPlace::remote) {
    set("quire_kv_tier_up", "1 while the store can be reached.", t.up ? 1 : 0);
    count("quire_kv_tier_asked_total", "Paths that the tier was asked for.", t.n_asked);
    count("quire_kv_tier_late_total", "Answers to that which did not come in time.", t.n_late);
    return;
  }
  set("quire_kv_tier_retained_bytes", "Bytes of blocks that stay for longer, as requests wished.",
      static_cast<double>(t.retained_bytes));
  set("quire_kv_tier_retained_bytes_limit", "Bytes that may.", static_cast<double>(t.most_retained_bytes));
  set("quire_kv_tier_blocks", "Blocks that the tier has.", static_cast<double>(t.n_blocks));
  set("quire_kv_tier_bytes", "Bytes that the tier takes.", static_cast<double>(t.bytes));
  set("quire_kv_tier_bytes_limit", "Bytes that the tier may take.", static_cast<double>(t.most_bytes));
  count("quire_kv_tier_dropped_segments_total", "Segments dropped for room.", t.n_dropped_segments);
  count("quire_kv_tier_moved_blocks_total", "Blocks kept from dropped segments, for they had been used.", t.n_moved);
  count("quire_kv_tier_skipped_segments_total", "Files of another model or version, or damaged ones, at the start.",
        t.n_skipped_segments);
}

// Weights are read once a step, and the cached tokens of the sequences that run with it; a row costs its layers, a
// token the head too.
void ServeMetrics::refresh_machine(const EngineStats& s, const MachineFacts& f) {
  if (f.step_bytes <= 0) return;
  const double bytes =
      static_cast<double>(s.n_steps) * f.step_bytes + static_cast<double>(s.n_filled_slot_steps) * f.kv_token_bytes;
  const double ops = static_cast<double>(s.n_rows) * f.row_ops + static_cast<double>(s.n_generated_tokens) * f.head_ops;
  const double busy_s = seconds(s.busy_ns);
  std::lock_guard lock(mu_);
  mirror(metrics_.counter("quire_memory_read_bytes_total", "Bytes of weights and cached tokens that steps have read."),
         static_cast<int64_t>(bytes));
  mirror(metrics_.counter("quire_operations_total", "Multiplications and additions of matrix products."),
         static_cast<int64_t>(ops));
  metrics_.total("quire_engine_busy_seconds_total", "Time spent in steps that computed something.").set(busy_s);
  const auto machine = [&](std::string_view name, std::string_view help, double v) {
    if (v > 0) metrics_.gauge(name, help).set(v);
  };
  machine("quire_machine_bandwidth_bytes_per_second", "What memory gives, probed at the start.", f.bandwidth);
  machine("quire_machine_operations_per_second", "Multiplications and additions, probed at the start.", f.peak);
}

}  // namespace quire
