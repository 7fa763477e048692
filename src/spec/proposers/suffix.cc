// What came after these words before, in this text or in answers that were written under the same salt (suffix
// decoding: Oliaro et al. 2024, "SuffixDecoding: Extreme Speculative Decoding for Emerging AI Applications"). Agents
// and pipelines ask much the same again and again; what was answered then stands here even where the prompt is new.
//
// The places where the last words stood before go along the guess while they agree: each next token is the one that
// most of them have, and the guess ends where too few are left that do, or when it is twice as long as the words that
// led to it. So it is long where the past is clear and short where it is not.
//
// There a suffix tree holds the past. Here each run of kRun tokens points to the one before it that has its hash, and
// kMostPlaces of these are looked at, so a token costs one insertion and a step a bounded number of comparisons,
// whatever anybody's tokens are. Twelve bytes for a token, at most twice: of all of who runs or was sent back, and of
// the last kKept that were answered under each of kMostSalts salts.
#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "spec/proposer.h"

namespace quire {
namespace {

constexpr size_t kRun = 3;                 // tokens of a run
constexpr size_t kMostPlaces = 16;         // that are looked at, of a text and of the answers each
constexpr size_t kLongest = 32;            // tokens that are compared
constexpr size_t kEnough = 8;              // who agrees in so many votes with who agrees in more
constexpr double kLeastShare = 0.3;        // of the places: how many still agree where a guess goes on
constexpr size_t kLead = 16;               // last tokens of a prompt that are kept with an answer
constexpr size_t kKept = size_t{1} << 16;  // tokens of answers of a salt
constexpr size_t kMostSalts = 16;          // of which answers are kept
constexpr size_t kMostTaken =
    size_t{1} << 14;  // tokens of a sequence that a step takes in, and of an answer that are kept
constexpr size_t kLeastRoom = 64;
constexpr Token kBetween = -1;  // two answers

// Tokens one behind the other, and where their runs stood before. The last `most` of them, which is a power of two.
class Past {
 public:
  explicit Past(size_t most) : most_(most) {}

  uint64_t size() const { return n_; }
  uint64_t begin() const { return n_ > tokens_.size() ? n_ - tokens_.size() : 0; }
  // REQUIRES begin() ≤ at < size().
  Token at(uint64_t at) const { return tokens_[at & mask()]; }

  void push(Token token) {
    if (n_ == tokens_.size() && tokens_.size() < most_) grow();
    put(token);
  }
  // Ends of earlier runs that may be the context's last one, the latest first, each with a token behind it.
  template <class Each>
  void each_place(std::span<const Token> context, const Each& each) const {
    if (tokens_.empty() || context.size() < kRun) return;
    uint64_t end = of_slot(latest_[slot(&context[context.size() - kRun])]);
    for (size_t n_seen = 0; n_seen < kMostPlaces && end >= begin() + kRun;) {
      if (end < n_) {
        each(end);
        ++n_seen;
      }
      const uint32_t back = back_[end & mask()];
      if (back == 0 || back > end) return;
      end -= back;
    }
  }
  // How many tokens before `end` are the context's last ones, kLongest at most.
  size_t agreed(std::span<const Token> context, uint64_t end) const {
    const size_t most = std::min({kLongest, context.size(), static_cast<size_t>(end - begin())});
    size_t n = 0;
    while (n < most && at(end - 1 - n) == context[context.size() - 1 - n]) ++n;
    return n;
  }

 private:
  size_t mask() const { return tokens_.size() - 1; }
  size_t slot(const Token* run) const {
    uint64_t h = kRun;
    for (size_t i = 0; i < kRun; ++i) h = mix64(h ^ static_cast<uint64_t>(run[i]));
    return h & mask();
  }
  // Slots hold the low half of an end; what they hold of long ago lies before begin().
  uint64_t of_slot(uint32_t low) const {
    const uint32_t back = static_cast<uint32_t>(n_) - low;
    return low == 0 || back > n_ ? 0 : n_ - back;
  }
  void put(Token token) {
    tokens_[n_ & mask()] = token;
    ++n_;
    back_[n_ & mask()] = 0;
    if (n_ < begin() + kRun) return;
    std::array<Token, kRun> run;
    for (size_t i = 0; i < kRun; ++i) run[i] = at(n_ - kRun + i);
    uint32_t& latest = latest_[slot(run.data())];
    const uint64_t before = of_slot(latest);
    back_[n_ & mask()] = before < begin() + kRun ? 0 : static_cast<uint32_t>(n_ - before);
    latest = static_cast<uint32_t>(n_);
  }
  void grow() {
    const size_t room = std::max(kLeastRoom, 2 * tokens_.size());
    std::vector<Token> tokens(room);
    std::vector<uint32_t> back(room), latest(room);
    tokens.swap(tokens_);
    back.swap(back_);
    latest.swap(latest_);
    n_ = 0;
    for (const Token token : tokens) put(token);
  }

