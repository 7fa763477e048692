#include "app/model_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/nanoseconds.h"
#include "hub/choice.h"
#include "hub/package.h"
#include "hub/pull.h"
#include "hub/repo.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackages = "@pypi";  // no organisation's name begins with it

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::directory_entry& entry = *entries;
    std::error_code gone;
    if (entry.is_directory(gone) && !entry.path().filename().string().starts_with('.')) out.push_back(entry.path());
  }
  return out;
}

StoredModel describe(std::string name, const fs::path& folder, const HubChoice& choice) {
  StoredModel out{.name = std::move(name), .path = (folder / choice.entry).string(), .files = {}};
  if (choice.entry.empty()) out.path = folder.string();
  for (const HubFile& file : choice.files) {
    out.files.push_back((folder / file.path).string());
    out.bytes += file.size;
  }
  if (!out.files.empty()) out.modified_s = modified_s(out.files.front());
  return out;
}

void add_package(const fs::path& folder, std::vector<StoredModel>& out) {
  const std::string path = gguf_in(folder.string());
  std::error_code error;
  const auto bytes = path.empty() ? 0 : static_cast<int64_t>(fs::file_size(path, error));
  if (path.empty() || error) return;
  out.push_back({.name = std::string(kPackagePrefix) + folder.filename().string(),
                 .path = path,
                 .files = {path},
                 .bytes = bytes,
                 .modified_s = modified_s(path)});
}

// The name of a hub's model alone where there is one, with its file otherwise.
void add_repository(const std::string& id, const fs::path& folder, std::vector<StoredModel>& out) {
  const std::vector<HubChoice> choices = whole_models(folder.string());
  for (const HubChoice& choice : choices) {
    const bool alone = choices.size() == 1 || choice.entry.empty();
    out.push_back(describe(alone ? id : id + ":" + choice.entry, folder, choice));
  }
}

// Folders that are empty now go too, up to `models`.
void remove_empty(fs::path folder, const fs::path& models) {
  std::error_code error;
  while (folder != models && fs::remove(folder, error)) folder = folder.parent_path();
}

}  // namespace

std::string models_folder(const std::string& named) {
  if (!named.empty()) return named;
  if (const std::string models = environment("QUIRE_MODELS"); !models.empty()) return models;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/quire/models";
  if (const std::string home = environment("HOME"); !home.empty()) return home + "/.cache/quire/models";
  return {};
}

int64_t modified_s(const std::string& path) { return file_times(path).modified_s; }

FileTimes file_times(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_mtime, info.st_ctim.tv_sec * kNsPerSecond + info.st_ctim.tv_nsec};
}

std::string package_folder(const std::string& models, std::string_view name) {
  return models + "/" + kPackages + "/" + std::string(name);
}

std::vector<StoredModel> stored_models(const std::string& models) {
  std::vector<StoredModel> out;
  for (const fs::path& organisation : folders_in(models)) {
    for (const fs::path& folder : folders_in(organisation)) {
      if (organisation.filename() == kPackages) {
        add_package(folder, out);
      } else {
        add_repository(organisation.filename().string() + "/" + folder.filename().string(), folder, out);
      }
    }
  }
  std::sort(out.begin(), out.end(), [](const StoredModel& a, const StoredModel& b) { return a.name < b.name; });
  return out;
}

std::string stored_model(const std::string& models, const std::string& name) {
  if (models.empty()) return {};
  if (const auto package = parse_package_name(name)) return gguf_in(package_folder(models, package->name));
  const auto repo = parse_repo_name(name);
  return repo ? pulled_before(models + "/" + repo->id, repo->file) : std::string();
}

Result<int64_t> remove_stored(const std::string& models, const std::string& name) {
  const auto not_there = [&] {
    return fail(Code::not_found, name + ": there is no such model in " + models + "; quire list shows what there is");
  };
  const auto package = parse_package_name(name);
  const auto repo = parse_repo_name(name);
  if (!package && !repo) return not_there();
  const fs::path folder = package ? fs::path(package_folder(models, package->name)) : fs::path(models) / repo->id;
  int64_t bytes = 0;
  std::error_code error;
  const bool whole_folder = package.has_value() || repo->file.empty();
  std::vector<fs::path> files;
  if (whole_folder) {
    std::error_code failure;
    const fs::recursive_directory_iterator end;
    for (fs::recursive_directory_iterator at(folder, failure); !failure && at != end; at.increment(failure))
      if (at->is_regular_file(error)) files.push_back(at->path());
    if (failure && failure != std::errc::no_such_file_or_directory)
      return fail(Code::io, folder.string() + ": cannot be read: " + failure.message());
  } else if (const auto choice = choose_files(files_in(folder.string()), repo->file)) {
    for (const HubFile& file : choice->files) files.push_back(folder / file.path);
  }
  if (files.empty()) return not_there();
  for (const fs::path& file : files) bytes += static_cast<int64_t>(fs::file_size(file, error));
  for (const fs::path& file : files) {
    if (!fs::remove(file, error) && error)
      return fail(Code::io, file.string() + ": cannot be removed: " + error.message());
  }
  if (whole_folder) fs::remove_all(folder, error);
  remove_empty(whole_folder ? folder.parent_path() : files.front().parent_path(), fs::path(models));
  return bytes;
}

}  // namespace quire
