#include "tests/sim/books.h"

#include <algorithm>

namespace quire::sim {
namespace {

// Leading tokens that one may take from the other.
int n_common(const Stream& a, const Stream& b) {
  const std::vector<Token> one = tokens_of(a), two = tokens_of(b);
  const auto n = static_cast<int>(std::mismatch(one.begin(), one.end(), two.begin(), two.end()).first - one.begin());
  if (a.script->salt == b.script->salt) return n;
  const auto open = [n](const Stream& s) { return s.script->salt == 0 ? n : n_public_of(*s.script); };
  return std::min({n, open(a), open(b)});
}

}  // namespace

void Books::submitted(const Stream& stream) {
  live_.emplace(stream.seq, &stream);
  int n_ahead = 0;
  for (const auto& [id, turn] : turns_) n_ahead += live_.at(id)->script->tenant == stream.script->tenant ? 1 : 0;
  turns_.emplace(stream.seq, Turn{n_ahead, n_steps_, stream.seq});
  service_.submitted(stream, static_cast<int>(prompt_of(*stream.script).size()));
  const uint64_t salt = stream.script->salt;
  for (const uint64_t path : paths(stream, salt)) ++cached_[path];
  if (salt == 0) return;
  const std::vector<uint64_t> open = paths(stream, 0);
  for (size_t i = 0; i < n_public_grains(stream); ++i) ++cached_[open[i]];
}

size_t Books::n_public_grains(const Stream& stream) const {
  const int whole_blocks = n_public_of(*stream.script) / knobs_.block_tokens * knobs_.block_tokens;
  return static_cast<size_t>(whole_blocks / grain());
}

std::vector<uint64_t> Books::paths(const Stream& stream, uint64_t salt) const {
  const std::vector<Token> tokens = tokens_of(stream);
  std::vector<uint64_t> out;
  uint64_t hash = mix64(salt);
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = mix64(hash ^ static_cast<uint64_t>(tokens[i]));
    if ((i + 1) % static_cast<size_t>(grain()) == 0) out.push_back(hash);
  }
  return out;
}

// The younger ones of its tenant move up.
void Books::left(const Stream& gone) {
  if (turns_.erase(gone.seq) == 0) return;
  // What was cancelled or refused left before the step's plan, what ended did so after it.
  const int64_t since = gone.finish == Finish::cancelled || gone.error == kTooLate ? n_steps_ - 1 : n_steps_;
  for (auto& [id, turn] : turns_) {
    if (id < gone.seq || live_.at(id)->script->tenant != gone.script->tenant) continue;
    --turn.n_ahead;
    turn.ahead_plan = since;
  }
}

void Books::before_step(Snapshot before) {
  ++n_steps_;
  before_.clear();
  loading_before_.clear();
  for (const SequenceView& view : before.seqs) {
    before_.emplace(view.id, view);
    if (view.running && loads(*live_.at(view.id))) loading_before_.insert(view.id);
  }
  preempted_before_ = before.stats.n_preempted;
  recomputed_.before_step(before, live_);
  grants_.clear();
}

void Books::pass(const Batch& batch) {
  const int64_t n_rows = batch.ids.dim(0);
  const int64_t n_seqs = batch.attn.cu_q.dim(0) - 1;
  int64_t granted = 0;
  for (const auto& [id, n] : grants_) granted += n;
  // Behind those that were granted something there are branches of guesses, each as a sequence.
  const auto n_granted = std::min(static_cast<int64_t>(grants_.size()), n_seqs);
  const int64_t n_own = batch.attn.cu_q.ptr<int32_t>()[n_granted];
  if (granted != n_own) fail(std::to_string(granted) + " tokens were granted, the batch has " + std::to_string(n_own));
  if (n_rows - n_own > n_granted * knobs_.max_side)
    fail("branches have " + std::to_string(n_rows - n_own) + " rows in a batch of " + std::to_string(n_granted));
  if (n_rows > knobs_.step_tokens) fail("the batch of " + std::to_string(n_rows) + " rows is over the budget");
  if (n_granted > knobs_.max_seqs) fail("the batch of " + std::to_string(n_granted) + " sequences is over max_seqs");
  if (n_seqs < static_cast<int64_t>(grants_.size())) fail("a sequence was granted twice");
}

