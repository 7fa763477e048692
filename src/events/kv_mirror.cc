#include "events/kv_mirror.h"

#include <algorithm>
#include <new>
#include <span>

namespace quire {

void KvMirror::apply(const KvNews& news) {
  try {
    take(news);
  } catch (const std::bad_alloc&) {
    missed_ = true;
  }
}

void KvMirror::take(const KvNews& news) {
  if (news.all_cleared) blocks_.clear();
  std::span<const Token> tokens(news.tokens);
  for (const KvNews::Block& block : news.blocks) {
    if (!block.stored) {
      blocks_.erase(block.name);
      continue;
    }
    const auto own = tokens.first(block_tokens_);
    tokens = tokens.subspan(block_tokens_);
    blocks_[block.name] = {block, ++n_stored_, {own.begin(), own.end()}};
  }
}

std::optional<KvNews> KvMirror::all() const {
  if (missed_) return std::nullopt;
  std::vector<const Stored*> sorted;
  sorted.reserve(blocks_.size());
  for (const auto& [name, stored] : blocks_) sorted.push_back(&stored);
  std::ranges::sort(sorted, {}, &Stored::order);
  KvNews out;
  out.all_cleared = true;
  out.blocks.reserve(sorted.size());
  out.tokens.reserve(sorted.size() * block_tokens_);
  for (const Stored* stored : sorted) {
    out.blocks.push_back(stored->block);
    out.tokens.insert(out.tokens.end(), stored->tokens.begin(), stored->tokens.end());
  }
  return out;
}

}  // namespace quire
