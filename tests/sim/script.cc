#include "tests/sim/script.h"

#include <algorithm>

#include "engine/policy.h"
#include "engine/test_model.h"
#include "engine/test_proposer.h"
#include "kv/kv_policy.h"

namespace quire::sim {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}
  int below(int n) { return static_cast<int>(rng_.between(0, std::max(n, 1) - 1)); }
  int between(int lo, int hi) { return static_cast<int>(rng_.between(lo, hi)); }
  bool one_in(int n) { return below(n) == 0; }
  // Small numbers as often as large ones: the powers of two between lo and hi are equally likely.
  int skewed(int lo, int hi) {
    int n_doublings = 0;
    while ((lo << n_doublings) < hi) ++n_doublings;
    return between(lo, std::min(hi, lo << between(0, n_doublings)));
  }
  uint64_t bits() { return rng_.bits(); }
  double unit() { return rng_.unit(); }

 private:
  Rng rng_;
};

Knobs random_knobs(Draw& draw) {
  Knobs knobs;
  knobs.max_seqs = draw.one_in(8) ? 1 : draw.skewed(2, 32);
  knobs.step_tokens = draw.one_in(12) ? 8192 : draw.skewed(1, 256);
  knobs.max_chunk = draw.one_in(3) ? 8192 : draw.skewed(1, 128);
  knobs.n_ctx = 8 + draw.skewed(16, 320);
  const int sizes[] = {1, 2, 3, 4, 7, 8, 16, 16, 32, 64};
  knobs.block_tokens = sizes[draw.below(10)];
  // From a pool that barely holds the longest request (or not even that) to one that holds many.
  const int longest = (knobs.n_ctx + knobs.block_tokens - 1) / knobs.block_tokens;
  knobs.n_blocks =
      std::max(3, draw.one_in(2) ? draw.between(longest - 1, longest + 4) : draw.skewed(longest, 6 * longest));
  if (draw.one_in(2)) {
    // From what a window and a step need to more.
    knobs.window = draw.skewed(1, knobs.n_ctx);
    const int n_step = std::min({knobs.max_chunk, knobs.step_tokens, knobs.n_ctx});
    const int least = (knobs.window + n_step + knobs.block_tokens - 3) / knobs.block_tokens + 1;
    knobs.n_window_blocks = std::min(least, knobs.n_blocks) + (draw.one_in(2) ? draw.below(4) : draw.skewed(1, 40));
  }
  knobs.max_queue = draw.one_in(4) ? draw.skewed(1, 16) : 64;
  knobs.prefix_cache = !draw.one_in(5);
  const std::vector<std::string> policies = Registry<PolicyEntry>::get().names();
  knobs.policy = policies[static_cast<size_t>(draw.below(static_cast<int>(policies.size())))];
  if (draw.one_in(4)) knobs.itl_target_ms = draw.between(1, 20);
  knobs.noise = draw.one_in(2) ? 0 : draw.between(1, 80);
  if (draw.one_in(2)) knobs.max_draft = draw.skewed(1, 16);
  knobs.guess = draw.bits() >> 1;
  if (knobs.max_draft > 0) knobs.max_side = static_cast<int>(knobs.guess / 7 % (ScriptedProposer::kSide + 1));
  const std::vector<std::string> kv_policies = Registry<KvPolicyEntry>::get().names();
  knobs.kv_policy = kv_policies[knobs.guess % kv_policies.size()];
  return knobs;
}

// A shared text cut anywhere, often followed by something of its own.
std::vector<Piece> random_prompt(Draw& draw, int n_ctx) {
  const int n = draw.one_in(40)  ? draw.between(n_ctx, n_ctx + 3)
                : draw.one_in(2) ? draw.between(1, n_ctx - 1)
                                 : draw.skewed(1, n_ctx - 1);
  const auto text = static_cast<uint64_t>(draw.below(3));
  const int own = draw.one_in(3) ? draw.skewed(1, n) : 0;
  std::vector<Piece> out;
  if (n > own) out.push_back({text, n - own});
  if (own > 0) out.push_back({1000 + static_cast<uint64_t>(draw.below(1 << 20)), own});
  return out;
}

RequestScript random_request(Draw& draw, const Knobs& knobs) {
  RequestScript r;
  r.prompt = random_prompt(draw, knobs.n_ctx);
  int n_prompt = 0;
  for (const Piece& piece : r.prompt) n_prompt += piece.n;
  if (draw.one_in(30)) r.poison = draw.below(n_prompt);
  r.max_tokens = draw.skewed(1, 128);
  if (draw.one_in(2)) r.temperature = 0.9F;
  if (draw.one_in(4)) r.top_k = draw.between(1, 20);
  r.seed = draw.bits() >> 1;
  if (draw.one_in(2)) r.stop_id = static_cast<Token>(draw.below(kPoison));
  if (draw.one_in(6)) r.end_after = draw.between(1, 30);
  r.no_repeats = draw.one_in(5);
  r.salt = draw.one_in(3) ? static_cast<uint64_t>(draw.below(3)) : 0;
  r.priority = draw.one_in(3) ? draw.between(-2, 2) : 0;
  if (draw.one_in(5)) r.cancel_ns = static_cast<int64_t>(draw.unit() * draw.unit() * 60e6);
  if (draw.one_in(15)) {
    r.fault = static_cast<RowFault>(draw.between(1, kNRowFaults - 1));
    r.at = draw.skewed(1, 32) - 1;
  }
  return r;
}

