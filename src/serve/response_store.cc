#include "serve/response_store.h"

#include <algorithm>
#include <iterator>

namespace quire {

void ResponseStore::put(std::string_view id, Whose whose, StoredResponse response) {
  constexpr size_t kNodes = 4 * 64;  // of the maps and lists
  const auto size = static_cast<int64_t>(sizeof(Entry) + sizeof(StoredResponse) + kNodes + response.body.size() +
                                         response.input.size() + response.conversation.size());
  if (size > std::min(max_bytes_, tenant_bytes_)) return;
  auto kept = std::make_shared<const StoredResponse>(std::move(response));
  const Sha256 key = sha256(id);
  const std::lock_guard lock(mu_);
  drop_old();
  if (by_id_.contains(key)) return;
  entries_.push_back({key, whose, clock_.now_ns() + ttl_ns_, size, std::move(kept), {}});
  const auto at = std::prev(entries_.end());
  by_id_.emplace(key, at);
  Share& share = shares_[whose.tenant];
  at->of_tenant = share.entries.insert(share.entries.end(), at);
  count(whose.tenant, share, size);
  while (share.bytes > tenant_bytes_) drop(share.entries.front());
  while (bytes_ > max_bytes_) drop(shares_.at(by_bytes_.rbegin()->second).entries.front());
}

std::shared_ptr<const StoredResponse> ResponseStore::find(std::string_view id, uint64_t owner) {
  const std::lock_guard lock(mu_);
  drop_old();
  const auto at = lookup(id, owner);
  return at == entries_.end() ? nullptr : at->response;
}

bool ResponseStore::erase(std::string_view id, uint64_t owner) {
  const std::lock_guard lock(mu_);
  drop_old();
  const auto at = lookup(id, owner);
  if (at == entries_.end()) return false;
  drop(at);
  return true;
}

void ResponseStore::expire() {
  const std::lock_guard lock(mu_);
  drop_old();
}

int64_t ResponseStore::bytes() const {
  const std::lock_guard lock(mu_);
  return bytes_;
}

ResponseStore::Entries::iterator ResponseStore::lookup(std::string_view id, uint64_t owner) {
  const auto found = by_id_.find(sha256(id));
  return found == by_id_.end() || found->second->whose.owner != owner ? entries_.end() : found->second;
}

void ResponseStore::count(uint64_t tenant, Share& share, int64_t bytes) {
  by_bytes_.erase({share.bytes, tenant});
  share.bytes += bytes;
  bytes_ += bytes;
  if (share.bytes > 0) by_bytes_.emplace(share.bytes, tenant);
}

void ResponseStore::drop(Entries::iterator at) {
  const uint64_t tenant = at->whose.tenant;
  Share& share = shares_.at(tenant);
  share.entries.erase(at->of_tenant);
  count(tenant, share, -at->bytes);
  if (share.entries.empty()) shares_.erase(tenant);
  by_id_.erase(at->id);
  entries_.erase(at);
}

void ResponseStore::drop_old() {
  const int64_t now = clock_.now_ns();
  while (!entries_.empty() && entries_.front().until_ns <= now) drop(entries_.begin());
}

}  // namespace quire