void Books::after_step(const Snapshot& after, int64_t n_rows) {
  if (const std::string error = after.check(); !error.empty()) fail(error);
  int64_t computed = 0;
  for (const int64_t n : after.stats.spent.computed) computed += n;
  if (computed != n_rows) {
    fail("the engine counts " + std::to_string(computed) + " rows, the model saw " + std::to_string(n_rows));
  }
  if (after.stats.n_waiting > knobs_.max_queue * 9 / 8 + knobs_.max_seqs) {
    fail(std::to_string(after.stats.n_waiting) + " wait: over max_queue and who was sent back");
  }
  Views views;
  for (const SequenceView& view : after.seqs) views.emplace(view.id, view);
  const bool preempted = after.stats.n_preempted > preempted_before_;
  for (const auto& [id, n] : grants_) check_grant(id, n, views, preempted);
  for (const auto& [id, was] : before_) {
    const auto now = views.find(id);
    if (!was.running || now == views.end() || !now->second.running) continue;
    const bool decodes = was.n_tokens - was.n_computed == 1;
    // It may have been sent back and be here again, waiting for another to compute what it lost.
    const bool returned = preempted && now->second.n_computed < was.n_computed;
    check_turn(id, decodes && !returned, preempted);
  }
  for (const SeqId id : loading_before_) {
    const auto now = views.find(id);
    n_preempted_loading_ += now != views.end() && !now->second.running ? 1 : 0;
  }
  recomputed_.after_step(after, live_);
  check_progress(views);
  check_deadlines(views);
  count_service(views);
}

// Who has one token to compute has it computed; where steps have a target, in turns, two in a step at least.
void Books::check_turn(SeqId id, bool decodes, bool preempted) {
  const std::string name = "sequence " + std::to_string(id);
  if (!decodes || grants_.contains(id)) {
    n_paused_.erase(id);
    return;
  }
  if (knobs_.step_target_us == 0) return fail(name + " had one token to compute and got none");
  const auto n_streams = std::ranges::count_if(grants_, [this](const auto& grant) {
    const auto was = before_.find(grant.first);
    return was != before_.end() && was->second.running && was->second.n_tokens - was->second.n_computed == 1;
  });
  // Where something came from a tier just now, one that had its turn may wait for another's instead.
  if (n_streams < 2 && !preempted && knobs_.tier_blocks == 0 && knobs_.remote_blocks == 0) {
    fail(name + " pauses in a step in which " + std::to_string(n_streams) + " others stream");
  }
  // Tenants × streams of its own, where all of them run.
  const int most = (knobs_.max_seqs + 1) * (knobs_.max_seqs + 1) / 4;
  if (++n_paused_[id] > most) fail(name + " has paused for more than " + std::to_string(most) + " steps");
}

void Books::count_service(const Views& after) {
  for (const auto& [id, n] : grants_) {
    const auto at = live_.find(id);
    if (at == live_.end() || at->second->step_threw) continue;
    const auto was = before_.find(id);
    const auto now = after.find(id);
    const int n_tokens =
        was == before_.end() ? static_cast<int>(prompt_of(*at->second->script).size()) : was->second.n_tokens;
    const bool streams = ran(id) && n_tokens - was->second.n_computed == 1;
    // Who ended had all that was pending computed.
    const int start = streams ? was->second.n_computed : (now == after.end() ? n_tokens : now->second.n_computed) - n;
    service_.computed(*at->second, start, n);
  }
  std::set<uint64_t> waiting;
  for (const auto& [id, stream] : live_) {
    service_.heard(*stream);
    const auto now = after.find(id);
    if (now == after.end()) continue;
    service_.has(*stream, now->second.n_computed);
    if (!now->second.running) waiting.insert(stream->script->tenant);
  }
  service_.end_step(waiting);
}