std::vector<StepFault> random_faults(Draw& draw) {
  std::vector<StepFault> out;
  while (!draw.one_in(3)) {
    StepFault fault;
    const int kind = draw.below(5);
    fault.kind = kind < 2 ? StepFault::Kind::slow : kind < 4 ? StepFault::Kind::jump : StepFault::Kind::throws;
    fault.step = draw.skewed(1, 300);
    if (fault.kind == StepFault::Kind::slow) fault.value = 100;
    if (fault.kind == StepFault::Kind::throws) fault.value = draw.below(2);
    if (fault.kind == StepFault::Kind::jump) fault.value = draw.one_in(2) ? kDayNs : -kDayNs;
    out.push_back(fault);
  }
  return out;
}

// Arrivals: all at once, at a steady rate with exponential gaps, or in bursts.
void set_arrivals(Draw& draw, std::vector<RequestScript>& requests) {
  const int kind = draw.below(3);
  const double mean_gap = 1e5 * std::pow(2.0, draw.below(6));
  double now = 0;
  for (RequestScript& r : requests) {
    r.arrival_ns = kind == 0 ? 0 : static_cast<int64_t>(now);
    const double gap = -std::log1p(-draw.unit()) * mean_gap;
    now += kind == 2 && !draw.one_in(6) ? 0 : kind == 2 ? 6 * gap : gap;
  }
}

// Drawn by themselves, so that a seed's other draws do not depend on them: one tenant, a few alike, or one that sends
// nearly everything.
void set_tenants(uint64_t seed, std::vector<RequestScript>& requests) {
  Draw draw(mix64(seed));
  const int kind = draw.below(3);
  const int n = draw.between(2, 5);
  for (RequestScript& r : requests) {
    if (kind == 1) r.tenant = static_cast<uint64_t>(draw.below(n));
    if (kind == 2 && draw.one_in(8)) r.tenant = static_cast<uint64_t>(draw.between(1, n));
  }
  if (!draw.one_in(3)) return;
  const int heaviest = draw.skewed(2, 8);
  for (RequestScript& r : requests) r.weight = 1 + static_cast<int>(r.tenant) % heaviest;
}

