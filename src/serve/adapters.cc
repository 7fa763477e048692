#include "serve/adapters.h"

#include <algorithm>

#include "serve/api_error.h"

namespace quire {

Status AdapterTable::check(const std::string& name, bool replace) const {
  const std::lock_guard lock(mu_);
  const bool taken = std::ranges::find(entries_, name, &Entry::name) != entries_.end();
  if (taken && !replace) return fail(Code::invalid, "adapter '" + shown(name) + "' is loaded already");
  if (taken || std::ssize(entries_) < n_most_) return {};
  return fail(Code::exhausted,
              "there are " + std::to_string(n_most_) + " adapters already" + limit_note(&ServeLimits::n_adapters));
}

int64_t AdapterTable::bytes_in_memory() {
  std::erase_if(loaded_, [](const auto& one) { return one.expired(); });
  int64_t out = 0;
  for (const auto& one : loaded_) {
    if (const auto adapter = one.lock()) out += adapter->memory.bytes();
  }
  return out;
}

Status AdapterTable::load(const std::string& name, const std::string& folder, bool replace) {
  const std::lock_guard one_at_a_time(loading_);
  QR_TRY_VOID(check(name, replace));
  const int64_t in_use = bytes_in_memory();
  auto loaded = load_(folder, bytes_most_ - in_use);
  if (!loaded && loaded.error().code == Code::exhausted) {
    loaded.error().message += ": adapters in memory take " + std::to_string(in_use) + " of " +
                              std::to_string(bytes_most_) + " bytes" + limit_note(&ServeLimits::adapter_bytes);
  }
  QR_TRY(const std::shared_ptr<const Adapter> adapter, std::move(loaded));
  loaded_.emplace_back(adapter);
  Entry entry{name, folder, adapter};
  const std::lock_guard lock(mu_);
  const auto at = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  if (at != entries_.end() && at->name == name) {
    std::swap(*at, entry);  // what goes, goes without the lock
  } else {
    entries_.insert(at, std::move(entry));
  }
  return {};
}

Status AdapterTable::unload(std::string_view name) {
  Entry gone;
  const std::lock_guard lock(mu_);
  const auto at = std::ranges::find(entries_, name, &Entry::name);
  if (at == entries_.end()) return fail(Code::not_found, "there is no adapter '" + shown(name) + "'");
  gone = std::move(*at);
  entries_.erase(at);
  return {};
}

std::shared_ptr<const Adapter> AdapterTable::find(std::string_view name) const {
  const std::lock_guard lock(mu_);
  const auto at = std::ranges::find(entries_, name, &Entry::name);
  return at == entries_.end() ? nullptr : at->adapter;
}

std::vector<AdapterTable::Entry> AdapterTable::all() const {
  const std::lock_guard lock(mu_);
  return entries_;
}

Status check_adapter_name(std::string_view name, const std::vector<std::string>& taken, const ServeLimits& limits) {
  if (name.empty()) return fail(Code::invalid, "an adapter's name is not empty");
  if (std::ssize(name) > limits.name_bytes)
    return fail(Code::invalid, "an adapter's name has at most " + std::to_string(limits.name_bytes) + " bytes, got " +
                                   std::to_string(name.size()) + limit_note(&ServeLimits::name_bytes));
  const auto odd = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == ':'; };
  if (std::ranges::any_of(name, odd))
    return fail(Code::invalid, "an adapter's name has no ':' and no control characters, got '" + shown(name) + "'");
  if (std::ranges::find(taken, name) != taken.end())
    return fail(Code::invalid, "'" + shown(name) + "' is the name of the model or of a learned prefix here");
  return {};
}

}  // namespace quire