void Books::check_grant(SeqId id, int n_tokens, const Views& after, bool preempted) {
  const std::string name = "sequence " + std::to_string(id);
  const auto stream = live_.find(id);
  if (stream == live_.end()) return fail(name + " was granted something and is unknown");
  SequenceView was{id, false, 0, static_cast<int>(prompt_of(*stream->second->script).size()), 0, 0};
  if (const auto at = before_.find(id); at != before_.end()) was = at->second;
  // Who was sent back may find room again in the same step.
  const int due = was.n_tokens - (was.running && !preempted ? was.n_computed : 0);
  // Who streams may have guesses computed too, of which none goes past its end.
  const bool streams = was.running && was.n_tokens - was.n_computed == 1;
  const int left = was.n_prompt + stream->second->script->max_tokens - was.n_tokens;
  const int guesses = std::max(0, std::min({knobs_.max_draft, left - 1, knobs_.n_ctx - was.n_tokens - 1}));
  // So may who waited for a tier, when all but its last token has come.
  const int pending = streams || loading_before_.contains(id) ? std::max(due, 1 + guesses) : due;
  if (n_tokens < 1 || n_tokens > pending || n_tokens > knobs_.max_chunk) {
    fail(name + " was granted " + std::to_string(n_tokens) + " of " + std::to_string(pending) + " pending tokens");
  }
  const auto now = after.find(id);
  if (now == after.end()) return;  // it ended
  if (!now->second.running) return fail(name + " was granted something and does not run");
  const int hit = now->second.n_computed - n_tokens;
  // Of a stream's rows those stay that gave a token.
  const int n_heard = now->second.n_tokens - was.n_tokens;
  // A branch may be longer than the draft beside it.
  const int most_heard = knobs_.max_side > 0 ? 1 + guesses : n_tokens;
  const bool streams_on = streams && n_heard >= 1 && n_heard <= most_heard && n_tokens <= 1 + guesses &&
                          now->second.n_computed == was.n_computed + n_heard;
  const bool stays = streams_on || (was.running && !streams && hit == was.n_computed);
  // Who enters starts behind blocks that were found, and a copy of part of one; so does who waited for another to
  // compute them.
  const bool back = was.running && !preempted && hit < was.n_computed;
  const bool enters = !back && hit >= 0 && (hit == 0 || knobs_.prefix_cache);
  // All but its last token came from a tier, and it streams on at once.
  const bool resumes = knobs_.tier_blocks + knobs_.remote_blocks > 0 && n_heard >= 1 && n_heard <= most_heard &&
                       n_tokens <= 1 + guesses && now->second.n_computed - n_heard == was.n_tokens - 1;
  if (!stays && !enters && !resumes) {
    fail(name + " had " + std::to_string(was.running ? was.n_computed : 0) + " tokens computed, was granted " +
         std::to_string(n_tokens) + " and has " + std::to_string(now->second.n_computed));
  }
}

// Under fcfs: of the tenants' oldest the one that has been it for longest. Under priority, with one tenant: the most
// urgent of those that run. Null: nobody, or no promise is given.
const Stream* Books::first() const {
  const Stream* first = nullptr;
  bool alone = true;
  for (const auto& [id, turn] : turns_) {
    const Stream& stream = *live_.at(id);
    alone &= stream.script->tenant == live_.at(turns_.begin()->first)->script->tenant;
    const bool before =
        first == nullptr || (knobs_.policy == "fcfs" ? by_weight(id) < by_weight(first->seq)
                                                     : stream.script->priority < first->script->priority);
    if (before && (knobs_.policy == "fcfs" || ran(id))) first = &stream;
  }
  return knobs_.policy == "fcfs" || (knobs_.policy == "priority" && alone) ? first : nullptr;
}

Turn Books::by_weight(SeqId id) const {
  Turn out = turns_.at(id);
  out.n_ahead = out.n_ahead * kMostWeight / live_.at(id)->script->weight;
  return out;
}

bool Books::ran(SeqId id) const {
  const auto was = before_.find(id);
  return was != before_.end() && was->second.running;
}

