// A smaller model writes ahead (Leviathan et al. 2023, Chen et al. 2023). It keeps keys and values of its own, in a
// pool of its own with a prefix tree of its own, so that what target and draft know of a past never get in each other's
// way. Every round of guesses is one pass over all sequences that still want one, and a guess is drawn as the target
// draws.
//
// A draft with tokens of its own reads and writes over a bridge (text/token_bridge.h). Where the end of a text becomes
// other tokens as it grows, keys and values behind the last that is the same are given back. It guesses its likeliest
// token, since draws from two vocabularies have nothing in common; so does one that can write some of its tokens alone
// (model/short_head.h). Only what is settled is in its prefix tree.
//
// What a sequence has is compared with what was computed for it, so whatever became of the guesses, keys and values of
// those that came true are kept and the others are given back. A prompt is taken in as far as kDraftRows go in a step;
// meanwhile its sequence has no drafts. Where blocks run out, those give theirs back that are not asked for now.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "model/short_head.h"
#include "spec/draft_pass.h"
#include "spec/drawn_alike.h"
#include "spec/proposer.h"
#include "text/token_bridge.h"

namespace quire {
namespace {

// Of a draft with tokens of its own: so many for each of the target's that is asked for, at most.
constexpr int kMostRounds = 2;
// Tokens that go over a bridge in a call: all together, and of each sequence in any case, which is what a step with the
// longest guess adds.
constexpr size_t kMostBridged = 16384, kAlwaysBridged = 65;

// What the draft has computed for a sequence: the first n_computed tokens of its context as it was, then guesses. All
// in the draft's tokens.
struct Past {
  SeqKv kv;
  int n_computed = 0, n_context = 0;
  std::vector<Token> guesses;  // behind the n_context tokens
  BridgedText text;            // the context, where there is a bridge
  uint64_t call = 0;           // of propose() that last asked for it
};

// One sequence in one call.
struct Asked {
  Draft* draft = nullptr;
  Past* past = nullptr;
  std::span<const Token> context;  // in the draft's tokens
  std::vector<Token> said;         // what the draft goes on with, where there is a bridge
  LogitEdits edits;                // what it forbids and prefers whatever came before, of the draft's outputs
  bool ready = false;              // all of the context is there
  bool drafts = false;
};

class DraftModel final : public Proposer {
 public:
  DraftModel(
      int max_draft, const ProposerEnv& env, const DraftPass::Size& size, std::vector<Buffer> blocks, Buffer memory)
      : max_draft_(max_draft),
        bridge_(env.bridge),
        vocabulary_(as_short_head(env.draft) == nullptr ? std::span<const Token>()
                                                        : as_short_head(env.draft)->tokens()),
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
    n_bridgeable_ = kMostBridged;
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
  // Of what it may be asked again: the whole context, or what is settled of it.
  Prefix prefix_of(const Asked& asked) const {
    const Draft& draft = *asked.draft;
    const CacheKey key{fingerprint_, 0, draft.salt};
    if (bridge_ == nullptr) return {draft.context, key, {}, draft.n_public};
    const BridgedText& text = asked.past->text;
    return {text.ids().first(text.n_settled()), key, {}, static_cast<int>(text.n_public())};
  }

  void begin(Draft& draft, Asked& asked) {
    Past& past = pasts_[draft.seq];
    past.call = call_;
    asked.draft = &draft;
    asked.past = &past;
    asked.drafts = false;
    asked.said.clear();
    put_biases(draft, asked.edits);
    std::erase_if(asked.edits.sparse, [this](const Edit& edit) { return output_of(edit.id) < 0; });
    for (Edit& edit : asked.edits.sparse) edit.id = output_of(edit.id);
    asked.ready = bridge_ == nullptr || cross(draft, past);
    asked.context = bridge_ == nullptr ? draft.context : past.text.ids();
    asked.ready = asked.ready && !asked.context.empty();
    if (asked.ready) settle(asked);
  }

  // Whether the draft has this token under the same id.
  bool has(Token id) const {
    return bridge_ == nullptr || (bridge_->to_draft(id) == id && bridge_->to_target(id) == id);
  }

  // Which of the draft's outputs is this token, −1: none.
  Token output_of(Token id) const {
    if (!has(id)) return -1;
    if (vocabulary_.empty()) return id;
    const auto at = std::ranges::lower_bound(vocabulary_, id);
    return at != vocabulary_.end() && *at == id ? static_cast<Token>(at - vocabulary_.begin()) : -1;
  }

  // Whether all of the sequence's text is there, in the draft's tokens, and can be held.
  bool cross(const Draft& draft, Past& past) {
    if (std::ssize(past.text.ids()) > size_.n_ctx) return false;
    const size_t n_taken = past.text.n_taken();
    try {
      const bool all = past.text.take(*bridge_, draft.context, static_cast<size_t>(draft.n_public),
                                      std::max(n_bridgeable_, kAlwaysBridged));
      n_bridgeable_ -= std::min(n_bridgeable_, past.text.n_taken() - n_taken);
      return all;
    } catch (...) {
      cache_.release(past.kv);
      past.n_computed = 0;
      past.text = {};
      throw;
    }
  }

