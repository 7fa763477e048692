// The tiers below memory, nearest first, as one. What memory has computed or gives up goes to each that wants it; a
// path's block is brought by the nearest that has it. What a tier does not know by itself is asked of it, and of the
// blocks alone that no nearer one has. The engine's thread; ends before its tiers.
#pragma once
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "kv/tiers/tier.h"

namespace quire {

// Which tier brings each block of a path, and with which groups, up to the first that none has.
struct TierPath {
  std::vector<uint8_t> groups, tiers;
  size_t size() const { return groups.size(); }
  void cut(size_t n) {
    groups.resize(n);
    tiers.resize(n);
  }
};

// A path whose blocks are looked for. Its end lets go of what tiers were asked.
class TierSearch {
 public:
  TierSearch() = default;
  ~TierSearch() {
    for (const auto& answer : answers_) {
      if (answer != nullptr) answer->abandon();
    }
  }
  TierSearch(const TierSearch&) = delete;
  TierSearch& operator=(const TierSearch&) = delete;

  // All that were asked have told.
  bool over() const;

 private:
  friend class TierChain;
  std::vector<Hash128> names_;
  std::vector<std::shared_ptr<TierAnswer>> answers_;  // by tier; null: it was not asked
  std::vector<size_t> begins_;                        // of what it was asked, among the names
};

class TierChain {
 public:
  TierChain() = default;
  explicit TierChain(std::vector<std::shared_ptr<Tier>> tiers) : tiers_(std::move(tiers)) {}
  TierChain(const TierChain&) = delete;
  TierChain& operator=(const TierChain&) = delete;

  bool empty() const { return tiers_.empty(); }
  size_t size() const { return tiers_.size(); }
  TierPlace place(size_t tier) const { return tiers_[tier]->place(); }

  // As Tier::retain, of all.
  int retain(std::span<const NamedWish> wishes, int64_t now_ns);
  // Copies a block whose bytes lie in `memory` for those who want it. Whether any has it or is going to: who is given
  // it once a device's copy is there may refuse it then.
  bool offer(const LeavingBlock& block, const KvView& memory);
  // Gives the tiers what has been copied since; with `waits`, all that was offered.
  void settle(bool waits);
  // The nearest tier that knows it has the block in all these groups; size(): none.
  size_t find(const Hash128& name, uint8_t groups) const;

  // Begins to look for a path's blocks. Tiers whose answer would take longer than most_ns are not asked.
  std::unique_ptr<TierSearch> search(std::span<const Hash128> names, int64_t most_ns);
  // What is known of them by now.
  TierPath found(const TierSearch& search) const;
  // How long these blocks would take; 0: unknown yet.
  int64_t predict_ns(std::span<const uint8_t> tiers) const;
  // Begins to bring them; tiers[i] brings block i.
  std::shared_ptr<TierRead> read(std::vector<Spelling> wanted, std::span<const uint8_t> tiers);

  void on_arrival(const std::function<void()>& call);
  // Behind settle(true), while what was offered is still there.
  void stop();
  std::vector<TierStats> stats() const;  // any thread

 private:
  // A block that a device copies.
  struct Offered {
    Spelling spelling;
    TierBlock block;
    std::vector<size_t> tiers;  // that want it
    Copier* copier = nullptr;
    int64_t copy = Copier::kDone;
  };
  bool give(Offered& offered);

  const std::vector<std::shared_ptr<Tier>> tiers_;
  std::deque<Offered> offered_;  // in the order of their copies; few, for what a copier has under way is bounded
};

}  // namespace quire
