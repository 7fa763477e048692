// A smaller model of the same vocabulary writes ahead (Leviathan et al. 2023, Chen et al. 2023). It keeps keys and
// values of its own, in a pool of its own with a prefix tree of its own, so that what target and draft know of a past
// never get in each other's way. Every round of guesses is one pass over all sequences that still want one, and a guess
// is drawn as the target draws.
//
// What a sequence has is compared with what was computed for it, so whatever became of the guesses, keys and values of
// those that came true are kept and the others are given back. A prompt is taken in as far as kDraftRows go in a step;
// meanwhile its sequence has no drafts. Where blocks run out, those give theirs back that are not asked for now.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "spec/draft_pass.h"
#include "spec/drawn_alike.h"
#include "spec/proposer.h"

namespace quire {
namespace {

// What the draft has computed for a sequence: the first n_computed tokens of its context as it was, then guesses.
struct Past {
  SeqKv kv;
  int n_computed = 0, n_context = 0;
  std::vector<Token> guesses;  // behind the n_context tokens
  uint64_t call = 0;           // of propose() that last asked for it
};

// One sequence in one call.
struct Asked {
  Draft* draft = nullptr;
  Past* past = nullptr;
  LogitEdits edits;  // what it forbids and prefers whatever came before
  bool drafts = false;
};

class DraftModel final : public Proposer {
 public:
  DraftModel(
      int max_draft, const ProposerEnv& env, const DraftPass::Size& size, std::vector<Buffer> blocks, Buffer memory)
      : max_draft_(max_draft),
        n_vocab_(env.target->info().n_vocab),
        size_(size),
        fingerprint_(env.draft->info().fingerprint),
        cache_(env.draft->info().kv_layout,
               std::move(blocks),
               {env.block_tokens, env.n_blocks, env.prefix_cache, nullptr, 0}),
        pass_(*env.draft, *env.ops, size, std::move(memory)) {}

  int max_draft() const override { return max_draft_; }

  void propose(std::span<Draft> drafts) override {
    ++call_;
    asked_.resize(drafts.size());
    for (size_t i = 0; i < drafts.size(); ++i) begin(drafts[i], asked_[i]);
    catch_up();
    while (n_drafting() > 0) write_on();
  }

  void forget(SeqId id) override {
    const auto at = pasts_.find(id);
    if (at == pasts_.end()) return;
    cache_.release(at->second.kv);
    pasts_.erase(at);
  }

 private:
  Prefix prefix_of(const Draft& draft) const {
    return {draft.context, {fingerprint_, 0, draft.salt}, {}, draft.n_public};
  }

  void begin(Draft& draft, Asked& asked) {
    Past& past = pasts_[draft.seq];
    past.call = call_;
    asked.draft = &draft;
    asked.past = &past;
    asked.drafts = false;
    put_biases(draft, asked.edits);
    settle(draft, past);
  }

  // What it computed and what the sequence has now agree up to n_computed, and the token that is due is not of these.
  void settle(const Draft& draft, Past& past) {
    const auto n = static_cast<int>(draft.context.size());
    if (past.n_computed == 0) {
      past.n_computed = cache_.match(past.kv, prefix_of(draft));
    } else {
      int n_same = std::min(past.n_computed, past.n_context);
      while (n_same < past.n_computed && n_same < n &&
             draft.context[static_cast<size_t>(n_same)] == past.guesses[static_cast<size_t>(n_same - past.n_context)])
        ++n_same;
      past.n_computed = std::min(n_same, n - 1);
      cache_.truncate(past.kv, past.n_computed);
      cache_.index(past.kv, prefix_of(draft), past.n_computed);
    }
    past.n_context = n;
    past.guesses.clear();
  }

  // Room for one more token than it has computed, n of them at once.
  bool grow(Past& past, int n) {
    if (past.n_computed + n > size_.n_ctx) return false;
    if (cache_.grow(past.kv, past.n_computed + n)) return true;
    for (auto& [id, other] : pasts_) {
      if (other.call == call_ || other.kv.table.empty()) continue;
      cache_.release(other.kv);
      other.n_computed = 0;
      if (cache_.grow(past.kv, past.n_computed + n)) return true;
    }
    return false;
  }

