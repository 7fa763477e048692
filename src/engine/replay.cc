#include "engine/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "sample/thinking_budget.h"
#include "spec/proposer.h"

namespace quire {
namespace {

constexpr int kAnyQueue = 1 << 20;                     // who was taken then is taken now
constexpr double kLongestStepNs = 3.6e12;              // of a recording that says more
constexpr int64_t kMaxCacheTokens = int64_t{1} << 28;  // of a replay without the model, at 4 bytes each

// The first reading is a step's start, all later ones its end.
class ReplayClock final : public Clock {
 public:
  int64_t now_ns() override {
    const int64_t now = first_ ? start_ : end_;
    first_ = false;
    return now;
  }
  void set(int64_t start, int64_t end) {
    start_ = start;
    end_ = end;
    first_ = true;
  }

 private:
  int64_t start_ = 0, end_ = 0;
  bool first_ = true;
};

using Answers = std::unordered_map<SeqId, PlayedAnswer>;

Answers answers_of(const Recording& recording) {
  Answers out;
  for (const RecordedStep& step : recording.steps) {
    for (const RecordedRequest& r : step.submits) out[r.id].n_vocab = recording.n_vocab;
    std::set<SeqId> spoke;  // in this step: then a stop is its rule's, for a stop id is no part of the answer
    for (const EngineDecision& d : step.decisions) {
      PlayedAnswer& answer = out[d.seq];
      if (d.kind == EngineDecision::Kind::token) {
        answer.tokens.push_back(static_cast<Token>(d.value));
        spoke.insert(d.seq);
      } else if (d.kind == EngineDecision::Kind::finish) {
        answer.finish = static_cast<Finish>(d.value);
        answer.by_rule = answer.finish == Finish::stop && spoke.contains(d.seq);
      }
    }
  }
  return out;
}

std::string text_of(const std::vector<EngineDecision>& decisions) {
  std::string out;
  for (size_t i = 0; i < decisions.size() && i < 12; ++i) {
    static constexpr const char* kWords[] = {"preempts", "grants", "token", "ends"};
    const EngineDecision& d = decisions[i];
    out += (out.empty() ? "" : ", ") + std::string(kWords[static_cast<size_t>(d.kind)]) + " " + std::to_string(d.seq) +
           ":" + std::to_string(d.value);
  }
  return decisions.size() > 12 ? out + ", …" : out.empty() ? "nothing" : out;
}

// Guesses what was guessed.
class PlayedProposer final : public Proposer {
 public:
  int max_draft() const override { return std::numeric_limits<int>::max(); }
  int max_side() const override { return std::numeric_limits<int>::max(); }
  void propose(std::span<Draft> drafts) override {
    for (const RecordedDraft& recorded : step->drafts) {
      for (Draft& draft : drafts) {
        if (draft.seq != recorded.seq) continue;
        draft.tokens = recorded.tokens;
        draft.parents = recorded.parents;
      }
    }
  }
  const RecordedStep* step = nullptr;
};

// One replay: the engine, who listens to it, and what came of it.
class Replay final : public InputRecorder {
 public:
  Replay(const Recording& recording, bool guesses)
      : recording_(recording), answers_(answers_of(recording)), guesses_(guesses && recording.options.max_draft > 0) {}

  Status make(const Model& model, Ops& ops, EngineOptions options, Clock& clock) {
    std::vector<VirtualTokens> played;
    played.reserve(recording_.prefixes.size());
    for (const RecordedPrefix& p : recording_.prefixes) played.push_back({p.content, p.n});
    return make(model, ops, std::move(options), clock, std::move(played));
  }
  Status make(const Model& model, Ops& ops, EngineOptions options, Clock& clock, std::vector<VirtualTokens> prefixes) {
    options.max_queue = kAnyQueue;
    EngineEnv env;
    env.prefixes = std::move(prefixes);
    env.clock = &clock;
    env.recorder = this;
    if (guesses_) env.proposer = proposer_;
    QR_TRY(engine_, make_engine(model, ops, options, env));
    return {};
  }

  void record(const EngineInput&) override {}
  void decided(const EngineDecision& d) override {
    hash_.add(d);
    made_.push_back(d);
  }
  void hear_token(SeqId id) {
    const auto at = last_ns_.find(id);
    if (at == last_ns_.end()) return;
    (at->second.second ? out_.itl_ns : out_.ttft_ns).push_back(now_ - at->second.first);
    at->second = {now_, true};
  }
  void hear_end(SeqId id) {
    last_ns_.erase(id);
    out_.duration_ns = std::max(out_.duration_ns, now_ - first_ns_);
  }

  // Every recorded step, with its own times.
  Status run_exactly(ReplayClock& clock, bool with_model) {
    for (size_t i = 0; i < recording_.steps.size(); ++i) {
      const RecordedStep& step = recording_.steps[i];
      for (const RecordedRequest& r : step.submits) {
        clock.set(r.at_ns, r.at_ns);
        QR_TRY(const SeqId id, submit(r, with_model));
        if (id != r.id) return fail(Code::corrupt, "sequence " + std::to_string(r.id) + " is not the next one");
      }
      for (const SeqId id : step.cancels) engine_->cancel(id);
      clock.set(step.start_ns, step.end_ns);
      now_ = std::max(step.start_ns, step.end_ns);
      step_ = proposer_->step = &step;
      made_.clear();
      engine_->step();
      compare(i, step.decisions);
      if (!out_.difference.empty() && with_model) break;  // from here on all differs
    }
    return {};
  }

