// quire pull: a model from a hub into a local folder.
#include "hub/pull.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "app/command.h"
#include "app/progress.h"
#include "base/json.h"
#include "base/log.h"
#include "base/size_text.h"
#include "hub/choice.h"

namespace quire {
namespace {

struct Args {
  std::string repo, to, models, endpoint;
  int retries = 5;
  bool replace = false, list = false, json = false;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Where models are kept that nobody named a folder for.
Result<std::string> models_folder(const Args& args) {
  if (!args.models.empty()) return args.models;
  if (const std::string data = environment("XDG_DATA_HOME"); !data.empty()) return data + "/quire/models";
  if (const std::string home = environment("HOME"); !home.empty()) return home + "/.local/share/quire/models";
  return fail(Code::invalid, "there is no home folder to keep models in: name one with --to or --models");
}

Result<PullOptions> read_options(const Args& args) {
  PullOptions out;
  QR_TRY_VOID(in_range("--retries", args.retries, 0, 100));
  QR_TRY(out.repo, parse_repo_name(args.repo));
  out.replace = args.replace;
  out.hub.retries = args.retries;
  const std::string hub = environment("HF_ENDPOINT");
  if (!hub.empty()) out.hub.endpoint = hub;
  if (!args.endpoint.empty()) out.hub.endpoint = args.endpoint;
  out.hub.token = environment("HF_TOKEN");
  out.hub.told = [](const std::string& why) { log_warn(why); };
  out.folder = args.to;
  if (!out.folder.empty()) return out;
  QR_TRY(const std::string models, models_folder(args));
  out.folder = models + "/" + out.repo.id;
  return out;
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

Json describe(const HubFile& file) {
  Json out = Json::Object{{"file", file.path}, {"bytes", file.size}};
  if (!file.sha256.empty()) out.set("sha256", file.sha256);
  return out;
}

Status print_list(const Args& args, const PullOptions& options) {
  QR_TRY(Hub hub, Hub::open(options.hub));
  QR_TRY(const HubListing listing, hub.list(options.repo));
  for (const HubFile& file : listing.files) {
    if (args.json) {
      std::printf("%s\n", describe(file).dump().c_str());
    } else {
      std::printf("%10s  %s\n", size_text(file.size).c_str(), file.path.c_str());
    }
  }
  return {};
}

Json describe(const RepoName& repo, const Pulled& pulled) {
  Json::Array files;
  files.reserve(pulled.files.size());
  for (const PulledFile& file : pulled.files) {
    Json one = describe(file.file);
    one.set("path", file.path);
    one.set("fetched_bytes", file.how.fetched_bytes);
    files.push_back(std::move(one));
  }
  return Json::Object{{"repo", repo.id}, {"commit", pulled.commit}, {"path", pulled.path}, {"files", std::move(files)}};
}

// In a shell's line: quotes where it needs them.
std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+@%=:,").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

Status run(const Args& args) {
  QR_TRY(const PullOptions options, read_options(args));
  if (args.list) return print_list(args, options);
  Bars bars;
  const auto progress = [&](const Download& what, bool checking, int64_t bytes) { bars.update(what, checking, bytes); };
  const auto done = [&](const PulledFile& file) {
    bars.clear();
    std::fprintf(stderr, "%s: %s%s\n", file.file.path.c_str(), size_text(file.file.size).c_str(),
                 file.how.was_here ? ", is here" : "");
  };
  QR_TRY(const Pulled pulled, pull(options, progress, done));
  if (args.json) {
    std::printf("%s\n", describe(options.repo, pulled).dump().c_str());
  } else {
    std::printf("%s\n", pulled.path.c_str());
    std::fprintf(stderr, "serve it with: quire serve %s\n", shell_word(pulled.path).c_str());
  }
  return {};
}

QR_REGISTER(Command,
            "pull",
            Command{
                "fetch a model from a hub into a local folder", false, [](CommandLine& line) -> std::function<int()> {
                  auto args = std::make_shared<Args>();
                  line.positional("REPO", args->repo, true,
                                  "ORG/NAME[@REVISION][:FILE]; FILE is a file's name or a tag as Q4_K_M");
                  line.option("--to", args->to, "the folder for the files; empty: ORG/NAME below --models");
                  line.option("--models", args->models,
                              "where models are kept; empty: $XDG_DATA_HOME/quire/models, ~/.local/share there");
                  line.option("--endpoint", args->endpoint,
                              "the hub's address; empty: $HF_ENDPOINT, else Hugging Face's; $HF_TOKEN is sent to it");
                  line.option("--retries", args->retries,
                              "tries after one that failed, each after a longer wait, until one gets further");
                  line.flag("--replace", args->replace, "overwrite files of the same names that have other bytes");
                  line.flag("--list", args->list, "print the repository's files and fetch none");
                  line.flag("--json", args->json, "print one JSON object, or with --list one for each file");
                  return [args] { return exit_code(run(*args)); };
                }});

}  // namespace
}  // namespace quire
