#include "route/worker.h"

#include <algorithm>
#include <charconv>

#include "base/hash128.h"
#include "route/fleet.h"

namespace quire {
namespace {

uint64_t id_of(const std::string& name) { return std::max<uint64_t>(1, hash128(name.data(), name.size(), 0).lo); }

tl::unexpected<Error> bad(const std::string& url, const char* what) {
  return fail(Code::invalid, "a worker is http://HOST:PORT, got \"" + shown(url) + "\": " + what);
}

}  // namespace

Result<WorkerSpec> parse_worker(const std::string& url) {
  std::string_view rest(url);
  constexpr std::string_view kPlain = "http://", kTls = "https://", kVersion = "/v1";
  if (rest.starts_with(kTls)) return bad(url, "https is not spoken to workers");
  if (rest.starts_with(kPlain)) rest.remove_prefix(kPlain.size());
  WorkerSpec out;
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash), base = rest.substr(slash);
  while (base.ends_with('/')) base.remove_suffix(1);
  if (base.ends_with(kVersion)) base.remove_suffix(kVersion.size());
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f && c != '?' && c != '#' && c != '@'; };
  if (!std::all_of(rest.begin(), rest.end(), is_plain)) return bad(url, "it holds a character that has no place there");
  out.base = base;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return bad(url, "the address does not end in ]");
    out.at.host = authority.substr(1, end - 1);
    authority.remove_prefix(end + 1);
  } else {
    out.at.host = authority.substr(0, authority.find(':'));
    authority.remove_prefix(out.at.host.size());
  }
  if (out.at.host.empty()) return bad(url, "there is no host");
  if (authority.empty()) return out;
  const auto [end, error] = std::from_chars(authority.data() + 1, authority.data() + authority.size(), out.at.port);
  if (authority.front() != ':' || error != std::errc() || end != authority.data() + authority.size() ||
      out.at.port < 1 || out.at.port > 65535)
    return bad(url, "the port must be 1 to 65535");
  return out;
}

Worker::Worker(WorkerSpec where, const RouteLimits& limits, Metrics& metrics)
    : spec(std::move(where)),
      name(spec.name()),
      id(id_of(name)),
      n_given(metrics.counter("quire_worker_requests_total", "Requests that a worker was given.", {{"worker", name}})),
      n_failures(metrics.counter("quire_worker_failures_total", "Of them, failed by its fault.", {{"worker", name}})),
      health(limits) {}

bool Worker::serves(uint32_t model) const {
  return std::find(model_ids.begin(), model_ids.end(), model) != model_ids.end();
}

LoadLease::~LoadLease() {
  if (fleet_ != nullptr) fleet_->release(*worker_, tokens_);
}

}  // namespace quire
