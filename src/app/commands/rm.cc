// quire rm: removes a model that was pulled.
#include <cstdio>

#include "app/command.h"
#include "app/model_store.h"
#include "base/size_text.h"

namespace quire {
namespace {

struct Args {
  std::string name, models;
};

Status run(const Args& args) {
  QR_TRY(const int64_t bytes, remove_stored(models_folder(args.models), args.name));
  std::printf("removed %s, %s\n", args.name.c_str(), size_text(bytes).c_str());
  return {};
}

QR_REGISTER(Command,
            "rm",
            Command{"remove a model that was pulled", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("MODEL", args->name, true, "its name, as `quire list` prints it");
                      line.option("--models", args->models, "where models are kept; empty: as `quire pull` says");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