  // Arrivals and cancellations at their times; on_pass of the model moves the clock.
  Status run_freely(ManualClock& clock) {
    std::vector<const RecordedRequest*> arrivals;
    std::multimap<int64_t, SeqId> cancels;
    for (const RecordedStep& step : recording_.steps) {
      for (const RecordedRequest& r : step.submits) arrivals.push_back(&r);
      for (const SeqId id : step.cancels) cancels.emplace(step.start_ns, id);
    }
    if (!arrivals.empty()) clock.advance_ns(arrivals[0]->at_ns - clock.now_ns());
    for (size_t next = 0;;) {
      for (; next < arrivals.size() && arrivals[next]->at_ns <= clock.now_ns(); ++next) take(*arrivals[next]);
      while (!cancels.empty() && cancels.begin()->first <= clock.now_ns()) {
        const auto at = ids_.find(cancels.begin()->second);
        if (at != ids_.end()) engine_->cancel(at->second);
        cancels.erase(cancels.begin());
      }
      if (engine_->step()) continue;
      if (next == arrivals.size()) return {};
      clock.advance_ns(std::max<int64_t>(0, arrivals[next]->at_ns - clock.now_ns()));
    }
  }
  void set_now(int64_t ns) { now_ = ns; }
  RecordedRules rules;  // of those that answer with the model
  const RecordedStep* step() const { return step_; }

  ReplayOutcome finish() {
    out_.stats = engine_->stats();
    out_.hash = hash_.value();
    std::sort(out_.ttft_ns.begin(), out_.ttft_ns.end());
    std::sort(out_.itl_ns.begin(), out_.itl_ns.end());
    return std::move(out_);
  }

 private:
  struct Ear final : EventSink {
    explicit Ear(Replay& r) : replay(r) {}
    void on_token(SeqId id, const TokenEvent& event) override {
      if (!event.prompt) replay.hear_token(id);
    }
    void on_finish(SeqId id, Finish, const Usage&, const std::string&) override { replay.hear_end(id); }
    Replay& replay;
  };

  Result<SeqId> submit(const RecordedRequest& r, bool with_model) {
    Request request = recorded_part(r.request);
    const PlayedAnswer& answer = answers_[r.id];
    if (with_model) {
      if (std::max(request.sampling.n_logprobs, request.sampling.n_prompt_logprobs) > recording_.n_vocab)
        return fail(Code::corrupt, "n_logprobs is over n_vocab");
      QR_TRY_VOID(make_rules(request.sampling));
      request.end = played_end(answer);
    } else {
      play(request, answer, &out_.n_invented);
    }
    QR_TRY(const SeqId id, engine_->submit(std::move(request), std::make_shared<Ear>(*this)));
    last_ns_[id] = {r.at_ns, false};
    if (first_ns_ < 0) first_ns_ = r.at_ns;
    return id;
  }
  Status make_rules(SamplingParams& sampling) const {
    if (sampling.constraint != nullptr) {
      if (!rules.compile)
        return fail(Code::unsupported, "the recording has constraints, and nothing here compiles them");
      QR_TRY(sampling.constraint, rules.compile(*sampling.constraint));
    }
    if (sampling.thinking == nullptr) return {};
    if (rules.vocabulary == nullptr)
      return fail(Code::unsupported, "the recording has budgets of thinking, and there is no vocabulary here");
    auto budget = std::make_shared<ThinkingBudget>(*sampling.thinking);
    budget->vocabulary = rules.vocabulary;
    sampling.thinking = std::move(budget);
    return {};
  }
  void take(const RecordedRequest& r) {
    const Result<SeqId> id = submit(r, false);
    if (id) ids_[r.id] = *id;
    out_.n_refused += id ? 0 : 1;
  }

  void compare(size_t i, const std::vector<EngineDecision>& wanted) {
    if (!out_.difference.empty()) return;
    // In a line of the file what was preempted stands first, then the grants: what a cancellation ended comes after.
    std::stable_sort(made_.begin(), made_.end(), [](const EngineDecision& a, const EngineDecision& b) {
      return std::min(a.kind, EngineDecision::Kind::token) < std::min(b.kind, EngineDecision::Kind::token);
    });
    const bool same = std::equal(made_.begin(), made_.end(), wanted.begin(), wanted.end(),
                                 [](const EngineDecision& a, const EngineDecision& b) {
                                   return a.kind == b.kind && a.seq == b.seq && a.value == b.value;
                                 });
    if (same) return;
    out_.difference = "step " + std::to_string(i + 1) + ": recorded: " + text_of(wanted) + "; now: " + text_of(made_);
  }

