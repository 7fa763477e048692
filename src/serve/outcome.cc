#include "serve/outcome.h"

#include <algorithm>

#include "serve/prompt_tokens.h"

namespace quire {

std::vector<ChoiceResult> take_results(const Job& job,
                                       std::span<const std::unique_ptr<Choice>> choices,
                                       const Tokenizer& tokenizer) {
  const Generation& g = job.generation;
  const auto n = static_cast<size_t>(g.n), n_run = static_cast<size_t>(g.best_of);
  const bool scored = g.sampling.n_prompt_logprobs >= 0 || job.n_echo_logprobs >= 0;
  std::vector<ChoiceResult> out;
  out.reserve(choices.size() / n_run * n);
  std::vector<Choice*> ranked;
  for (size_t at = 0; at < choices.size(); at += n_run) {
    ranked.clear();
    for (size_t i = 0; i < n_run; ++i) ranked.push_back(choices[at + i].get());
    const auto better = [](const Choice* x, const Choice* y) { return x->mean_logprob() > y->mean_logprob(); };
    if (n_run > n) std::stable_sort(ranked.begin(), ranked.end(), better);
    std::shared_ptr<PromptTokens> prompt;
    Choice& first = *choices[at];
    if (scored)
      prompt = std::make_shared<PromptTokens>(tokenizer, job.prompts[first.prompt][0], first.give_prompt_tokens(),
                                              first.echo());
    for (size_t i = 0; i < n; ++i) {
      ChoiceResult& result = out.emplace_back();
      result.index = static_cast<int>(out.size()) - 1;
      result.whole = ranked[i]->give_whole();
      result.ending = ranked[i]->ending();
      result.echo = ranked[i]->echo();
      result.prompt = prompt;
      result.pooled = ranked[i]->give_pooled();
      result.explained = ranked[i]->give_explained();
    }
  }
  return out;
}

int64_t n_prompt_tokens(const Job& job) {
  int64_t n = 0;
  for (const auto& prompt : job.prompts) n += static_cast<int64_t>(prompt.size());
  return n;
}

int64_t own_bytes(const Job& job, size_t n_choices) {
  return n_prompt_tokens(job) * int64_t{sizeof(Token)} + static_cast<int64_t>(n_choices * sizeof(Choice));
}

int64_t told_tokens(const Job& job) {
  int64_t n = 0;
  for (const ToldChoice& told : job.handover.choices) n += std::ssize(told.output);
  return n;
}

int64_t answer_limit(const ServeLimits& limits, const Job& job) {
  return limits.unread_bytes + (job.stream ? 0 : limits.answer_bytes);
}

UsageTotals usage_of(const Job& job, std::span<const std::unique_ptr<Choice>> choices) {
  UsageTotals total;
  total.n_prompt = n_prompt_tokens(job);
  const auto n_run = static_cast<size_t>(job.generation.best_of);
  for (size_t p = 0; p < job.prompts.size(); ++p) {
    int64_t n_cached = choices[p * n_run]->usage().n_cached, n_disk = 0, n_remote = 0, n_dropped = 0;
    for (size_t i = 0; i < n_run; ++i) {
      const Choice& c = *choices[p * n_run + i];
      n_cached = std::min<int64_t>(n_cached, c.usage().n_cached);  // what its siblings had computed is no saving
      n_disk = std::max<int64_t>(n_disk, c.usage().n_disk);        // one brings it, its siblings find it
      n_remote = std::max<int64_t>(n_remote, c.usage().n_remote);
      n_dropped = std::max<int64_t>(n_dropped, c.usage().n_dropped);
      total.n_generated += c.n_generated();
      total.n_pinned += c.usage().n_pinned;
      total.n_reasoning += c.n_reasoning();
      total.cost += c.usage().cost;
      if (c.usage().total_ns >= total.total_ns) {
        total.queued_ns = c.usage().queued_ns;
        total.first_token_ns = c.usage().first_token_ns;
        total.total_ns = c.usage().total_ns;
      }
    }
    total.n_cached += n_cached;
    n_disk = std::min(n_disk, n_cached);
    total.n_disk += n_disk;
    total.n_dropped += n_dropped;
    total.n_remote += std::min(n_remote, n_cached - n_disk);
  }
  return total;
}

}  // namespace quire
