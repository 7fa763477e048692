#include "route/discovery.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"

namespace quire {

std::vector<WorkerSpec> workers_at(const WorkerSpec& name, const std::vector<HostAddress>& found, size_t n_most) {
  const auto is_v4 = [](const HostAddress& address) { return address.bytes.ss_family == AF_INET; };
  const bool only_v4 = std::ranges::any_of(found, is_v4);
  std::vector<std::string> hosts;
  for (const HostAddress& address : found) {
    if (only_v4 && !is_v4(address)) continue;
    if (std::string host = number_text(address); !host.empty()) hosts.push_back(std::move(host));
  }
  std::ranges::sort(hosts);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (hosts.size() > n_most) hosts.resize(n_most);
  std::vector<WorkerSpec> out;
  for (std::string& host : hosts) out.push_back({{std::move(host), name.at.port, name.at.tls_name}, name.base});
  return out;
}

Discovery::Discovery(const std::vector<WorkerSpec>& names, int64_t every_ms, Changed changed, Find find)
    : changed_(std::move(changed)),
      names_(names.begin(), names.end()),
      find_(find != nullptr ? std::move(find)
                            : [this](const std::string& host,
                                     int port,
                                     HostLookup::Done done) { lookup_.find(host, port, std::move(done)); }),
      sweeper_(std::chrono::milliseconds(every_ms), [this] { ask(); }) {
  ask();
}

void Discovery::ask() {
  for (Name& one : names_)
    find_(one.name.at.host, one.name.at.port,
          [this, &one](const std::vector<HostAddress>& found, const std::string& error) { hear(one, found, error); });
}

void Discovery::hear(Name& name, const std::vector<HostAddress>& found, std::string_view error) {
  std::vector<WorkerSpec> workers = workers_at(name.name, found, kMostWorkers);
  const std::lock_guard lock(mu_);
  if (std::exchange(name.failed, workers.empty()) != workers.empty()) {
    const std::string& host = name.name.at.host;
    if (workers.empty())
      log_warn("route: the addresses of " + host + " cannot be found: " + std::string(error));
    else
      log_info("route: the addresses of " + host + " are found again");
  }
  if (workers.empty() || workers == name.workers) return;
  name.workers = std::move(workers);
  std::vector<WorkerSpec> all;
  for (const Name& one : names_) all.insert(all.end(), one.workers.begin(), one.workers.end());
  changed_(all);
}

}  // namespace quire
