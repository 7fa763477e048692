#include "serve/timings.h"

#include <algorithm>
#include <string>

namespace quire {
namespace {

double milliseconds(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

// n tokens in some time, in so many steps of one token each.
void set_rate(Json& out, const std::string& name, int64_t n, int64_t n_steps, int64_t ns) {
  const double ms = milliseconds(ns);
  out.set(name + "_n", n);
  out.set(name + "_ms", ms);
  out.set(name + "_per_token_ms", n_steps > 0 ? ms / static_cast<double>(n_steps) : 0.0);
  out.set(name + "_per_second", n_steps > 0 && ms > 0 ? 1e3 / ms * static_cast<double>(n_steps) : 0.0);
}

struct Spent {
  int64_t n_cached, n_prompt, prompt_ns, n_predicted, predicted_ns;
};

Json to_json(const Spent& s) {
  Json out = Json::Object{{"cache_n", s.n_cached}};
  set_rate(out, "prompt", s.n_prompt, s.n_prompt, s.prompt_ns);
  set_rate(out, "predicted", s.n_predicted, std::max<int64_t>(s.n_predicted - 1, 0), s.predicted_ns);
  return out;
}

}  // namespace

Json timings_of(const UsageTotals& usage) {
  return to_json({usage.n_cached, usage.n_prompt - usage.n_cached, usage.first_token_ns - usage.queued_ns,
                  usage.n_generated, usage.total_ns - usage.first_token_ns});
}

int64_t RunningTimings::since(Clock::time_point from) const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - from).count();
}

void RunningTimings::begin(int64_t n_prompt) { n_prompt_ = n_prompt; }

Json RunningTimings::of_prompt(const PromptProgress& progress) {
  n_cached_ = progress.n_cached;
  const int64_t n = progress.n_done - progress.n_cached;
  return to_json({progress.n_cached, n, n > 0 ? since(began_) : 0, 0, 0});
}

Json RunningTimings::so_far(int64_t n_tokens) {
  if (first_ == Clock::time_point()) first_ = Clock::now();
  const int64_t prompt_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(first_ - began_).count();
  return to_json({n_cached_, n_prompt_ - n_cached_, prompt_ns, n_tokens, since(first_)});
}

Json RunningTimings::progress(const PromptProgress& progress) const {
  return Json::Object{{"total", progress.n_total},
                      {"cache", progress.n_cached},
                      {"processed", progress.n_done},
                      {"time_ms", milliseconds(since(began_))}};
}

}  // namespace quire