  size_t most_;
  uint64_t n_ = 0;  // ever pushed
  std::vector<Token> tokens_;
  std::vector<uint32_t> back_;    // of each end: how far back the last one is of a run in the same slot; 0: none
  std::vector<uint32_t> latest_;  // of each slot the latest end; 0: none
};

// What a sequence has, and what becomes of it.
struct Known {
  Past text{size_t{1} << 31};
  uint64_t salt = 0;
  size_t n_prompt = 0;
};

struct Answers {
  Past text{kKept};
  uint64_t used = 0;
};

struct Place {
  const Past* in;
  uint64_t at;  // its next token
};

class Suffix final : public Proposer {
 public:
  explicit Suffix(int max_draft) : max_draft_(max_draft) {}
  int max_draft() const override { return max_draft_; }

  int most(const Draft& asked) override {
    guess(asked, found_);
    return static_cast<int>(found_.size());
  }
  void propose(std::span<Draft> drafts) override {
    for (Draft& draft : drafts) guess(draft, draft.tokens);
  }
  void forget(SeqId id) override {
    const auto at = known_.find(id);
    if (at == known_.end()) return;
    try {
      keep(at->second);
    } catch (...) {  // no memory: these are guesses alone
      answers_.erase(at->second.salt);
    }
    known_.erase(at);
  }

 private:
  void guess(const Draft& asked, std::vector<Token>& out) {
    out.clear();
    Known& known = known_[asked.seq];
    known.salt = asked.salt;
    known.n_prompt = static_cast<size_t>(asked.n_prompt);
    const size_t have = known.text.size(), want = std::min(asked.context.size(), have + kMostTaken);
    for (size_t i = have; i < want; ++i) known.text.push(asked.context[i]);
    if (want < asked.context.size()) return;
    const size_t longest = find_places(asked.context, known);
    const auto most = std::min(static_cast<size_t>(asked.max_tokens), 2 * longest);
    const double least = kLeastShare * static_cast<double>(places_.size());
    while (out.size() < most) {
      const Token next = vote(known.text, out);
      if (next == kBetween || static_cast<double>(places_.size()) < least) return;
      out.push_back(next);
    }
  }

  // The places that agree longest, or long enough; how long the longest.
  size_t find_places(std::span<const Token> context, Known& known) {
    const auto answered = answers_.find(known.salt);
    size_t longest = 0;
    places_.clear();
    const auto look = [&](const Past& past, const auto& each) {
      past.each_place(context, [&](uint64_t end) { each(past, end, past.agreed(context, end)); });
    };
    const auto look_at_all = [&](const auto& each) {
      look(known.text, each);
      if (answered != answers_.end()) look(answered->second.text, each);
    };
    look_at_all([&](const Past&, uint64_t, size_t n) { longest = std::max(longest, n); });
    if (longest < kRun) return 0;
    const size_t least = std::min(longest, kEnough);
    look_at_all([&](const Past& past, uint64_t end, size_t n) {
      if (n >= least) places_.push_back({&past, end});
    });
    if (answered != answers_.end()) answered->second.used = ++now_;
    return longest;
  }

  // The next token of most places, of the earlier of two that as many have; these places go on, behind it. kBetween:
  // nobody has one. What the own text has not yet is what was guessed.
  Token vote(const Past& own, const std::vector<Token>& guessed) {
    const auto next = [&](const Place& place) {
      if (place.at < place.in->size()) return place.in->at(place.at);
      const uint64_t behind = place.at - place.in->size();
      return place.in == &own && behind < guessed.size() ? guessed[behind] : kBetween;
    };
    Token best = kBetween;
    int64_t n_best = 0;
    for (const Place& place : places_) {
      const Token token = next(place);
      if (token == kBetween || token == best) continue;
      const int64_t n = std::ranges::count(places_, token, next);
      if (n > n_best) {
        best = token;
        n_best = n;
      }
    }
    std::erase_if(places_, [&](const Place& place) { return next(place) != best; });
    for (Place& place : places_) ++place.at;
    return best;
  }

  void keep(const Known& known) {
    const uint64_t n = known.text.size();
    if (n <= known.n_prompt) return;
    if (!answers_.contains(known.salt) && answers_.size() == kMostSalts) {
      answers_.erase(std::ranges::min_element(answers_, {}, [](const auto& entry) { return entry.second.used; }));
    }
    Answers& to = answers_[known.salt];
    to.used = ++now_;
    to.text.push(kBetween);
    const uint64_t lead = known.n_prompt - std::min(known.n_prompt, kLead);
    for (uint64_t i = std::max(lead, n - std::min<uint64_t>(n, kMostTaken)); i < n; ++i) to.text.push(known.text.at(i));
  }

  const int max_draft_;
  uint64_t now_ = 0;
  std::unordered_map<SeqId, Known> known_;
  std::unordered_map<uint64_t, Answers> answers_;  // by salt
  std::vector<Place> places_;
  std::vector<Token> found_;
};

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv&) {
  return std::make_unique<Suffix>(options.max_draft);
}
QR_REGISTER(ProposerEntry, "suffix", {make});

}  // namespace
}  // namespace quire
