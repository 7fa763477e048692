// The bookkeeper of a run: what must hold of the engine after every step, told from its snapshots, its grants and the
// batches, against what the script says. The first thing that does not hold is set as the run's failure.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/policy.h"
#include "tests/sim/recomputed.h"
#include "tests/sim/service.h"
#include "tests/sim/stream.h"

namespace quire::sim {

class Books {
 public:
  Books(const Script& script, Failure& failure)
      : knobs_(script.knobs), failure_(failure), service_(script, failure), recomputed_(script.knobs, failure) {}

  // Whether a tier brings something of a stream's past: such a one may stand still.
  void tier(std::function<bool(const Stream&)> loads) { loads_ = std::move(loads); }
  // What another run of the same requests made cached, in a store that both share.
  void shares_store_with(const Books& other) { cached_ = other.cached_; }
  // Of those that waited for a tier: how many were sent back.
  int64_t n_preempted_loading() const { return n_preempted_loading_; }
  int64_t n_apart() const { return n_apart_; }  // as Counts::apart

  // `stream` lives until ended().
  void submitted(const Stream& stream);
  void before_step(Snapshot before);
  void grant(SeqId id, int n_tokens) { grants_[id] += n_tokens; }
  void pass(const Batch& batch);
  // `n_rows`: computed by all passes so far that did not throw.
  void after_step(const Snapshot& after, int64_t n_rows);
  void ended(const Stream& stream);
  void check_live(const Snapshot& now);

  const std::map<SeqId, int>& grants() const { return grants_; }
  const Service& service() const { return service_; }
  const Recomputed& recomputed() const { return recomputed_; }

 private:
  using Views = std::unordered_map<SeqId, SequenceView>;

  void fail(std::string text) { failure_.set(std::move(text)); }
  void check_grant(SeqId id, int n_tokens, const Views& after, bool preempted);
  const Stream* first() const;
  void left(const Stream& gone);
  bool ran(SeqId id) const;
  bool loads(const Stream& stream) const { return loads_ && loads_(stream); }
  Turn by_weight(SeqId id) const;
  void check_turn(SeqId id, bool decodes, bool preempted);
  void count_service(const Views& after);
  void check_progress(const Views& after);
  void check_deadlines(const Views& after);
  // Whether it was granted something, or another that shares more of its past than it has.
  bool moves(const Stream& stream) const;
  void check_windows(const Snapshot& now);
  void check_end(const Stream& stream);
  void check_hit(const Stream& stream);
  // Tokens from one path to the next: one, but whole blocks where contexts are long.
  int grain() const { return knobs_.n_ctx <= 1024 ? 1 : knobs_.block_tokens; }
  // Hashes of what this stream makes cached, its prompt and then its answer, up to every grain, for a salt.
  std::vector<uint64_t> paths(const Stream& stream, uint64_t salt) const;
  // How many of them others may find whatever their salt: whole blocks of public tokens.
  size_t n_public_grains(const Stream& stream) const;

  const Knobs& knobs_;
  Failure& failure_;
  Service service_;
  Recomputed recomputed_;
  std::map<SeqId, const Stream*> live_;
  std::map<SeqId, Turn> turns_;  // of those that have not left
  int64_t n_steps_ = 0;
  Views before_;
  std::function<bool(const Stream&)> loads_;
  std::set<SeqId> loading_before_;
  int64_t n_preempted_loading_ = 0, n_apart_ = 0;
  int64_t preempted_before_ = 0;
  std::map<SeqId, int> grants_;
  std::unordered_map<SeqId, int> n_paused_;   // steps since it streamed
  std::unordered_map<uint64_t, int> cached_;  // salted path → how many streams lead there
};

}  // namespace quire::sim
