// An EAGLE-3 head guesses (Li et al. 2025): one decoder layer that goes on from the target's own states, token after
// token. The target's pass leaves states of all its rows in memory of this proposer (StreamTap). The head has keys and
// values of its own, in a pool of its own without a prefix tree: its past of a sequence begins with the rows of the
// step before it was first asked, the end of a prompt as a rule, and begins anew where steps went by in which nobody
// guessed, or the sequence was preempted. So it computes nothing where nobody guesses, and a hit takes nothing away.
// Every round of guesses is one pass over all sequences that still want one; each takes its likeliest token.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "spec/draft_pass.h"
#include "spec/drawn_alike.h"
#include "spec/eagle_pass.h"
#include "spec/proposer.h"

namespace quire {
namespace {

// What the head has computed of a sequence: the rows of the tokens [begin, end) of its context and those behind them.
struct Past {
  SeqKv kv;
  int begin = 0, end = 0;
  uint64_t call = 0;  // of propose() that last asked for it
};

class Eagle final : public Proposer {
 public:
  struct Memory {
    std::vector<Buffer> blocks;
    Buffer pass;
  };
  Eagle(int max_draft, const ProposerEnv& env, const EaglePass::Size& size, Memory memory)
      : max_draft_(max_draft),
        size_(size),
        cache_(env.eagle->kv_layout, std::move(memory.blocks), {env.block_tokens, env.n_blocks, false, nullptr, 0}),
        pass_(*env.eagle, *env.target, *env.ops, size, std::move(memory.pass)) {}

  int max_draft() const override { return max_draft_; }
  std::span<const StreamTap> all_rows() const override { return pass_.tapped(); }

  void propose(std::span<Draft> drafts) override {
    ++call_;
    rows_.clear();
    wanting_.clear();
    for (Draft& draft : drafts) pasts_[draft.seq].call = call_;
    int room = size_.n_rows;
    // Few rows first: a prompt that fills a pass would end the pasts of those behind it.
    for (const bool few : {true, false}) {
      for (Draft& draft : drafts) {
        if ((draft.n_rows <= kFewRows) == few) room -= begin(draft, pasts_[draft.seq], room);
      }
    }
    for (bool first = true; !wanting_.empty(); first = false) write_on(first);
  }

  void forget(SeqId id) override {
    const auto at = pasts_.find(id);
    if (at == pasts_.end()) return;
    cache_.release(at->second.kv);
    pasts_.erase(at);
  }

 private:
  struct Wanting {
    Draft* draft;
    Past* past;
  };

  // Takes in what the target computed in the step before, the last `room` rows of it; how many these are. A row is of
  // the token behind the one whose states it reads, so its last one is the due token's.
  int begin(Draft& draft, Past& past, int room) {
    const int end = static_cast<int>(draft.context.size()), n = std::min({draft.n_rows, room, end - 1});
    if (n <= 0) return 0;
    if (past.kv.table.empty() || past.end != end - n) {
      cache_.release(past.kv);
      past.begin = past.end = end - n;
    }
    const int n_before = past.end - past.begin;
    cache_.truncate(past.kv, n_before);
    if (!grow(past, n_before + n)) return 0;
    draft.n_behind = n - 1;
    rows_.push_back(
        {&past.kv, n_before, draft.context.last(static_cast<size_t>(n)), draft.first_row + draft.n_rows - n});
    wanting_.push_back({&draft, &past});
    return n;
  }

  // Room for n rows in all, taken from those that are not asked for now.
  bool grow(Past& past, int n) {
    if (n > size_.n_ctx) return false;
    if (cache_.grow(past.kv, n)) return true;
    for (auto& [id, other] : pasts_) {
      if (other.call == call_ || other.kv.table.empty()) continue;
      cache_.release(other.kv);
      if (cache_.grow(past.kv, n)) return true;
    }
    return false;
  }

  // The next guess of everyone that wants one, and who wants one more.
  void write_on(bool first) {
    const std::span<const Token> guesses = pass_.run(rows_, first, cache_.view());
    rows_.clear();
    size_t n = 0;
    for (size_t i = 0; i < wanting_.size(); ++i) {
      const auto [draft, past] = wanting_[i];
      past->end = static_cast<int>(draft->context.size());  // not before: a pass may throw
      if (guesses[i] < 0) continue;
      const bool wants_more = take_guess(guesses[i], *draft);
      const int at = past->end - past->begin + static_cast<int>(draft->tokens.size()) - 1;
      if (!wants_more || !grow(*past, at + 1)) continue;
      rows_.push_back({&past->kv, at, std::span<const Token>(draft->tokens).last(1), static_cast<int>(i)});
      wanting_[n++] = {draft, past};
    }
    wanting_.resize(n);
  }

  const int max_draft_;
  const EaglePass::Size size_;
  KvCache cache_;
  EaglePass pass_;
  std::unordered_map<SeqId, Past> pasts_;
  uint64_t call_ = 0;
  // Of the call at hand; kept for their room.
  std::vector<EagleRows> rows_;
  std::vector<Wanting> wanting_;
};

EaglePass::Size size_of(const ProposerEnv& env) {
  return {std::max(kDraftRows, env.max_seqs), env.max_seqs, env.n_ctx, env.block_tokens, env.n_rows};
}

int64_t bytes(const ProposerOptions&, const ProposerEnv& env) { return EaglePass::bytes(*env.eagle, size_of(env)); }

Status check(const ProposerEnv& env) {
  if (env.eagle == nullptr) return fail(Code::invalid, "the proposer \"eagle\" needs a head");
  const ModelInfo& info = env.target->info();
  if (info.scales_embedding && !env.eagle->embedding) {
    return fail(Code::unsupported, "an EAGLE-3 head reads embeddings as they are, and a " + info.arch +
                                       " model changes its own: the head needs \"embed_tokens.weight\"");
  }
  return {};
}

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv& env) {
  QR_TRY_VOID(check(env));
  Eagle::Memory memory;
  const int64_t n_bytes = int64_t{env.n_blocks} * env.eagle->kv_layout.block_bytes(0, env.block_tokens);
  QR_TRY(memory.blocks.emplace_back(), env.ops->allocate(n_bytes));
  QR_TRY(memory.pass, env.ops->allocate_arena(bytes(options, env)));
  return std::make_unique<Eagle>(options.max_draft, env, size_of(env), std::move(memory));
}
QR_REGISTER(ProposerEntry, "eagle", {make, bytes});

}  // namespace
}  // namespace quire
