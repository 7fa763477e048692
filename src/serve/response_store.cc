#include "serve/response_store.h"

#include <iterator>
#include <utility>

namespace quire {

void ResponseStore::put(std::string id, uint64_t tenant, StoredResponse response) {
  const auto size = static_cast<int64_t>(sizeof(Entry) + sizeof(StoredResponse) + id.size() + response.body.size() +
                                         response.input.size() + response.conversation.size());
  if (size > max_bytes_) return;
  auto kept = std::make_shared<const StoredResponse>(std::move(response));
  const std::lock_guard lock(mu_);
  entries_.push_back({std::move(id), tenant, clock_.now_ns() + ttl_ns_, size, std::move(kept)});
  by_id_.emplace(entries_.back().id, std::prev(entries_.end()));
  bytes_ += size;
  drop_old();
}

std::shared_ptr<const StoredResponse> ResponseStore::find(std::string_view id, uint64_t tenant) {
  const std::lock_guard lock(mu_);
  drop_old();
  const auto at = lookup(id, tenant);
  return at == entries_.end() ? nullptr : at->response;
}

bool ResponseStore::erase(std::string_view id, uint64_t tenant) {
  const std::lock_guard lock(mu_);
  drop_old();
  const auto at = lookup(id, tenant);
  if (at == entries_.end()) return false;
  drop(at);
  return true;
}

int64_t ResponseStore::bytes() const {
  const std::lock_guard lock(mu_);
  return bytes_;
}

ResponseStore::Entries::iterator ResponseStore::lookup(std::string_view id, uint64_t tenant) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() || found->second->tenant != tenant ? entries_.end() : found->second;
}

void ResponseStore::drop(Entries::iterator at) {
  bytes_ -= at->bytes;
  by_id_.erase(at->id);
  entries_.erase(at);
}

void ResponseStore::drop_old() {
  const int64_t now = clock_.now_ns();
  while (!entries_.empty() && (bytes_ > max_bytes_ || entries_.front().until_ns <= now)) drop(entries_.begin());
}

}  // namespace quire
