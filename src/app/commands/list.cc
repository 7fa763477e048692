// quire list: the models that were pulled.
#include <cstdio>
#include <ctime>

#include "app/bundled.h"
#include "app/command.h"
#include "app/model_store.h"
#include "base/json.h"
#include "base/size_text.h"

namespace quire {
namespace {

struct Args {
  std::string models;
  bool json = false;
};

std::string day(int64_t seconds) {
  const std::time_t at = seconds;
  std::tm parts{};
  localtime_r(&at, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts)};
}

Status run(const Args& args) {
  const std::string folder = models_folder(args.models);
  const std::vector<StoredModel> models = stored_models(folder);
  if (args.json) {
    for (const StoredModel& model : models) {
      const Json one = Json::Object{
          {"name", model.name}, {"path", model.path}, {"bytes", model.bytes}, {"modified_s", model.modified_s}};
      std::printf("%s\n", one.dump().c_str());
    }
    return {};
  }
  size_t width = 4;
  for (const StoredModel& model : models) width = std::max(width, model.name.size());
  if (!models.empty()) std::printf("%-*s  %10s  %s\n", static_cast<int>(width), "NAME", "SIZE", "MODIFIED");
  for (const StoredModel& model : models) {
    std::printf("%-*s  %10s  %s\n", static_cast<int>(width), model.name.c_str(), size_text(model.bytes).c_str(),
                day(model.modified_s).c_str());
  }
  if (models.empty()) std::fprintf(stderr, "no models in %s yet: quire pull ORG/NAME fetches one\n", folder.c_str());
  return {};
}

QR_REGISTER(Command,
            "list",
            Command{"the models that were pulled", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.option("--models", args->models, "where models are kept; empty: as `quire pull` says");
                      line.flag("--json", args->json, "print a JSON object for each model");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
