#include "app/local_models.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <tuple>

#include "app/command.h"
#include "app/config_file.h"
#include "app/model_store.h"
#include "base/json.h"
#include "base/log.h"
#include "hub/choice.h"
#include "hub/pull.h"
#include "io/gguf_split.h"
#include "text/jinja/unicode.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNameBytes = 255, kPartBytes = 15;  // "-00001-of-00003"
constexpr std::string_view kRouters[] = {"host",     "port",     "admin-host", "admin-port", "api-key", "admin-key",
                                         "api-keys", "tls-cert", "tls-key",    "config",     "name",    "alias"};

// Of "m-00001-of-00003.gguf" that and the parts behind it, up to one that is not there. Of another file that one.
std::vector<fs::path> parts_of(const fs::path& first) {
  std::vector<fs::path> out{first};
  const std::string stem = first.stem().string();
  const size_t at = stem.size() - std::min(kPartBytes, stem.size());
  int n = 0, n_read = 0;
  const bool is_first = std::sscanf(stem.c_str() + at, "-00001-of-%5d%n", &n, &n_read) == 1;
  if (!is_first || static_cast<size_t>(n_read) != kPartBytes || first.extension() != ".gguf") return out;
  for (int i = 1; i < n; ++i) {
    std::error_code error;
    const Result<std::string> next = gguf_part_path(first.string(), {.count = n}, i);
    if (!next || !fs::exists(*next, error)) break;
    out.emplace_back(*next);
  }
  return out;
}

// Of a folder that of its newest file, of a file in parts that of its newest part.
void read_times(const std::string& path, LocalModel& out) {
  std::error_code error;
  const FileTimes own = file_times(path);
  out.changed_ns = own.changed_ns;
  const auto add = [&out](const fs::path& file) {
    const FileTimes times = file_times(file.string());
    out.modified_s = std::max(out.modified_s, times.modified_s);
    out.changed_ns = std::max(out.changed_ns, times.changed_ns);
  };
  if (fs::is_directory(path, error)) {
    fs::directory_iterator entries(path, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      std::error_code gone;
      if (entries->is_regular_file(gone)) add(entries->path());
    }
  } else {
    for (const fs::path& part : parts_of(path)) add(part);
  }
  if (out.modified_s == 0) out.modified_s = own.modified_s;
}

LocalModel describe(std::string name, const fs::path& path, int64_t bytes) {
  std::error_code error;
  LocalModel out;
  out.name = std::move(name);
  out.path = fs::absolute(path, error).lexically_normal().string();
  out.bytes = bytes;
  read_times(out.path, out);
  out.no_room = "does not fit: needs ";  // memory_plan.cc
  out.format = fs::is_directory(path, error) ? "safetensors" : "gguf";
  return out;
}

int64_t weight_bytes(const fs::path& folder) {
  int64_t out = 0;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code gone;
    const uintmax_t bytes = entries->path().extension() == ".safetensors" ? entries->file_size(gone) : 0;
    if (!gone) out += static_cast<int64_t>(bytes);
  }
  return out;
}

int64_t bytes_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return weight_bytes(path);
  int64_t out = 0;
  for (const fs::path& part : parts_of(path)) {
    const auto bytes = static_cast<int64_t>(fs::file_size(part, error));
    out += error ? 0 : bytes;
  }
  return out;
}

// Names of the options of a command, without dashes; of those with two, both.
class OptionNames final : public CommandLine {
 public:
  void option(std::string_view name, std::string&, std::string_view) override { add(name); }
  void option(std::string_view name, int&, const Range&, std::string_view) override { add(name); }
  void option(std::string_view name, int64_t&, const Range&, std::string_view) override { add(name); }
  void option(std::string_view name, uint64_t&, const Range&, std::string_view) override { add(name); }
  void option(std::string_view name, double&, const Range&, std::string_view) override { add(name); }
  void option(std::string_view name, std::vector<std::string>&, std::string_view) override { add(name); }
  void option(std::string_view name, std::vector<int>&, const Range&, std::string_view) override { add(name); }
  void flag(std::string_view name, bool&, std::string_view) override { add(name); }
  void positional(std::string_view, std::string&, bool, std::string_view) override {}
  std::vector<std::string> names;

