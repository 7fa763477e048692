#include "app/worker_directory.h"

#include <string_view>
#include <utility>

#include "base/bounded_reader.h"
#include "http/guard.h"
#include "http/message.h"
#include "route/directory.h"

namespace quire {
namespace {

// Every address of a machine, as 0.0.0.0, 0 or ::0.
bool is_every_address(std::string_view host) { return host.find_first_not_of("0.:[]") == std::string_view::npos; }

}  // namespace

void declare_directory_options(CommandLine& line, DirectoryPlace& place) {
  line.option(
      "--directory", place.url,
      "a Redis in which this server enters itself for `quire route --discover directory://`, redis://HOST:PORT, "
      "or rediss:// over TLS; give one with a password in QUIRE_DIRECTORY");
  line.option(
      "--directory-ca", place.files.ca,
      "PEM file: certificates that the Redis's own must be signed with where --directory is rediss://; by default "
      "those that this machine trusts");
  line.option("--directory-cert", place.files.certificate,
              "PEM file: the certificate that is shown to --directory where it asks for one");
  line.option("--directory-key", place.files.key, "PEM file: the key of --directory-cert");
  line.option("--advertise", place.advertised,
              "http://HOST:PORT or https://HOST:PORT: how routers of --directory reach this server; default: where it "
              "listens");
}

Status check_directory_place(DirectoryPlace& place) {
  const RedisTlsFiles& files = place.files;
  if (place.url.empty() && !(files.ca + files.certificate + files.key + place.advertised).empty())
    return fail(Code::invalid, "--advertise, --directory-ca, --directory-cert and --directory-key need --directory");
  if (place.url.empty()) return {};
  auto directory = parse_directory(place.url, files);
  if (!directory) return error_within("--directory", std::move(directory).error());
  place.redis = std::move(directory->redis);
  place.redis.name = "the directory";
  if (place.advertised.empty()) return {};
  if (place.advertised.size() > kMostEnteredBytes)
    return fail(Code::invalid, "--advertise has " + std::to_string(place.advertised.size()) + " bytes: the limit is " +
                                   std::to_string(kMostEnteredBytes));
  const auto worker = parse_worker(place.advertised);
  if (!worker) return error_within("--advertise", worker.error());
  if (is_every_address(worker->at.host))
    return fail(Code::invalid, "--advertise " + shown(place.advertised) +
                                   " is every address of a machine, and no router can go by that: give one");
  return {};
}

Status check_reachable(const DirectoryPlace& place, const std::string& url) {
  if (place.url.empty() || !place.advertised.empty()) return {};
  QR_TRY(const WorkerSpec told, parse_worker(url));
  const std::string problem = "--directory needs --advertise http://HOST:PORT: this server listens at " + url + ", ";
  if (is_every_address(told.at.host))
    return fail(Code::invalid, problem + "every address of this machine, and no router can go by that");
  if (is_loopback(told.at.host) && !is_loopback(place.redis.host))
    return fail(Code::invalid,
                problem + "where only this machine reaches it, but the directory is at " + shown(place.redis.host));
  return {};
}

std::unique_ptr<WorkerEntry> enter_directory(const DirectoryPlace& place, const std::string& url) {
  if (place.url.empty()) return nullptr;
  return std::make_unique<WorkerEntry>(place.redis, place.advertised.empty() ? url : place.advertised);
}

}  // namespace quire
