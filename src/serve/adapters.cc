#include "serve/adapters.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "base/bounded_reader.h"
#include "base/log.h"
#include "base/thread.h"
#include "serve/api_error.h"

namespace quire {
namespace {

constexpr int kLoadNice = 5;  // beyond that of who prepares requests: megabytes of numbers hold up tokens less

// On a thread of its own, since a thread that steps behind others cannot step forward again.
Result<std::shared_ptr<const Adapter>> load_behind(const AdapterTable::Load& load,
                                                   const std::string& folder,
                                                   AdapterTable::Room& room) {
  std::packaged_task<Result<std::shared_ptr<const Adapter>>()> task([&] {
    set_thread_name("quire-adapter");
    step_behind_others(kLoadNice);
    return load(folder, room);
  });
  auto out = task.get_future();
  std::thread(std::move(task)).join();
  return out.get();
}

}  // namespace

std::vector<AdapterTable::Named>::iterator AdapterTable::place_of(std::string_view name) {
  return std::ranges::lower_bound(named_, name, {}, [](const Named& one) { return std::string_view(one.entry.name); });
}

AdapterTable::Named* AdapterTable::find(std::string_view name) {
  const auto at = place_of(name);
  return at != named_.end() && at->entry.name == name ? &*at : nullptr;
}

Status AdapterTable::check(const std::string& name, bool replace) {
  const std::lock_guard lock(mu_);
  const bool taken = find(name) != nullptr;
  if (taken && !replace) return fail(Code::invalid, "adapter '" + shown(name) + "' is loaded already");
  if (taken || std::ssize(named_) < n_most_) return {};
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

std::optional<int64_t> AdapterTable::evict_one() {
  std::shared_ptr<const Adapter> gone;  // which goes without the lock
  const std::lock_guard lock(mu_);
  Named* oldest = nullptr;
  for (Named& one : named_) {
    if (one.adapter.use_count() != 1) continue;  // not in memory, or held: new holders come by way of the lock alone
    if (oldest == nullptr || one.last_use < oldest->last_use) oldest = &one;
  }
  if (oldest == nullptr) return {};
  gone = std::move(oldest->adapter);
  oldest->entry.in_memory = false;
  ++n_evictions_;
  return oldest->entry.bytes;
}

bool AdapterTable::evict(int64_t bytes) {
  {
    const std::lock_guard lock(mu_);
    int64_t idle = 0;
    for (const Named& one : named_) idle += one.adapter.use_count() == 1 ? one.entry.bytes : 0;
    if (idle < bytes) return false;
  }
  int64_t given = 0;
  while (given < bytes) {
    const std::optional<int64_t> its = evict_one();
    if (!its) return given > 0;  // a request came for one
    given += *its;
  }
  return true;
}

Result<std::shared_ptr<const Adapter>> AdapterTable::read(const std::string& folder, int64_t bytes) {
  while (bytes_in_memory() + bytes > bytes_most_ && evict_one()) {
  }
  for (;;) {
    const int64_t in_use = bytes_in_memory();
    Room room{.most_bytes = std::max<int64_t>(bytes_most_ - in_use, 0)};
    auto out = load_behind(load_, folder, room);
    if (out) {
      loaded_.emplace_back(*out);
      while (bytes_in_memory() > bytes_most_ && evict_one()) {  // a backend may pad what was read
      }
      const std::lock_guard lock(mu_);
      ++n_loads_;
      return out;
    }
    if (out.error().code != Code::exhausted) return out;
    if (room.backend_lacks > 0) {
      if (evict(room.backend_lacks)) continue;
      out.error().message += ": adapters that no request holds take too little to make room for it";
      return out;
    }
    if (evict_one()) continue;
    out.error().message += ": adapters that requests hold take " + std::to_string(in_use) + " of " +
                           std::to_string(bytes_most_) + " bytes" + limit_note(&ServeLimits::adapter_bytes);
    return out;
  }
}

Status AdapterTable::allow_below(const std::string& root) {
  std::error_code error;
  root_ = std::filesystem::canonical(root, error);
  if (error || !std::filesystem::is_directory(root_, error))
    return fail(Code::not_found, shown(root) + " is no folder");
  return {};
}

Result<std::string> AdapterTable::allowed(const std::string& path) const {
  if (path.find('\0') != std::string::npos) return fail(Code::invalid, "a path has no byte 0");
  if (root_.empty()) return path;
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(root_ / path, error);
  const auto parted = std::mismatch(root_.begin(), root_.end(), whole.begin(), whole.end());
  if (!error && parted.first == root_.end()) return whole.string();
  return fail(Code::invalid,
              "'" + shown(path) + "' is not below " + root_.string() + ", where adapters may be (--lora-root)");
}

Status AdapterTable::load(const std::string& name, const std::string& path, bool replace) {
  const std::lock_guard one_at_a_time(loading_);
  QR_TRY_VOID(check(name, replace));
  QR_TRY(const std::string folder, allowed(path));
  QR_TRY(const std::shared_ptr<const Adapter> adapter, read(folder, 0));
  Named one{{name, folder, adapter->content, adapter->memory.bytes(), true, adapter->invocation}, adapter};
  const std::lock_guard lock(mu_);
  one.last_use = ++last_use_;
  if (Named* const was = find(name); was != nullptr) {
    std::swap(*was, one);  // what goes, goes without the lock
  } else {
    named_.insert(place_of(name), std::move(one));
  }
  return {};
}

Status AdapterTable::unload(std::string_view name) {
  Named gone;
  const std::lock_guard lock(mu_);
  const auto at = place_of(name);
  if (find(name) == nullptr) return fail(Code::not_found, "there is no adapter '" + shown(name) + "'");
  gone = std::move(*at);
  named_.erase(at);
  return {};
}

Result<std::shared_ptr<const Adapter>> AdapterTable::acquire(std::string_view name) {
  const auto not_found = [name] { return fail(Code::not_found, "there is no adapter '" + shown(name) + "'"); };
  {
    const std::lock_guard lock(mu_);
    Named* const one = find(name);
    if (one == nullptr) return not_found();
    one->last_use = ++last_use_;
    if (one->adapter != nullptr) return one->adapter;
  }
  const std::lock_guard one_at_a_time(loading_);
  Entry wanted;
  {
    const std::lock_guard lock(mu_);
    const Named* const one = find(name);
    if (one == nullptr) return not_found();
    if (one->adapter != nullptr) return one->adapter;  // read for another request, while this one waited
    wanted = one->entry;
  }
  auto read_again = read(wanted.folder, wanted.bytes);
  if (!read_again) {
    const std::string its = "adapter '" + shown(name) + "'";
    if (read_again.error().code == Code::exhausted) return error_within(its, std::move(read_again).error());
    log_error(its + " cannot be read again: " + read_again.error().message);
    return fail(Code::io, its + " left memory for others and cannot be read again; the server's log says why");
  }
  const std::lock_guard lock(mu_);
  Named* const one = find(name);
  if (one == nullptr) return not_found();  // unloaded meanwhile
  one->adapter = *read_again;
  one->entry.content = one->adapter->content;
  one->entry.bytes = one->adapter->memory.bytes();
  one->entry.in_memory = true;
  one->entry.invocation = one->adapter->invocation;
  return read_again;
}

AdapterTable::Stats AdapterTable::stats() const {
  const std::lock_guard lock(mu_);
  Stats out{.n_loads = n_loads_, .n_evictions = n_evictions_};
  for (const Named& one : named_) {
    if (one.adapter == nullptr) continue;
    ++out.n_in_memory;
    out.bytes += one.entry.bytes;
  }
  return out;
}

std::vector<AdapterTable::Entry> AdapterTable::all() const {
  const std::lock_guard lock(mu_);
  std::vector<Entry> out;
  out.reserve(named_.size());
  for (const Named& one : named_) out.push_back(one.entry);
  return out;
}

std::string adapter_lines(const AdapterTable::Stats& stats) {
  const auto one = [](const char* name, const char* kind, const char* help, int64_t value) {
    const std::string of = std::string("quire_adapter") + name;
    return "# HELP " + of + " " + help + "\n# TYPE " + of + " " + kind + "\n" + of + " " + std::to_string(value) + "\n";
  };
  return one("s_in_memory", "gauge", "Adapters that have a name and are in memory.", stats.n_in_memory) +
         one("_bytes", "gauge", "Of these.", stats.bytes) +
         one("_loads_total", "counter", "Adapters read, first or again.", stats.n_loads) +
         one("_evictions_total", "counter", "Adapters that left memory for others.", stats.n_evictions);
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