 private:
  void add(std::string_view name) {
    for (size_t at = 0; at < name.size();) {
      const size_t end = std::min(name.find(',', at), name.size());
      names.emplace_back(name.substr(at + 2, end - at - 2));
      at = end + 1;
    }
  }
};

std::vector<std::string> serve_options() {
  const Command* serve = Registry<Command>::get().find("serve");
  OptionNames out;
  if (serve != nullptr) (void)serve->declare(out);
  return out.names;
}

}  // namespace

bool is_model_name(std::string_view name) {
  const auto is_bad = [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7f || c == '/' || c == '\\' || c == '"';
  };
  if (name.empty() || name.size() > kMostNameBytes || name == "." || name == "..") return false;
  if (std::any_of(name.begin(), name.end(), is_bad)) return false;
  return jinja::is_valid_utf8(name);
}

Result<std::vector<LocalModel>> models_in(const std::string& folder, std::vector<std::string>& left_out) {
  std::error_code error;
  std::vector<HubFile> ggufs;
  std::vector<LocalModel> out;
  const auto add = [&](std::string name, const fs::path& path, int64_t bytes) {
    if (is_model_name(name))
      out.push_back(describe(std::move(name), path, bytes));
    else
      left_out.push_back(path.string());
  };
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code ignored;
    const fs::path& path = entries->path();
    const std::string name = path.filename().string();
    if (entries->is_directory(ignored)) {
      const int64_t bytes = fs::exists(path / "config.json", ignored) ? weight_bytes(path) : 0;
      if (bytes > 0 && has_shards(path.string())) add(name, path, bytes);  // else it may come still
    } else if (entries->is_regular_file(ignored) && name.find("mmproj") == std::string::npos) {
      ggufs.push_back({name, static_cast<int64_t>(entries->file_size(ignored)), "", ""});
    }
  }
  if (error) return fail(Code::io, folder + " cannot be read: " + error.message());
  std::erase_if(ggufs, [](const HubFile& file) { return !file.path.ends_with(".gguf"); });
  for (const HubChoice& choice : all_models(ggufs)) {
    if (choice.entry.empty()) continue;
    std::string name = fs::path(choice.entry).stem().string();
    if (choice.files.size() > 1) name.resize(name.size() - std::min(kPartBytes, name.size()));
    int64_t bytes = 0;
    for (const HubFile& file : choice.files) bytes += file.size;
    add(std::move(name), fs::path(folder) / choice.entry, bytes);
  }
  if (out.empty())
    return fail(Code::not_found, "there is no model in " + folder +
                                     ": no .gguf file, no folder with a config.json and its .safetensors files");
  std::sort(out.begin(), out.end(), [](const LocalModel& a, const LocalModel& b) {
    return std::tie(a.name, a.path) < std::tie(b.name, b.path);
  });
  return out;
}

Result<LocalModel> parse_local_model(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (equals == std::string::npos || !is_model_name(name))
    return fail(
        Code::invalid,
        "must be NAME=PATH with a name of 1 to 255 bytes without slashes, quotes and control characters, got \"" +
            shown(text) + "\"");
  std::string path = text.substr(equals + 1);
  std::error_code error;
  if (!fs::exists(path, error)) {
    const std::string pulled = path.empty() ? "" : stored_model(models_folder(""), path);
    if (pulled.empty())
      return fail(Code::not_found,
                  name + ": there is no file or folder \"" + path + "\", and no such model was pulled");
    path = pulled;
  }
  return describe(name, path, bytes_of(path));
}

std::vector<LocalModel> pulled_local_models() {
  std::vector<LocalModel> out;
  for (const StoredModel& model : stored_models(models_folder("")))
    out.push_back(describe(model.name, model.path, model.bytes));
  return out;
}