  // What it computed and what the sequence has now agree up to n_computed, and the token that is due is not of these.
  void settle(Asked& asked) {
    Past& past = *asked.past;
    const std::span<const Token> context = asked.context;
    const auto n = static_cast<int>(context.size());
    if (past.n_computed == 0) {
      cache_.release(past.kv);  // of a pass that threw
      past.n_computed = cache_.match(past.kv, prefix_of(asked));
    } else {
      int n_same = bridge_ == nullptr ? past.n_context : static_cast<int>(past.text.n_same());
      n_same = std::min(past.n_computed, n_same);
      while (n_same >= past.n_context && n_same < past.n_computed && n_same < n &&
             context[static_cast<size_t>(n_same)] == past.guesses[static_cast<size_t>(n_same - past.n_context)])
        ++n_same;
      past.n_computed = std::min(n_same, n - 1);
      cache_.truncate(past.kv, past.n_computed);
      // A block that is found again is never cut: the last settled token may be the last of all, and due.
      const int n_lasting = bridge_ == nullptr ? past.n_computed : static_cast<int>(past.text.n_settled()) - 1;
      cache_.index(past.kv, prefix_of(asked), std::clamp(n_lasting, 0, past.n_computed));
    }
    past.n_context = n;
    past.guesses.clear();
    if (bridge_ != nullptr) past.text.mark();
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
        if (!asked.ready || (n_behind <= kFewRows) != few || room == 0) continue;
        const int n = std::min(n_behind, room);
        if (!grow(past, n)) continue;
        asked.drafts = n == n_behind;
        asked.draft->n_behind = n - 1;
        rows_.push_back({&past.kv, past.n_computed,
                         asked.context.subspan(static_cast<size_t>(past.n_computed), static_cast<size_t>(n)),
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
      const std::span<const Token> said = bridge_ == nullptr ? asked.draft->tokens : asked.said;
      asked.past->guesses.push_back(said.back());
      rows_.push_back({&asked.past->kv, asked.past->n_computed, said.last(1), true});
      in_pass_.push_back(&asked);
    }
    run();
  }

  void run() {
    if (rows_.empty()) return;
    params_.clear();
    for (Asked* asked : in_pass_) {
      if (asked->drafts) params_.push_back(drawn(*asked));
    }
    const std::span<const Sampled> sampled = pass_.run(rows_, params_, cache_.view());
    for (size_t i = 0; i < rows_.size(); ++i) in_pass_[i]->past->n_computed += static_cast<int>(rows_[i].tokens.size());
    size_t next = 0;
    for (Asked* asked : in_pass_) {
      if (asked->drafts) asked->drafts = take(*asked, sampled[next++]);
    }
  }

  SampleParams drawn(const Asked& asked) const {
    if (bridge_ != nullptr && !bridge_->by_id()) return draw_likeliest();
    return vocabulary_.empty() ? draw_alike(*asked.draft, asked.edits) : draw_likeliest(&asked.edits);
  }

  // Whether it wants one more.
  bool take(Asked& asked, Sampled sampled) {
    Draft& draft = *asked.draft;
    if (sampled.ok && !vocabulary_.empty()) sampled.token = vocabulary_[static_cast<size_t>(sampled.token)];
    if (bridge_ == nullptr) return take_drawn(sampled, n_vocab_, draft);  // its vocabulary may be padded
    if (!sampled.ok) return false;
    asked.said.push_back(sampled.token);
    bool more = asked.past->text.answer(*bridge_, draft.context, asked.said, guessed_);
    draft.tokens.clear();
    bool wants = true;
    for (size_t i = 0; i < guessed_.size() && wants; ++i) wants = take_guess(guessed_[i], draft);
    more = more && std::ssize(asked.said) < int64_t{kMostRounds} * draft.max_tokens;
    return wants && more;
  }

  const int max_draft_;
  const TokenBridge* const bridge_;
  const std::span<const Token> vocabulary_;  // of each output its token, ascending; empty: they are the same
  const int n_vocab_;
  const DraftPass::Size size_;
  const uint64_t fingerprint_;
  KvCache cache_;
  DraftPass pass_;
  std::unordered_map<SeqId, Past> pasts_;
  uint64_t call_ = 0;
  size_t n_bridgeable_ = 0;  // tokens that may still go over the bridge in this call
  // Of the call and the pass at hand; kept for their room.
  std::vector<Asked> asked_;
  std::vector<Asked*> in_pass_;
  std::vector<DraftRows> rows_;
  std::vector<SampleParams> params_;
  std::vector<Token> guessed_;
};

// Whether the tokens are the same is not checked here: whoever loads the two compares their tokenizers.
Status check(const ProposerEnv& env) {
  if (env.draft == nullptr) return fail(Code::invalid, "the proposer \"draft\" needs a draft model");
  const ModelInfo &draft = env.draft->info(), &target = env.target->info();
  if (env.bridge == nullptr && draft.n_vocab < target.n_vocab) {
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
