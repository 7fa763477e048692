#include "spec/head_chain.h"

#include <algorithm>

#include "spec/draft_pass.h"
#include "spec/drawn_alike.h"

namespace quire {

HeadPassSize HeadChain::size_of(const ProposerEnv& env, int n_ctx) {
  return {std::max(kDraftRows, env.max_seqs), env.max_seqs, std::min(env.n_ctx, n_ctx), env.block_tokens, env.n_rows};
}

Result<std::unique_ptr<Proposer>> HeadChain::make(const Setting& setting,
                                                  const KvLayout& layout,
                                                  std::unique_ptr<HeadPass> pass,
                                                  Ops& ops) {
  std::vector<Buffer> blocks;
  for (int g = 0; g < layout.n_groups(); ++g) {
    QR_TRY(blocks.emplace_back(),
           ops.allocate_blocks(int64_t{setting.n_blocks} * layout.block_bytes(g, setting.size.block_tokens)));
  }
  return std::make_unique<HeadChain>(setting, layout, std::move(pass), std::move(blocks));
}

HeadChain::HeadChain(const Setting& setting,
                     const KvLayout& layout,
                     std::unique_ptr<HeadPass> pass,
                     std::vector<Buffer> blocks)
    : setting_(setting),
      cache_(layout, std::move(blocks), {setting.size.block_tokens, setting.n_blocks, false, nullptr, 0}),
      pass_(std::move(pass)) {}

void HeadChain::propose(std::span<Draft> drafts) {
  ++call_;
  rows_.clear();
  wanting_.clear();
  if (edits_.size() < drafts.size()) edits_.resize(drafts.size());
  if (likely_.size() < drafts.size()) likely_.resize(drafts.size());
  for (size_t i = 0; i < drafts.size(); ++i) {
    pasts_[drafts[i].seq].call = call_;
    likely_[i].clear();
    if (setting_.draws == HeadDraws::alike) put_biases(drafts[i], edits_[i]);
  }
  int room = setting_.size.n_rows;
  // Few rows first: a prompt that fills a pass would end the pasts of those behind it.
  for (const bool few : {true, false}) {
    for (size_t i = 0; i < drafts.size(); ++i) {
      Draft& draft = drafts[i];
      if ((draft.n_rows <= kFewRows) == few) room -= begin(draft, i, room);
    }
  }
  for (bool first = true; !wanting_.empty(); first = false) write_on(first);
  for (size_t i = 0; i < drafts.size(); ++i) add_side(likely_[i], drafts[i]);
}

void HeadChain::forget(SeqId id) {
  const auto at = pasts_.find(id);
  if (at == pasts_.end()) return;
  cache_.release(at->second.kv);
  pasts_.erase(at);
}

// Takes in what the target computed in the step before, the last `room` rows of it; how many these are. A row is of
// the token behind the one whose states it reads, so its last one is the due token's.
int HeadChain::begin(Draft& draft, size_t number, int room) {
  Past& past = pasts_[draft.seq];
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
  HeadRows rows{&past.kv, n_before, draft.context.last(static_cast<size_t>(n)), draft.first_row + draft.n_rows - n};
  rows.n_then = std::min(n, draft.n_branch);
  rows.then = draft.branch_row + draft.n_branch - rows.n_then;
  rows_.push_back(rows);
  wanting_.push_back({&draft, &past, &edits_[number], &likely_[number]});
  return n;
}

// Room for n rows in all, taken from those that are not asked for now.
bool HeadChain::grow(Past& past, int n) {
  if (n > setting_.size.n_ctx) return false;
  if (cache_.grow(past.kv, n)) return true;
  for (auto& [id, other] : pasts_) {
    if (other.call == call_ || other.kv.table.empty()) continue;
    cache_.release(other.kv);
    if (cache_.grow(past.kv, n)) return true;
  }
  return false;
}

// The next guess of everyone that wants one, and who wants one more.
void HeadChain::write_on(bool first) {
  params_.clear();
  for (const Wanting& each : wanting_) {
    const bool alike = setting_.draws == HeadDraws::alike;
    const SampleParams params = alike ? draw_alike(*each.draft, *each.edits) : draw_likeliest();
    params_.push_back(beside(params, first ? each.draft->max_side : 0));
  }
  const std::span<const Token> guesses = pass_->run(rows_, params_, first, cache_.view());
  rows_.clear();
  size_t n = 0;
  for (size_t i = 0; i < wanting_.size(); ++i) {
    const Wanting each = wanting_[i];
    each.past->end = static_cast<int>(each.draft->context.size());  // not before: a pass may throw
    if (guesses[i] < 0) continue;
    if (first && each.draft->max_side > 0) pass_->likeliest(i, *each.likely);
    const bool wants_more = take_guess(guesses[i], *each.draft);
    const int at = each.past->end - each.past->begin + static_cast<int>(each.draft->tokens.size()) - 1;
    if (!wants_more || !grow(*each.past, at + 1)) continue;
    rows_.push_back({&each.past->kv, at, std::span<const Token>(each.draft->tokens).last(1), static_cast<int>(i)});
    wanting_[n++] = each;
  }
  wanting_.resize(n);
}

}  // namespace quire
