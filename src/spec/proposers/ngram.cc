// What came after these words before will come after them again (prompt lookup: Saxena 2023; n-gram drafts of vLLM and
// llama.cpp). The last few tokens are looked up among all that the sequence has, prompt and answer, the longest run
// first and of its places the latest; what followed there is the draft. A run that repeats itself is followed round and
// round.
//
// Each sequence has an index from the hash of a run to where its latest occurrence ends, filled as its tokens come: a
// token costs three insertions, a step as many look-ups, whatever the length. Places in the index are probed
// kMostProbes times at most, and what does not fit then is forgotten, so nobody can choose tokens that make it slow. It
// takes 24 to 48 bytes for a token of who runs or was sent back; the tokens themselves are the engine's.
#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "spec/proposer.h"

namespace quire {
namespace {

constexpr size_t kLongest = 4, kShortest = 2;  // tokens of a run
constexpr int kMostProbes = 16;
constexpr size_t kLeastSlots = 64;
constexpr size_t kMostTaken =
    size_t{1} << 14;  // tokens of a sequence that a step takes in: a long prompt takes several

// Runs of n tokens and where their latest occurrence ends. Holds ends alone: what stands there is asked of the context.
class RunIndex {
 public:
  explicit RunIndex(size_t n) : n_(n) {}

  // REQUIRES rising ends, each with n tokens before it.
  void add(std::span<const Token> context, size_t end) {
    if (2 * (n_used_ + 1) > slots_.size()) grow(context);
    put(context, end);
  }
  // Where the last n tokens of the context stood before; 0: nowhere.
  size_t find(std::span<const Token> context) const {
    if (slots_.empty() || context.size() < n_) return 0;
    const size_t at = probe(context, context.size());
    return at == kNone ? 0 : slots_[at];
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  uint64_t hash(std::span<const Token> context, size_t end) const {
    uint64_t h = n_;
    for (size_t i = end - n_; i < end; ++i) h = mix64(h ^ static_cast<uint64_t>(context[i]));
    return h;
  }
  bool same(std::span<const Token> context, size_t a, size_t b) const {
    const auto run = [&](size_t end) { return context.begin() + static_cast<std::ptrdiff_t>(end - n_); };
    return std::equal(run(a), run(a) + static_cast<std::ptrdiff_t>(n_), run(b));
  }
  // The slot of that run, or the one that is free for it.
  size_t probe(std::span<const Token> context, size_t end) const {
    const size_t mask = slots_.size() - 1;
    size_t at = hash(context, end) & mask;
    for (int i = 0; i < kMostProbes; ++i, at = (at + 1) & mask) {
      if (slots_[at] == 0 || same(context, slots_[at], end)) return at;
    }
    return kNone;
  }
  void put(std::span<const Token> context, size_t end) {
    const size_t at = probe(context, end);
    if (at == kNone) return;
    n_used_ += slots_[at] == 0 ? 1 : 0;
    slots_[at] = static_cast<uint32_t>(end);
  }
  void grow(std::span<const Token> context) {
    std::vector<uint32_t> ends(std::max(kLeastSlots, 2 * slots_.size()));
    std::swap(ends, slots_);
    n_used_ = 0;
    for (const uint32_t end : ends) {
      if (end != 0) put(context, end);
    }
  }

  size_t n_;
  std::vector<uint32_t> slots_;  // ends, 0: free; a power of two
  size_t n_used_ = 0;
};

class Known {
 public:
  // Takes in what is new of the context; the token behind a run must be there too. False: there is more of it.
  bool extend(std::span<const Token> context) {
    const size_t end = std::min(context.size(), n_ + kMostTaken);
    for (; n_ < end; ++n_) {
      for (size_t n = kShortest; n <= std::min(kLongest, n_); ++n) runs_[n - kShortest].add(context, n_);
    }
    return n_ == context.size();
  }
  // Where the longest run that ends the context stood before; 0: nowhere.
  size_t find(std::span<const Token> context) const {
    for (size_t i = runs_.size(); i-- > 0;) {
      if (const size_t end = runs_[i].find(context); end > 0) return end;
    }
    return 0;
  }

 private:
  std::array<RunIndex, kLongest - kShortest + 1> runs_{RunIndex(2), RunIndex(3), RunIndex(4)};
  size_t n_ = 0;  // ends below it are taken in
};

class Ngram final : public Proposer {
 public:
  explicit Ngram(int max_draft) : max_draft_(max_draft) {}
  int max_draft() const override { return max_draft_; }

  // Nothing where these words are new: what is found is all that may be asked for.
  int most(const Draft& asked) override { return find(asked) > 0 ? asked.max_tokens : 0; }

  void propose(std::span<Draft> drafts) override {
    for (Draft& draft : drafts) {
      const size_t end = find(draft);
      const size_t n = draft.context.size();
      for (size_t i = 0; end > 0 && i < static_cast<size_t>(draft.max_tokens); ++i) {
        const size_t from = end + i;
        draft.tokens.push_back(from < n ? draft.context[from] : draft.tokens[from - n]);
      }
    }
  }
  void forget(SeqId id) override { known_.erase(id); }

 private:
  // Where the longest run that ends its context stood before; 0: nowhere, or not all of the context is taken in yet.
  size_t find(const Draft& draft) {
    Known& known = known_[draft.seq];
    return known.extend(draft.context) ? known.find(draft.context) : 0;
  }

  const int max_draft_;
  std::unordered_map<SeqId, Known> known_;
};

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv&) {
  return std::make_unique<Ngram>(options.max_draft);
}
QR_REGISTER(ProposerEntry, "ngram", {make});

}  // namespace
}  // namespace quire
