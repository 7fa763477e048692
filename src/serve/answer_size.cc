#include "serve/answer_size.h"

#include <algorithm>

namespace quire {
namespace {

std::string times(std::string_view name, int64_t n) { return std::string(name) + " " + std::to_string(n); }

// A part of the answer: its bytes, and the product that they are.
struct Share {
  int64_t bytes = 0;
  std::string_view field;  // that makes it so large
  std::string product;
};

// n_times (1 + n_top) entries for each of n_tokens.
Share entries(int64_t n_times, std::string_view tokens, int64_t n_tokens, std::string_view field, int n_top) {
  return {n_times * n_tokens * (1 + n_top) * kEntryBytes, field,
          std::to_string(n_times) + " choices × " + times(tokens, n_tokens) + " × (1 + " + times(field, n_top) +
              ") × " + std::to_string(kEntryBytes) + " bytes"};
}

// What does not depend on how long the answers become.
std::vector<Share> fixed_shares(const ServeEnv& env, const Job& job) {
  std::vector<Share> out;
  const Generation& g = job.generation;
  int64_t n_tokens = 0, n_echo = 0;
  for (const auto& prompt : job.prompts) n_tokens += static_cast<int64_t>(prompt.size());
  for (const auto& echo : job.echo) n_echo += static_cast<int64_t>(echo->size());
  if (job.pool != Pool::none) {
    const int64_t n = job.pool == Pool::all ? n_tokens : static_cast<int64_t>(job.prompts.size());
    out.push_back({n * env.card.n_embd * kFloatBytes, job.prompt_field,
                   times(job.prompt_field, n) + " × " + times("dimensions", env.card.n_embd) + " × " +
                       std::to_string(kFloatBytes) + " bytes"});
  }
  if (g.sampling.n_prompt_logprobs >= 0)
    out.push_back(entries(job.writer->repeats_prompts() ? g.n : 1, "prompt tokens", n_tokens, "prompt_logprobs",
                          g.sampling.n_prompt_logprobs));
  if (job.n_echo_logprobs >= 0) out.push_back(entries(g.n, "prompt tokens", n_tokens, "logprobs", job.n_echo_logprobs));
  if (!job.stream && n_echo > 0)
    out.push_back({g.n * n_echo, "echo", std::to_string(g.n) + " choices × " + times("echo", n_echo) + " bytes"});
  if (job.told_bytes > 0)
    out.push_back({g.n * job.told_bytes, job.prompt_field,
                   std::to_string(g.n) + " choices × " + times(job.prompt_field, job.told_bytes) + " bytes"});
  return out;
}

// What one token of every choice adds; 0 where the answer is not kept while it is made.
int64_t token_bytes(const Job& job) {
  const Generation& g = job.generation;
  if (g.prompt_only || (job.stream && !job.writer->keeps_all())) return 0;
  const bool listed = g.sampling.n_logprobs >= 0 || job.want_ids || g.best_of > g.n;
  const int64_t one = kTokenTextBytes + (listed ? (1 + std::max(g.sampling.n_logprobs, 0)) * kEntryBytes : 0);
  return one * (job.stream ? kKeptTimes : 1) * g.best_of * static_cast<int64_t>(job.prompts.size());
}

std::string token_product(const Job& job, int64_t n_tokens) {
  const Generation& g = job.generation;
  const int64_t n_choices = g.best_of * static_cast<int64_t>(job.prompts.size());
  return std::to_string(n_choices) + " choices × " + times(g.max_tokens_field, n_tokens) + " × " +
         std::to_string(token_bytes(job) / n_choices) + " bytes of text" +
         (g.sampling.n_logprobs >= 0 ? " and " + times("logprobs", g.sampling.n_logprobs) : "");
}

}  // namespace

std::optional<HttpError> bound_answer(const ServeEnv& env, Job& job) {
  std::vector<Share> shares = fixed_shares(env, job);
  Generation& g = job.generation;
  const int64_t per_token = token_bytes(job), limit = env.limits.answer_bytes;
  int64_t fixed = 0;
  for (const Share& share : shares) fixed += share.bytes;
  if (per_token > 0) {
    int64_t room = 0;  // of the prompt that leaves most
    for (const auto& prompt : job.prompts)
      room = std::max(room, env.n_ctx - job.generation.n_virtual() - static_cast<int64_t>(prompt.size()));
    const int64_t most = std::max<int64_t>((limit - fixed) / per_token, 1);
    const bool open = g.max_tokens <= 0;
    if (open && most < room) g.max_tokens = most;
    const int64_t n_tokens = open ? std::min(most, room) : std::min(g.max_tokens, room);
    shares.push_back({n_tokens * per_token, g.max_tokens_field, token_product(job, n_tokens)});
    fixed += n_tokens * per_token;
  }
  if (fixed <= limit) return std::nullopt;
  std::string products;
  const Share* largest = shares.data();
  for (const Share& share : shares) {
    if (share.bytes > largest->bytes) largest = &share;
    products += (products.empty() ? "" : " + ") + share.product;
  }
  return bad_field(largest->field,
                   "asks for an answer of up to " + std::to_string(fixed) + " bytes (" + products + "): the limit is " +
                       std::to_string(limit) + limit_note(&ServeLimits::answer_bytes),
                   "limit_exceeded");
}

}  // namespace quire
