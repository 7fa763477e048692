#include "tests/sim/service.h"

#include <algorithm>
#include <functional>

#include "engine/tenants.h"

namespace quire::sim {

Service::Service(const Script& script, Failure& failure) : allowance_(script.knobs.allowance), failure_(failure) {
  checks_ = script.knobs.policy == "vtc";
  const auto n_together = static_cast<size_t>(std::min(script.knobs.max_seqs, script.knobs.step_tokens));
  std::map<uint64_t, std::vector<double>> costs;
  for (const RequestScript& r : script.requests) {
    int64_t n_prompt = 0;
    for (const Piece& piece : r.prompt) n_prompt += piece.n;
    const int64_t most = kPromptCharge * n_prompt + kOutputCharge * r.max_tokens;
    costs[r.tenant].push_back(static_cast<double>(most) / r.weight);
    Account& account = accounts_[r.tenant];
    checks_ &= account.bound == 0 || account.weight == r.weight;
    account.weight = r.weight;
    account.bound = 1;
  }
  for (auto& [tenant, account] : accounts_) {
    std::vector<double>& all = costs[tenant];
    std::ranges::sort(all, std::greater());
    account.bound = 0;
    for (size_t i = 0; i < std::min(n_together, all.size()); ++i) account.bound += all[i];
  }
}

void Service::computed(const Stream& stream, int start, int granted) {
  Progress& progress = progress_[stream.seq];
  const int n_new = std::min(start + granted, progress.n_prompt) - std::max(start, progress.n_ever);
  if (n_new > 0) serve(stream, kPromptCharge * n_new);
  progress.n_ever = std::max(progress.n_ever, start + granted);
}

void Service::has(const Stream& stream, int n_computed) {
  int& n_ever = progress_[stream.seq].n_ever;
  n_ever = std::max(n_ever, n_computed);
}

void Service::heard(const Stream& stream) {
  size_t& n_before = progress_[stream.seq].n_heard;
  serve(stream, kOutputCharge * static_cast<int64_t>(stream.n_heard - n_before));
  n_before = stream.n_heard;
}

void Service::serve(const Stream& stream, int64_t n) {
  Account& account = accounts_[stream.script->tenant];
  account.served += n;
}

double Service::by_weight(const Account& account) { return static_cast<double>(account.served) / account.weight; }

void Service::end_step(const std::set<uint64_t>& waiting) {
  if (waiting.size() == accounts_.size()) {
    for (const auto& [tenant, account] : accounts_) together_[tenant] = account.served;
  }
  if (!checks_) return;
  std::erase_if(differences_, [&](const auto& entry) {
    return !waiting.contains(entry.first.first) || !waiting.contains(entry.first.second);
  });
  for (auto a = waiting.begin(); a != waiting.end(); ++a) {
    for (auto b = std::next(a); b != waiting.end(); ++b) {
      const Account &one = accounts_[*a], &two = accounts_[*b];
      const double now = by_weight(one) - by_weight(two);
      Range& seen = differences_.try_emplace({*a, *b}, Range{now, now}).first->second;
      seen = {std::min(seen.low, now), std::max(seen.high, now)};
      // One virtual token for what the counters round.
      const double most = 2 * (std::max(one.bound, two.bound) + allowance_) + 1;
      if (seen.high - seen.low <= most) continue;
      failure_.set("tenants " + std::to_string(*a) + " and " + std::to_string(*b) + " waited, and were served " +
                   std::to_string(seen.high - seen.low) + " virtual tokens apart: over " + std::to_string(most));
    }
  }
}

}  // namespace quire::sim
