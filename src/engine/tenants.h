// What the scheduler knows of each tenant: how many of its sequences are here, how many wait, and what it has been
// served: virtual tokens, a counter that grows with what is computed for it. Tokens of prompts that were computed and
// tokens of answers count, each by its charge, divided by the tenant's weight; what was found in the cache and what is
// computed a second time does not. Who comes back from having nothing to wait for is lifted to those that wait: what
// it did not ask for then it cannot ask for now. docs/engine.md has the bound that follows. Source: virtual token
// counter (Sheng et al. 2023, Fairness in Serving Large Language Models).
//
// The allowance is how far below the others a tenant may be that comes back: as much of what it did not ask for is owed
// to it, and no more. One whose prompts here all fit into what it is owed is *within* it, and may go before those that
// are not. That a flood is not within its allowance is known as it comes, before anything of it is computed. One
// scheduler's; engine thread only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace quire {

inline constexpr int64_t kPromptCharge = 1, kOutputCharge = 2;  // virtual tokens of a token
inline constexpr int64_t kServedUnit = int64_t{1} << 16;        // of a virtual token, at weight 1
inline constexpr int kMostAllowance = 1 << 30;                  // virtual tokens
inline constexpr size_t kMostIdleTenants = 256;                 // that are remembered

struct Tenant {
  uint64_t id = 0;
  int weight = 1;            // 1 to kMostWeight, as its last request had it
  int n_here = 0;            // sequences
  int n_waiting = 0;         // of these
  bool was_waiting = false;  // some of them, when the last plan was made
  int64_t served = 0;        // in kServedUnit-ths of virtual tokens
  int64_t n_pending = 0;     // tokens of its prompts that are to be computed, as this plan began
  bool within = false;       // its allowance, likewise; of several tenants alone
  int64_t stream_turn = 0;   // number of the last turn of one of its sequences (stream_turns.cc)
  int64_t n_due_before = 0;  // while late ones are looked for: of its prompts so far (scheduler_deadlines.cc)
};

class Tenants {
 public:
  // `allowance`: virtual tokens of a tenant of weight 1.
  explicit Tenants(int64_t allowance) : allowance_(allowance * kServedUnit) {}
  // Its entry stays where it is while sequences of it are here. Throws std::bad_alloc with nothing changed.
  Tenant& of(uint64_t id);
  // Tenants of whom sequences are here.
  int n_here() const { return n_here_; }
  size_t size() const { return tenants_.size(); }  // with those that are remembered

  void enter(Tenant& tenant, int weight);  // one more sequence
  void leave(Tenant& tenant);              // one less; with its last one it may be forgotten
  static void waits(Tenant& tenant) { ++tenant.n_waiting; }
  static void waits_no_more(Tenant& tenant) { --tenant.n_waiting; }
  // So many tokens of prompts were computed, and of answers made, for it.
  static void charge(Tenant& tenant, int64_t n_prompt, int64_t n_output) {
    tenant.served += (kPromptCharge * n_prompt + kOutputCharge * n_output) * kServedUnit / tenant.weight;
  }

  // Around each plan. Those who begin to wait are lifted; who is within its allowance is found by n_pending.
  void begin_plan();
  void end_plan();

 private:
  int64_t level() const;
  void forget_idle();

  int64_t allowance_;
  std::unordered_map<uint64_t, Tenant> tenants_;
  int n_here_ = 0;
  uint64_t last_waited_ = 0;  // the last that had nothing to wait for any more
  int64_t level_ = 0;         // the most that the least served of those that wait ever had been
};

}  // namespace quire