// By themselves as well: from some that nothing meets to some that everything does, and how much tenants may be owed.
void set_deadlines(uint64_t seed, Script& script) {
  Draw draw(mix64(seed ^ 0xdead));
  if (draw.one_in(2)) script.knobs.allowance = draw.skewed(1, 1024);
  if (script.knobs.policy != "deadlines") return;
  for (RequestScript& r : script.requests) {
    if (!draw.one_in(3)) r.deadline_ns = int64_t{100'000} << draw.below(14);
  }
}

// By themselves as well. From a tier that is faster than computing to one that is never worth it.
void set_tier(uint64_t seed, Knobs& knobs) {
  Draw draw(mix64(seed ^ 0x71e5));
  if (!knobs.prefix_cache || !draw.one_in(2)) return;
  knobs.tier_blocks = draw.skewed(4, 400);
  knobs.tier_read_ns = draw.skewed(1000, 1'000'000);
  if (draw.one_in(2)) knobs.tier_fault_in = draw.skewed(2, 64);
}

// By themselves as well: from one that no step meets to one that nearly all do.
void set_step_target(uint64_t seed, Knobs& knobs) {
  Draw draw(mix64(seed ^ 0x57e9));
  if (draw.one_in(4)) knobs.step_target_us = draw.skewed(1, 5000);
}

// By themselves as well. In half of them another server has been there before.
void set_remote(uint64_t seed, Knobs& knobs) {
  Draw draw(mix64(seed ^ 0x4e05));
  if (!knobs.prefix_cache || !draw.one_in(3)) return;
  knobs.remote_blocks = draw.skewed(4, 1000);
  knobs.remote_ask_ns = draw.skewed(1000, 300'000);
  knobs.remote_read_ns = draw.skewed(1000, 1'000'000);
  knobs.remote_before = draw.one_in(2);
  if (knobs.tier_fault_in == 0 && draw.one_in(2)) knobs.tier_fault_in = draw.skewed(2, 64);
}

// By themselves as well, of those with a window: from one token to two blocks of them, which take room beside it.
void set_sinks(uint64_t seed, Knobs& knobs) {
  Draw draw(mix64(seed ^ 0x51a5));
  if (knobs.window == 0 || draw.one_in(2)) return;
  knobs.n_sinks = draw.skewed(1, 2 * knobs.block_tokens);
  knobs.n_window_blocks += (knobs.n_sinks + knobs.block_tokens - 1) / knobs.block_tokens;
}

// By themselves as well: in most of them little may be lost.
void set_recompute(uint64_t seed, Knobs& knobs) {
  Draw draw(mix64(seed ^ 0x5ec0));
  knobs.recompute_percent = draw.one_in(4) ? 5 : draw.one_in(8) ? 100 : draw.below(3);
}

Knobs fairness_knobs(Draw& draw) {
  Knobs knobs;
  knobs.policy = "vtc";
  knobs.max_seqs = draw.between(1, 4);
  knobs.step_tokens = draw.skewed(4, 64);
  knobs.max_chunk = draw.one_in(2) ? 8192 : draw.skewed(4, 64);
  knobs.n_ctx = 150;
  knobs.block_tokens = 4 << draw.below(3);
  const int longest = knobs.n_ctx / knobs.block_tokens + 1;
  knobs.n_blocks = longest * draw.between(1, 4) + draw.below(8);
  knobs.max_queue = 400;
  knobs.prefix_cache = !draw.one_in(4);
  if (draw.one_in(4)) knobs.max_draft = draw.between(1, 4);
  knobs.max_side = knobs.max_draft / 2;
  return knobs;
}

// Requests of one tenant: prompts and answers of its own length, a beginning that some have in common, all at once or
// after a pause.
void add_tenant(Draw& draw, uint64_t tenant, Script& script) {
  const int most_prompt = draw.skewed(2, 100), most_tokens = draw.skewed(1, 40);
  const int n_shared = draw.one_in(2) ? draw.below(most_prompt) : 0;
  const int weight = draw.one_in(2) ? 1 : draw.between(1, 5);
  const int n = draw.between(12, 40);
  const int n_before_pause = tenant > 0 && draw.one_in(2) ? draw.below(3) : n;
  const auto pause_ns = static_cast<int64_t>(draw.unit() * 40e6);
  for (int i = 0; i < n; ++i) {
    RequestScript r;
    r.tenant = tenant;
    r.weight = weight;
    const int n_prompt = draw.between(1 + most_prompt / 2, most_prompt);
    if (n_shared > 0) r.prompt.push_back({tenant, std::min(n_prompt, n_shared)});
    if (n_prompt > n_shared)
      r.prompt.push_back({1000 + static_cast<uint64_t>(draw.below(1 << 20)), n_prompt - n_shared});
    r.max_tokens = draw.between(1, most_tokens);
    r.arrival_ns = i < n_before_pause ? 0 : pause_ns;
    if (draw.one_in(30)) r.cancel_ns = static_cast<int64_t>(draw.unit() * 60e6);
    script.requests.push_back(r);
  }
}

}  // namespace

Script fairness_script(uint64_t seed) {
  Draw draw(mix64(seed ^ 0xfa12));
  Script script;
  script.seed = seed;
  script.knobs = fairness_knobs(draw);
  set_tier(seed, script.knobs);
  set_step_target(seed, script.knobs);
  set_remote(seed, script.knobs);
  set_recompute(seed, script.knobs);
  const int n_tenants = draw.one_in(4) ? 3 : 2;
  for (int i = 0; i < n_tenants; ++i) add_tenant(draw, static_cast<uint64_t>(i), script);
  std::ranges::stable_sort(script.requests, {}, &RequestScript::arrival_ns);
  set_deadlines(seed, script);
  return script;
}

Script random_script(uint64_t seed) {
  if (seed % 8 == 5) return fairness_script(seed);
  Draw draw(seed);
  Script script;
  script.seed = seed;
  script.knobs = random_knobs(draw);
  const int n = draw.skewed(4, 64);
  for (int i = 0; i < n; ++i) script.requests.push_back(random_request(draw, script.knobs));
  const int n_public = draw.one_in(2) ? draw.skewed(1, script.knobs.n_ctx) : 0;
  for (RequestScript& r : script.requests) r.n_public = n_public;
  set_arrivals(draw, script.requests);
  script.faults = random_faults(draw);
  script.no_memory = draw.one_in(200);
  set_tenants(seed, script.requests);
  set_tier(seed, script.knobs);
  set_sinks(seed, script.knobs);
  set_step_target(seed, script.knobs);
  set_remote(seed, script.knobs);
  set_recompute(seed, script.knobs);
  set_deadlines(seed, script);
  return script;
}

std::vector<Token> prompt_of(const RequestScript& request) {
  std::vector<Token> out;
  for (const Piece& piece : request.prompt) {
    const std::vector<Token> text = random_tokens(piece.text, piece.n);
    out.insert(out.end(), text.begin(), text.end());
  }
  if (request.poison >= 0 && request.poison < static_cast<int>(out.size())) {
    out[static_cast<size_t>(request.poison)] = kPoison;
  }
  return out;
}

int n_public_of(const RequestScript& request) {
  const std::vector<Token> prompt = prompt_of(request);
  const std::vector<Token> text = random_tokens(0, request.n_public);
  return static_cast<int>(std::mismatch(prompt.begin(), prompt.end(), text.begin(), text.end()).first - prompt.begin());
}

}  // namespace quire::sim