  // Who is a few tokens behind first, then prompts. Who has all of its context gets its first guess.
  void catch_up() {
    rows_.clear();
    in_pass_.clear();
    int room = size_.n_rows;
    for (const bool few : {true, false}) {
      for (Asked& asked : asked_) {
        Past& past = *asked.past;
        const int n_behind = past.n_context - past.n_computed;
        if ((n_behind <= kFewRows) != few || room == 0) continue;
        const int n = std::min(n_behind, room);
        if (!grow(past, n)) continue;
        asked.drafts = n == n_behind;
        asked.draft->n_behind = n - 1;
        rows_.push_back({&past.kv, past.n_computed,
                         asked.draft->context.subspan(static_cast<size_t>(past.n_computed), static_cast<size_t>(n)),
                         asked.drafts});
        in_pass_.push_back(&asked);
        room -= n;
      }
    }
    run();
  }

  int n_drafting() const {
    return static_cast<int>(std::count_if(asked_.begin(), asked_.end(), [](const Asked& t) { return t.drafts; }));
  }

  // The next guess of everyone that wants one more.
  void write_on() {
    rows_.clear();
    in_pass_.clear();
    for (Asked& asked : asked_) {
      if (!asked.drafts) continue;
      asked.drafts = grow(*asked.past, 1);
      if (!asked.drafts) continue;
      asked.past->guesses.push_back(asked.draft->tokens.back());
      rows_.push_back({&asked.past->kv, asked.past->n_computed, std::span(asked.draft->tokens).last(1), true});
      in_pass_.push_back(&asked);
    }
    run();
  }

  void run() {
    if (rows_.empty()) return;
    params_.clear();
    for (Asked* asked : in_pass_) {
      if (asked->drafts) params_.push_back(draw_alike(*asked->draft, asked->edits));
    }
    const std::span<const Sampled> sampled = pass_.run(rows_, params_, cache_.view());
    size_t next = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      Asked& asked = *in_pass_[i];
      asked.past->n_computed += static_cast<int>(rows_[i].tokens.size());
      if (asked.drafts)
        asked.drafts = take_drawn(sampled[next++], n_vocab_, *asked.draft);  // its vocabulary may be padded
    }
  }

  const int max_draft_, n_vocab_;
  const DraftPass::Size size_;
  const uint64_t fingerprint_;
  KvCache cache_;
  DraftPass pass_;
  std::unordered_map<SeqId, Past> pasts_;
  uint64_t call_ = 0;
  // Of the call and the pass at hand; kept for their room.
  std::vector<Asked> asked_;
  std::vector<Asked*> in_pass_;
  std::vector<DraftRows> rows_;
  std::vector<SampleParams> params_;
};

// Rules of a vocabulary that is another are not checked here: whoever loads the two compares their tokenizers.
Status check(const ProposerEnv& env) {
  if (env.draft == nullptr) return fail(Code::invalid, "the proposer \"draft\" needs a draft model");
  const ModelInfo &draft = env.draft->info(), &target = env.target->info();
  if (draft.n_vocab < target.n_vocab) {
    return fail(Code::invalid, "the draft model has " + std::to_string(draft.n_vocab) + " tokens, the target " +
                                   std::to_string(target.n_vocab));
  }
  QR_TRY_VOID(check_can_draft(draft));
  if (env.block_tokens % draft.strip_tokens != 0) {
    return fail(Code::invalid, "block_tokens must be a multiple of the draft model's " +
                                   std::to_string(draft.strip_tokens) + ", got " + std::to_string(env.block_tokens));
  }
  return {};
}

DraftPass::Size size_of(const ProposerEnv& env) {
  return {std::max(kDraftRows, env.max_seqs), env.max_seqs, std::min(env.n_ctx, env.draft->info().n_ctx),
          env.block_tokens};
}

int64_t bytes(const ProposerOptions&, const ProposerEnv& env) { return DraftPass::bytes(*env.draft, size_of(env)); }

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv& env) {
  QR_TRY_VOID(check(env));
  const ModelInfo& draft = env.draft->info();
  std::vector<Buffer> blocks;
  for (int g = 0; g < draft.kv_layout.n_groups(); ++g) {
    const int64_t bytes = int64_t{env.n_blocks} * draft.kv_layout.block_bytes(g, env.block_tokens);
    Buffer& buffer = blocks.emplace_back();
    if (bytes > 0) {
      QR_TRY(buffer, env.ops->allocate_blocks(bytes));
    }
  }
  QR_TRY(Buffer memory, env.ops->allocate_arena(bytes(options, env)));
  return std::make_unique<DraftModel>(options.max_draft, env, size_of(env), std::move(blocks), std::move(memory));
}
QR_REGISTER(ProposerEntry, "draft", {make, bytes});

}  // namespace
}  // namespace quire
