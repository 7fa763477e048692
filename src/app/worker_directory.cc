#include "app/worker_directory.h"

#include <utility>

#include "base/bounded_reader.h"
#include "base/log.h"
#include "http/message.h"
#include "route/directory.h"

namespace quire {
namespace {

bool is_every_address(const std::string& host) { return host == "0.0.0.0" || host == "::" || host == "[::]"; }

}  // namespace

void declare_directory_options(CommandLine& line, DirectoryPlace& place) {
  line.option(
      "--directory", place.url,
      "a Redis in which this server enters itself for `quire route --discover directory://`, redis://HOST:PORT, "
      "or rediss:// over TLS; give one with a password in QUIRE_DIRECTORY");
  line.option("--directory-ca", place.files.ca,
              "PEM file: certificates that the one of --directory with rediss:// must be signed with; by default those "
              "that this machine trusts");
  line.option("--directory-cert", place.files.certificate,
              "PEM file: the certificate that is shown to --directory where it asks for one");
  line.option("--directory-key", place.files.key, "PEM file: the key of --directory-cert");
  line.option("--advertise", place.advertised,
              "http://HOST:PORT or https://HOST:PORT: how routers of --directory reach this server; default: where it "
              "listens");
}

Status check_directory_place(const DirectoryPlace& place, const std::string& host) {
  const RedisTlsFiles& files = place.files;
  if (place.advertised.size() > kMostEnteredBytes)
    return fail(Code::invalid, "--advertise has " + std::to_string(place.advertised.size()) + " bytes: the limit is " +
                                   std::to_string(kMostEnteredBytes));
  if (!place.advertised.empty()) {
    if (const auto worker = parse_worker(place.advertised); !worker) return error_within("--advertise", worker.error());
  }
  if (place.url.empty() && !(files.ca + files.certificate + files.key + place.advertised).empty())
    return fail(Code::invalid, "--advertise, --directory-ca, --directory-cert and --directory-key need --directory");
  if (place.url.empty()) return {};
  if (const auto read = parse_directory(place.url, files); !read) return error_within("--directory", read.error());
  if (!place.advertised.empty() || !is_every_address(host)) return {};
  return fail(Code::invalid, "--directory needs --advertise http://HOST:PORT: --host " + host +
                                 " is every address of this machine, and no router can go by that");
}

Result<std::unique_ptr<WorkerEntry>> enter_directory(const DirectoryPlace& place, const std::string& url) {
  if (place.url.empty()) return nullptr;
  QR_TRY(DirectoryOptions directory, parse_directory(place.url, place.files));
  directory.redis.name = "the directory";
  const std::string& as = place.advertised.empty() ? url : place.advertised;
  log_info("routers of the directory are told of " + as);
  return std::make_unique<WorkerEntry>(std::move(directory.redis), as);
}

}  // namespace quire
