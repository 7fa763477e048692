#include "tests/sim/timed_tier.h"

#include <algorithm>

namespace quire::sim {

void TimedTier::bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) {
  Job job{read, begin, end, 0, 0};
  begin_block(job, now_ns_);
  jobs_.push_back(job);
}

int64_t TimedTier::due_ns(int64_t usual_ns, int64_t since_ns) {
  const int64_t took_ns = rng_.between(usual_ns, 2 * usual_ns);
  int64_t due_ns = since_ns + took_ns;
  if (one_in(speed_.one_fault_in)) due_ns = since_ns + 50 * took_ns;
  if (!one_in(speed_.one_fault_in)) return due_ns;
  ++counts_.stalled;
  return kNever;
}

void TimedTier::begin_block(Job& job, int64_t since_ns) {
  job.since_ns = since_ns;
  job.due_ns = due_ns(speed_.read_ns, since_ns);
}

void TimedTier::bring_block(Job& job) {
  std::optional<TierBlock> block = read(job.read->wanted(job.next));
  ++(block ? counts_.given : counts_.lost);
  block ? job.read->give(job.next, std::move(*block), nullptr) : job.read->lose(job.next);
  const auto took = static_cast<double>(job.due_ns - job.since_ns);
  mean_read_ns_ = mean_read_ns_ == 0 ? took : mean_read_ns_ + (took - mean_read_ns_) / 8;
  ++job.next;
}

int64_t TimedTier::predict_ns(int64_t n_blocks) {
  int64_t longest_ns = 0;
  for (const Job& job : jobs_) longest_ns = std::max(longest_ns, now_ns_ - job.since_ns);
  const bool hangs = static_cast<double>(longest_ns) > 2 * mean_read_ns_;
  return static_cast<int64_t>(mean_read_ns_ * static_cast<double>(n_blocks)) + (hangs ? longest_ns : 0);
}

void TimedTier::tell_time(int64_t now_ns) {
  now_ns_ = now_ns;
  bool any = take_time();
  for (Job& job : jobs_) {
    while (!job.read->abandoned() && job.next < job.end && job.due_ns <= now_ns) {
      const int64_t came_ns = job.due_ns;
      bring_block(job);
      any = true;
      if (job.next < job.end) begin_block(job, came_ns);
    }
  }
  std::erase_if(jobs_, [this](const Job& job) {
    const bool over = job.next == job.end;
    counts_.let_go += !over && job.read->abandoned() ? 1 : 0;
    return over || job.read->abandoned();
  });
  if (any && on_arrival_) on_arrival_();
}

int64_t TimedTier::next_ns() const {
  int64_t next = kNever;
  for (const Job& job : jobs_) next = std::min(next, job.read->abandoned() ? kNever : job.due_ns);
  return next == kNever ? -1 : next;
}

bool TimedTier::brings(const std::vector<Token>& tokens, int block_tokens) const {
  return std::ranges::any_of(jobs_, [&](const Job& job) {
    const std::vector<Token>& first = job.read->wanted(0).tokens;
    if (job.read->abandoned()) return false;
    for (size_t at = 0; at + first.size() <= tokens.size(); at += static_cast<size_t>(block_tokens)) {
      if (std::equal(first.begin(), first.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at))) return true;
    }
    return false;
  });
}

size_t TimedTier::n_wanted() const {
  return static_cast<size_t>(std::ranges::count_if(jobs_, [](const Job& job) { return !job.read->abandoned(); }));
}

}  // namespace quire::sim