// Under deadlines, of one tenant: nobody begins to run while one waits that was due before.
void Books::check_deadlines(const Views& after) {
  if (knobs_.policy != "deadlines") return;
  const auto due = [this](SeqId id) {
    const int64_t own = live_.at(id)->script->deadline_ns;
    return live_.at(id)->submitted_ns + (own > 0 ? own : kUsualDeadlineNs);
  };
  for (const auto& [id, n] : grants_) {
    if (ran(id) || !live_.contains(id)) continue;
    for (const auto& [other, stream] : live_) {
      const auto now = after.find(other);
      const bool waits = now != after.end() && !now->second.running && !ran(other);
      if (waits && stream->script->tenant == live_.at(id)->script->tenant && due(other) < due(id)) {
        fail(stream->name() + " waits, is due before sequence " + std::to_string(id) + " and was passed by it");
      }
    }
  }
}

// Somebody gets something in every step: the first, or one that computes what it needs too.
void Books::check_progress(const Views& after) {
  // Who was cancelled left before the step's plan.
  for (auto& [id, stream] : live_) {
    if (stream->cancelled && stream->finish == Finish::cancelled) left(*stream);
  }
  const bool any_loads = std::ranges::any_of(live_, [this](const auto& entry) { return loads(*entry.second); });
  for (const auto& [id, stream] : live_) {
    if (!stream->cancelled && stream->error != kTooLate && grants_.empty() && !any_loads)
      fail(stream->name() + " is there and nobody got anything");
  }
  const Stream* first = this->first();
  // Who waits for what comes for another has it a step later.
  if (first == nullptr || first->cancelled || loads(*first) || loading_before_.contains(first->seq)) return;
  const auto now = after.find(first->seq);
  const bool waits = now != after.end() && !now->second.running;
  // Whoever comes in may have to wait until there is room for all that run, as they grow.
  if (waits && !ran(first->seq) && knobs_.recompute_percent < 100) return;
  if (waits) failure_.set(first->name() + " is the first and was sent back");
  if (!moves(*first)) failure_.set(first->name() + " is the first and got nothing");
}

bool Books::moves(const Stream& stream) const {
  if (grants_.contains(stream.seq)) return true;
  const auto was = before_.find(stream.seq);
  const int n_had = was == before_.end() || !was->second.running ? 0 : was->second.n_computed;
  return std::any_of(grants_.begin(), grants_.end(), [&](const auto& grant) {
    const auto other = live_.find(grant.first);
    return other != live_.end() && n_common(*other->second, stream) > n_had;
  });
}

void Books::check_live(const Snapshot& now) {
  if (now.seqs.size() != live_.size()) {
    fail("the engine has " + std::to_string(now.seqs.size()) + " sequences, " + std::to_string(live_.size()) + " live");
  }
  int n_running = 0;
  for (const SequenceView& view : now.seqs) {
    const auto at = live_.find(view.id);
    const std::string name = "sequence " + std::to_string(view.id);
    if (at == live_.end()) return fail(name + " is in the engine and should not be");
    n_running += view.running ? 1 : 0;
    const int n_heard = view.n_tokens - view.n_prompt;
    if (n_heard != static_cast<int>(at->second->n_heard)) fail(name + ": what it has and what was heard differ");
    if (view.n_computed >= view.n_tokens) fail(name + " has nothing pending and has not ended");
    const int least = (view.n_computed + knobs_.block_tokens - 1) / knobs_.block_tokens;
    const int most = (view.n_tokens + knobs_.block_tokens - 1) / knobs_.block_tokens;
    if (view.running ? view.n_blocks < least || view.n_blocks > most : view.n_blocks + view.n_computed > 0) {
      fail(name + (view.running ? " runs with " : " waits with ") + std::to_string(view.n_blocks) + " blocks for " +
           std::to_string(view.n_computed) + " tokens");
    }
  }
  check_windows(now);
  if (n_running > knobs_.max_seqs) fail(std::to_string(n_running) + " sequences run: over max_seqs");
}

