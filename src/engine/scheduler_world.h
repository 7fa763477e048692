// A scheduler with plain values around it, for tests: who gets how many tokens, step by step. A plan is written
// "id:tokens …", a trailing ! marks a grant that reaches the last pending token.
#pragma once
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "engine/test_model.h"
#include "engine/test_proposer.h"

namespace quire {

inline constexpr int kBlock = 16;
inline constexpr Token kSampled = 1;

struct World {
  // n_states > 0: layers keep a state too.
  explicit World(EngineOptions wanted, int n_blocks, int n_states = 0) : options(wanted) {
    options.n_ctx = 1000;
    KvLayout layout;
    layout.claim(KvGroup{}, 4);
    std::vector<Buffer> memory;
    memory.push_back(std::move(*Buffer::allocate(int64_t{4} * kBlock * n_blocks)));
    if (n_states > 0) {
      layout.claim_state(64);
      memory.push_back(std::move(*Buffer::allocate(int64_t{64} * n_states)));
    }
    KvCacheOptions cached{kBlock, n_blocks, options.prefix_cache, nullptr};
    cached.n_states = n_states;
    cache = std::make_unique<KvCache>(layout, std::move(memory), cached);
    scheduler = std::make_unique<Scheduler>(options, *cache, *Registry<PolicyEntry>::get().find(options.policy)->get(),
                                            CacheKey{});
  }

  Sequence& add(SeqId id, int n_prompt, int max_tokens = 100) { return add_of(0, 1, id, n_prompt, max_tokens); }
  // Of a tenant with this weight.
  Sequence& add_of(uint64_t tenant, int weight, SeqId id, int n_prompt, int max_tokens) {
    auto seq = std::make_unique<Sequence>();
    seq->id = id;
    seq->request.tenant = tenant;
    seq->request.weight = weight;
    seq->request.max_tokens = max_tokens;
    seq->tokens = random_tokens(id, n_prompt);
    seq->n_prompt = n_prompt;
    Sequence& out = *seq;
    scheduler->add(std::move(seq));
    return out;
  }
  // One step: the plan, as text. Every sequence that wants a token gets token 1.
  std::string step() {
    const Plan& plan = scheduler->plan(0);
    std::string out;
    std::vector<Sampled> sampled;
    int n_tokens = 0;
    for (const Grant& grant : plan.grants) {
      out += (out.empty() ? "" : " ") + std::to_string(grant.seq->id) + ":" + std::to_string(grant.n_tokens);
      if (grant.n_out > 0) out += "!";
      for (int i = 0; i < grant.n_out; ++i) sampled.push_back({kSampled, 0.0F, true, {}});
      grant.seq->n_checked = grant.n_out;
      n_tokens += grant.n_tokens;
    }
    EXPECT_EQ(plan.n_tokens, n_tokens);
    EXPECT_EQ(plan.n_out, static_cast<int>(sampled.size()));
    EXPECT_LE(n_tokens, options.step_tokens);
    std::vector<Ended> ended;
    if (!plan.grants.empty()) scheduler->advance();
    scheduler->commit(sampled, step_ns, [](Sequence&, Sampled&, bool) {}, ended);
    return out;
  }
  std::string who(std::span<const std::unique_ptr<Sequence>> seqs) const {
    std::string out;
    for (const auto& seq : seqs) out += (out.empty() ? "" : " ") + std::to_string(seq->id);
    return out;
  }
  std::string running() const { return who(scheduler->running()); }
  std::string waiting() const { return who(scheduler->waiting()); }

  int64_t step_ns = 0;
  EngineOptions options;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Scheduler> scheduler;
};

}  // namespace quire