  const Recording& recording_;
  Answers answers_;
  const bool guesses_;  // as was recorded
  std::shared_ptr<PlayedProposer> proposer_ = std::make_shared<PlayedProposer>();
  int64_t now_ = 0, first_ns_ = -1;
  const RecordedStep* step_ = nullptr;
  std::vector<EngineDecision> made_;
  DecisionHash hash_;
  std::unordered_map<SeqId, SeqId> ids_;                         // recorded → now
  std::unordered_map<SeqId, std::pair<int64_t, bool>> last_ns_;  // submit or last token, and which
  ReplayOutcome out_;
  std::unique_ptr<Engine> engine_;  // destroyed first: its sequences' rules view answers_
};

// Memory of the played model for n_blocks, and for windows as many as were recorded.
void set_blocks(const Recording& recording, int n_blocks, EngineOptions& options) {
  options.n_window_blocks = recording.n_window_blocks;
  options.kv_bytes = (int64_t{n_blocks} + recording.n_window_blocks) * options.block_tokens * kPlayTokenBytes;
}

Status check_size(int64_t n_blocks, int block_tokens) {
  const int64_t n_tokens = n_blocks * block_tokens;
  if (n_tokens <= kMaxCacheTokens) return {};
  return fail(Code::invalid, "a cache of " + std::to_string(n_tokens) + " tokens is over what a replay can have, " +
                                 std::to_string(kMaxCacheTokens));
}

Status check_context(const Recording& recording) {
  if (recording.options.n_ctx >= 2) return {};
  return fail(Code::corrupt, "n_ctx must be at least 2, got " + std::to_string(recording.options.n_ctx));
}

}  // namespace

Result<ReplayOutcome> replay_exactly(const Recording& recording, StepCost& cost) {
  QR_TRY_VOID(check_context(recording));
  QR_TRY_VOID(check_size(int64_t{recording.n_blocks} + recording.n_window_blocks, recording.options.block_tokens));
  EngineOptions options = recording.options;
  set_blocks(recording, recording.n_blocks, options);
  PlayModel model(options.n_ctx, recording.n_vocab, recording.fingerprint, recording.window);
  const std::unique_ptr<Ops> ops = make_play_ops();
  ReplayClock clock;
  Replay replay(recording, true);
  model.on_pass = [&](const StepShape& shape) {
    if (replay.step()->end_ns >= 0) cost.observe(shape, replay.step()->end_ns - replay.step()->start_ns);
  };
  QR_TRY_VOID(replay.make(model, *ops, options, clock));
  QR_TRY_VOID(replay.run_exactly(clock, false));
  return replay.finish();
}

Result<ReplayOutcome> replay_with_model(const Recording& recording,
                                        const Model& model,
                                        Ops& ops,
                                        const RecordedRules& rules,
                                        std::vector<VirtualTokens> prefixes) {
  QR_TRY_VOID(check_context(recording));
  if (model.info().fingerprint != recording.fingerprint) {
    return fail(Code::invalid, "the recording is of a model with fingerprint " + std::to_string(recording.fingerprint) +
                                   ", this one has " + std::to_string(model.info().fingerprint));
  }
  for (const RecordedPrefix& p : recording.prefixes) {
    if (std::ranges::find(prefixes, p.content, &VirtualTokens::content) != prefixes.end()) continue;
    return fail(Code::invalid, "the recording has the learned prefix " + std::to_string(p.content) +
                                   ", which is not among the " + std::to_string(prefixes.size()) + " that are loaded");
  }
  ReplayClock clock;
  Replay replay(recording, true);
  replay.rules = rules;
  QR_TRY_VOID(replay.make(model, ops, recording.options, clock, std::move(prefixes)));
  QR_TRY_VOID(replay.run_exactly(clock, true));
  return replay.finish();
}

Result<ReplayOutcome> replay_under(const Recording& recording,
                                   const EngineOptions& options,
                                   int n_blocks,
                                   const StepCost& cost) {
  QR_TRY_VOID(check_context(recording));
  QR_TRY_VOID(check_size(int64_t{n_blocks} + recording.n_window_blocks, options.block_tokens));
  EngineOptions wanted = options;
  wanted.proposer.clear();
  wanted.max_draft = wanted.max_side = 0;  // what would have been guessed at other times is not known
  set_blocks(recording, n_blocks, wanted);
  PlayModel model(options.n_ctx, recording.n_vocab, recording.fingerprint, recording.window);
  const std::unique_ptr<Ops> ops = make_play_ops();
  ManualClock clock;
  Replay replay(recording, false);
  model.on_pass = [&](const StepShape& shape) {
    clock.advance_ns(static_cast<int64_t>(std::clamp(cost.predict_ns(shape), 1.0, kLongestStepNs)));
    replay.set_now(clock.now_ns());
  };
  QR_TRY_VOID(replay.make(model, *ops, wanted, clock));
  QR_TRY_VOID(replay.run_freely(clock));
  return replay.finish();
}

int64_t at_rank(const std::vector<int64_t>& rising, double q) {
  if (rising.empty()) return 0;
  const auto last = static_cast<double>(rising.size() - 1);
  return rising[static_cast<size_t>(std::lround(q * last))];
}

}  // namespace quire