Status check_names(const std::vector<LocalModel>& models) {
  for (size_t i = 0; i < models.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (models[i].name == models[k].name)
        return fail(Code::invalid,
                    "two models are called \"" + models[i].name + "\": " + models[k].path + " and " + models[i].path);
  return {};
}

Result<std::vector<LocalModel>> LocalModelSource::read() {
  std::vector<LocalModel> all = named;
  if (!folder.empty()) {
    std::vector<std::string> left_out;
    auto found = models_in(folder, left_out);
    if (!found && found.error().code != Code::not_found) return tl::make_unexpected(std::move(found).error());
    if (found) all.insert(all.end(), found->begin(), found->end());
  }
  if (pulled)
    for (LocalModel& model : pulled_local_models()) all.push_back(std::move(model));
  std::set<std::string> names, losing;
  std::erase_if(all, [&](const LocalModel& model) {
    if (names.insert(model.name).second) return false;
    if (losing.insert(model.path).second && !lost.contains(model.path))
      log_warn("route: " + model.path + " is left out: another model is called " + model.name);
    return true;
  });
  lost = std::move(losing);
  for (LocalModel& model : all) {
    const auto at = own.find(model.name);
    const std::vector<std::string>& given = at != own.end() ? at->second : arguments;
    model.command = serve_command(model, given, keys);
    model.variants = variants_of(given);
  }
  return all;
}

Result<std::vector<std::string>> serve_arguments(const std::vector<std::string>& options) {
  const std::vector<std::string> known = serve_options();
  std::vector<std::string> out;
  for (const std::string& option : options) {
    const std::string name = option.substr(0, option.find('='));
    if (std::find(std::begin(kRouters), std::end(kRouters), name) != std::end(kRouters))
      return fail(Code::invalid, name + " of engines is the router's own to choose");
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string near = nearest(name, known);
      return fail(Code::invalid, "quire serve has no option --" + shown(name) +
                                     (near.empty() ? "; it is given as NAME=VALUE" : "; did you mean " + near + "?"));
    }
    out.push_back("--" + option);
  }
  return out;
}

Result<std::vector<std::vector<std::string>>> model_arguments(const std::vector<std::string>& options,
                                                              const std::vector<LocalModel>& models,
                                                              const std::vector<std::string>& of_all) {
  std::vector<std::vector<std::string>> own(models.size());
  for (const std::string& option : options) {
    const LocalModel* meant = nullptr;
    for (const LocalModel& model : models) {
      if (!option.starts_with(model.name + "=")) continue;
      if (meant == nullptr || model.name.size() > meant->name.size()) meant = &model;
    }
    if (meant == nullptr)
      return fail(Code::invalid, "must be MODEL=NAME=VALUE with the name of a model that is served here, got \"" +
                                     shown(option) + "\"");
    own[static_cast<size_t>(meant - models.data())].push_back(option.substr(meant->name.size() + 1));
  }
  const auto name_of = [](const std::string& argument) { return argument.substr(0, argument.find('=')); };
  for (std::vector<std::string>& one : own) {
    QR_TRY(const std::vector<std::string> given, serve_arguments(one));
    one.clear();
    for (const std::string& general : of_all)
      if (std::ranges::none_of(given, [&](const auto& mine) { return name_of(mine) == name_of(general); }))
        one.push_back(general);
    one.insert(one.end(), given.begin(), given.end());
  }
  return own;
}

std::vector<std::string> variants_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (const std::string& argument : arguments)
    for (const std::string_view option : {"--prefix=", "--lora="}) {
      if (!argument.starts_with(option)) continue;
      const std::string given = argument.substr(option.size());
      out.push_back(given.substr(0, given.find('=')));
    }
  return out;
}

ChildSpec serve_command(const LocalModel& model,
                        const std::vector<std::string>& arguments,
                        const std::vector<ApiKey>& keys) {
  ChildSpec out;
  out.program = "/proc/self/exe";
  out.arguments = {"quire", "serve", model.path, "--name=" + model.name, "--host=127.0.0.1", "--port=0"};
  out.arguments.insert(out.arguments.end(), arguments.begin(), arguments.end());
  out.environment = environment_without("QUIRE_");
  if (const char* models = std::getenv("QUIRE_MODELS"))
    out.environment.push_back("QUIRE_MODELS=" + std::string(models));
  if (keys.empty()) return out;
  Json::Array list;
  for (const ApiKey& key : keys) {
    Json::Array scopes;
    if (key.inference) scopes.push_back("inference");
    if (key.admin) scopes.push_back("admin");
    list.push_back(Json::Object{{"name", key.name}, {"sha256", hex_of(key.hash)}, {"scopes", std::move(scopes)}});
  }
  out.arguments.push_back("--api-keys=/dev/stdin");
  out.input = Json(Json::Object{{"keys", std::move(list)}}).dump();
  return out;
}

}  // namespace quire
