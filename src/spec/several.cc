#include "spec/several.h"

#include <algorithm>
#include <unordered_map>

namespace quire {
namespace {

class Several final : public Proposer {
 public:
  explicit Several(std::vector<std::unique_ptr<Proposer>> all) : all_(std::move(all)), asked_(all_.size()) {
    for (const auto& each : all_) {
      taps_.insert(taps_.end(), each->taps().begin(), each->taps().end());
      all_rows_.insert(all_rows_.end(), each->all_rows().begin(), each->all_rows().end());
    }
    std::ranges::stable_sort(all_rows_, {}, &StreamTap::n_layers);
  }

  int max_draft() const override {
    int most = 0;
    for (const auto& each : all_) most = std::max(most, each->max_draft());
    return most;
  }

  int max_side() const override {
    int most = 0;
    for (const auto& each : all_) most = std::max(most, each->max_side());
    return most;
  }
  std::span<const Tap> taps() const override { return taps_; }
  std::span<const StreamTap> all_rows() const override { return all_rows_; }

  bool writes_ahead() const override {
    return std::ranges::any_of(all_, [](const auto& each) { return each->writes_ahead(); });
  }

  void write_into(const KvView& kv) override {
    for (const auto& each : all_) {
      if (each->writes_ahead()) each->write_into(kv);
    }
  }

  int most(const Draft& draft) override {
    size_t& by = by_[draft.seq];
    for (by = 0; by < all_.size(); ++by) {
      if (const int n = all_[by]->most(draft); n > 0) return std::min(n, all_[by]->max_draft());
    }
    by = 0;
    return 0;
  }

  // Each gets its drafts in one piece: they change places with empty ones of its list and come back.
  void propose(std::span<Draft> drafts) override {
    for (size_t by = 0; by < all_.size(); ++by) {
      std::vector<Draft>& own = asked_[by];
      size_t n = 0;
      own.resize(std::max(own.size(), drafts.size()));
      const Back back{drafts, own};
      for (Draft& draft : drafts) {
        if (place_of(draft.seq) == by) std::swap(draft, own[n++]);
      }
      for (Draft& draft : std::span(own).first(n)) draft.max_side = std::min(draft.max_side, all_[by]->max_side());
      if (n > 0) all_[by]->propose(std::span(own).first(n));
      for (size_t i = 0; i < n; ++i) own[i].by = static_cast<int>(by);
    }
  }
  void observe(std::span<const Verified> verified) override {
    for (const auto& each : all_) each->observe(verified);
  }
  void forget(SeqId id) override {
    by_.erase(id);
    for (const auto& each : all_) each->forget(id);
  }

 private:
  // Also where one throws: what is empty is not of a sequence.
  struct Back {
    std::span<Draft> drafts;
    std::vector<Draft>& own;
    ~Back() {
      size_t n = 0;
      for (Draft& draft : drafts) {
        if (draft.seq == 0) std::swap(draft, own[n++]);
      }
    }
  };

  size_t place_of(SeqId id) const {
    const auto at = by_.find(id);
    return at == by_.end() ? 0 : at->second;
  }

  const std::vector<std::unique_ptr<Proposer>> all_;
  std::vector<Tap> taps_;                  // of all of them
  std::vector<StreamTap> all_rows_;        // likewise
  std::vector<std::vector<Draft>> asked_;  // by proposer; empty between calls, kept for their room
  std::unordered_map<SeqId, size_t> by_;
};

}  // namespace

Result<std::unique_ptr<Proposer>> make_proposers(std::string_view list,
                                                 const ProposerOptions& options,
                                                 const ProposerEnv& env) {
  const std::vector<std::string> names = proposer_names(list);
  if (names.size() > kMostProposers) {
    return fail(Code::invalid,
                "at most " + std::to_string(kMostProposers) + " proposers, got " + std::to_string(names.size()));
  }
  std::vector<std::unique_ptr<Proposer>> all;
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      return fail(Code::invalid, "proposer \"" + names[i] + "\" is named twice");
    QR_TRY(const ProposerEntry* entry, find_entry<ProposerEntry>("proposer", names[i]));
    QR_TRY(all.emplace_back(), entry->make(options, env));
  }
  if (all.size() == 1) return std::move(all.front());
  return std::make_unique<Several>(std::move(all));
}

int64_t proposer_bytes(std::string_view list, const ProposerOptions& options, const ProposerEnv& env) {
  int64_t sum = 0;
  for (const std::string& name : proposer_names(list)) {
    const ProposerEntry* entry = Registry<ProposerEntry>::get().find(name);
    if (entry != nullptr && entry->bytes != nullptr) sum += entry->bytes(options, env);
  }
  return sum;
}

}  // namespace quire
