// For this room's tests and benches: a worker as a model, on a clock that is told. The one idea: an engine is steps of
// a bounded number of tokens, a row for each answer under way before those of prompts in the order in which they came,
// and a step takes a time of its own and one for each token; what it has computed stays in a cache of whole blocks, of
// which the ones used longest ago go. One thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "route/prefix_map.h"

namespace quire {

struct WorkerSpeed {
  int64_t step_ns = 8'000'000, token_ns = 60'000;
  int64_t step_tokens = 512;
  size_t n_running = 64;        // at once; others queue
  int64_t cache_blocks = 1500;  // of kModelBlock tokens
};
inline constexpr int64_t kModelBlock = 512;

struct ModelJob {
  size_t request = 0;
  int64_t prompt_tokens = 0, answer_tokens = 1;  // still to say
  std::span<const uint64_t> blocks;              // names of the whole ones of the prompt; the request's
  int64_t sent_ns = 0;
  int64_t to_compute = -1;  // of the prompt; −1: it does not run yet
};

// What became of jobs in a step.
struct StepNews {
  std::vector<ModelJob> begun;  // said their first token
  std::vector<ModelJob> done;
};

class WorkerModel {
 public:
  explicit WorkerModel(const WorkerSpeed& speed) : speed_(speed), cache_(std::in_place, speed.cache_blocks) {}

  void enter(const ModelJob& job) { jobs_.push_back(job); }
  bool has_work() const { return !jobs_.empty(); }
  size_t n_jobs() const { return jobs_.size(); }
  const ModelJob& newest() const { return jobs_.back(); }  // REQUIRES has_work()
  bool in_step() const { return ends_ns_ >= 0; }
  int64_t ends_ns() const { return ends_ns_; }

  // REQUIRES has_work(), not in_step().
  void begin_step(int64_t now_ns) {
    const size_t n = std::min(jobs_.size(), speed_.n_running);
    int64_t room = speed_.step_tokens;
    taken_.assign(n, 0);
    for (size_t i = 0; i < n; ++i)
      if (jobs_[i].to_compute == 0) room -= taken_[i] = 1;
    for (size_t i = 0; i < n && room > 0; ++i) {
      if (jobs_[i].to_compute < 0) admit(jobs_[i]);
      if (taken_[i] == 0) room -= taken_[i] = std::min(room, jobs_[i].to_compute);
    }
    ends_ns_ = now_ns + speed_.step_ns + (speed_.step_tokens - room) * speed_.token_ns;
  }
  // REQUIRES in_step(). The prompt's last row is the answer's first token.
  StepNews end_step() {
    ends_ns_ = -1;
    StepNews news;
    std::vector<ModelJob> left;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      ModelJob& job = jobs_[i];
      if (i < taken_.size() && taken_[i] > 0) {
        const bool first = job.to_compute > 0 && job.to_compute == taken_[i];
        if (job.to_compute > 0) job.to_compute -= taken_[i];
        if (first) {
          news.begun.push_back(job);
          cache_->add(job.blocks, kOwn);
        }
        if (job.to_compute == 0 && --job.answer_tokens <= 0) {
          news.done.push_back(job);
          continue;
        }
      }
      left.push_back(job);
    }
    jobs_.swap(left);
    return news;
  }
  // Ends in the middle of whatever it does, with an empty cache.
  std::vector<ModelJob> die() {
    ends_ns_ = -1;
    cache_.emplace(speed_.cache_blocks);
    return std::exchange(jobs_, {});
  }
  // Of such a prompt's blocks: what it has, and what it will have when it has computed the prompts that it was given.
  int64_t n_held(std::span<const uint64_t> blocks) const {
    const auto hits = cache_->find(blocks);
    int64_t most = hits.empty() ? 0 : hits.front().n_blocks;
    for (const ModelJob& job : jobs_)
      most = std::max<int64_t>(most, std::ranges::mismatch(job.blocks, blocks).in1 - job.blocks.begin());
    return most;
  }
  int64_t cached_tokens() const { return cached_tokens_; }  // of prompts, found
  int64_t prompt_tokens() const { return prompt_tokens_; }  // of prompts that were begun

 private:
  static constexpr uint64_t kOwn = 1;
  // At least the last token is always computed.
  void admit(ModelJob& job) {
    const auto hits = cache_->find(job.blocks);
    const int64_t found = hits.empty() ? 0 : hits.front().n_blocks * kModelBlock;
    const int64_t cached = std::min(found, job.prompt_tokens - 1);
    job.to_compute = job.prompt_tokens - cached;
    cached_tokens_ += cached;
    prompt_tokens_ += job.prompt_tokens;
    cache_->add(job.blocks.first(static_cast<size_t>(found / kModelBlock)), kOwn);
  }

  WorkerSpeed speed_;
  std::optional<PrefixMap> cache_;  // always there
  std::vector<ModelJob> jobs_;      // in the order in which they came
  std::vector<int64_t> taken_;      // of the step that runs
  int64_t ends_ns_ = -1, cached_tokens_ = 0, prompt_tokens_ = 0;
};

}  // namespace quire