// Between steps a sequence has the blocks that its next row reads, its sinks and its window, and no more than these
// take wherever a block begins, however long it is: what lies between is given back.
void Books::check_windows(const Snapshot& now) {
  const KvGroup window{KvGroup::Kind::window, knobs_.window, knobs_.n_sinks};
  const int64_t most = knobs_.window > 0 ? window.most_blocks(1, knobs_.block_tokens) : 0;
  for (const SequenceView& view : now.seqs) {
    const int first = window.first_block(view.n_computed, knobs_.block_tokens);
    const int n_kept = std::min(window.kept_blocks(knobs_.block_tokens), first);
    const int least = knobs_.window > 0 && view.running ? n_kept + view.n_blocks - first : 0;
    if (view.n_window_blocks < least || view.n_window_blocks > most) {
      fail("sequence " + std::to_string(view.id) + " has " + std::to_string(view.n_window_blocks) + " blocks and not " +
           std::to_string(least) + " to " + std::to_string(most) + " for " + std::to_string(knobs_.n_sinks) +
           " sinks and a window of " + std::to_string(knobs_.window));
    }
    n_apart_ += n_kept > 0 && n_kept < first && view.running ? 1 : 0;
  }
}

void Books::ended(const Stream& stream) {
  check_end(stream);
  check_hit(stream);
  left(stream);
  live_.erase(stream.seq);
}

void Books::check_end(const Stream& stream) {
  const bool complete = stream.n_heard == stream.truth.tokens.size();
  const bool failed = stream.finish == Finish::error;
  if (stream.cancelled != (stream.finish == Finish::cancelled)) fail(stream.name() + " was cancelled, or says so");
  // What is out of memory may be a rule of its own.
  const bool no_memory = stream.error == kNoMemory && (stream.step_threw || stream.script->fault == RowFault::none);
  if (stream.step_threw != (failed && (no_memory || stream.error.starts_with("the step failed")))) {
    fail(stream.name() + " is part of a step that threw, or says so: " + stream.error);
  }
  if (failed && stream.error.empty()) fail(stream.name() + " fails without a reason");
  const bool late = failed && stream.error == kTooLate;
  if (late && (knobs_.policy != "deadlines" || stream.script->deadline_ns == 0 || stream.usage.cost.n_computed() > 0)) {
    fail(stream.name() + " is refused for a deadline that it has not, or after something was computed for it");
  }
  const bool by_itself = !stream.cancelled && !stream.step_threw && !late;
  if (by_itself && (stream.finish != stream.truth.finish || !complete)) {
    fail(stream.name() + " ends as " + std::to_string(static_cast<int>(stream.finish)) + " after " +
         std::to_string(stream.n_heard) + " tokens, its reference as " +
         std::to_string(static_cast<int>(stream.truth.finish)) + " after " +
         std::to_string(stream.truth.tokens.size()) + " " + stream.error);
  }
  const bool by_rule = stream.script->end_after > 0 && static_cast<int>(stream.n_heard) == stream.script->end_after;
  const int n_end = stream.finish == Finish::stop && !by_rule ? 1 : 0;  // a stop id, which nobody hears
  if (stream.usage.n_generated != static_cast<int>(stream.n_heard) + n_end) {
    fail(stream.name() + ": usage counts other tokens");
  }
}

// What came from the cache must have been put there under the same salt.
void Books::check_hit(const Stream& stream) {
  const int n_cached = stream.usage.n_cached;
  if (n_cached == 0) return;
  const int n_prompt = stream.usage.n_prompt;
  if (!knobs_.prefix_cache) fail(stream.name() + " has a prefix hit without a prefix cache");
  if (n_cached >= n_prompt) {
    return fail(stream.name() + " has " + std::to_string(n_cached) + " of " + std::to_string(n_prompt) +
                " tokens cached");
  }
  if (n_cached < grain()) return;
  const auto last = static_cast<size_t>(n_cached / grain()) - 1;
  const bool own = cached_[paths(stream, stream.script->salt)[last]] >= 2;
  if (!own && (last >= n_public_grains(stream) || cached_[paths(stream, 0)[last]] < 2)) {
    fail(stream.name() + " found " + std::to_string(n_cached) + " tokens that nobody of its salt brought in");
  }
}

}  // namespace quire::sim
