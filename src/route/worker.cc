#include "route/worker.h"

#include <algorithm>

#include "base/hash128.h"
#include "http/server_url.h"
#include "route/fleet.h"

namespace quire {
namespace {

uint64_t number_of(const std::string& name) { return std::max<uint64_t>(1, hash128(name.data(), name.size(), 0).lo); }

}  // namespace

Result<WorkerSpec> parse_worker(const std::string& url) {
  auto read = parse_server_url(url);
  if (!read)
    return fail(Code::invalid, "a worker is http://HOST:PORT or https://HOST:PORT, got \"" + shown(url) +
                                   "\": " + read.error().message);
  return WorkerSpec{std::move(read->at), std::move(read->base)};
}

const std::string* id_of(const Json& listed) {
  const Json* id = listed.find("id");
  return id != nullptr ? id->as_string() : nullptr;
}

Worker::Worker(WorkerSpec where, const RouteLimits& limits)
    : spec(std::move(where)), name(spec.name()), id(number_of(name)), health(limits) {}

bool Worker::serves(uint32_t model) const {
  return std::find(model_ids.begin(), model_ids.end(), model) != model_ids.end();
}

LoadLease::~LoadLease() {
  if (fleet_ != nullptr) fleet_->release(*worker_, charge_, has_begun_);
}

void LoadLease::begins(int64_t after_ns) {
  if (fleet_ == nullptr || std::exchange(has_begun_, true)) return;
  fleet_->begins(*worker_, charge_, after_ns);
}

}  // namespace quire
