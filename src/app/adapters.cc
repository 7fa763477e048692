#include "app/adapters.h"

#include <algorithm>
#include <filesystem>

#include "base/bounded_reader.h"
#include "model/lora.h"

namespace quire {
namespace {

struct Named {
  std::string name, folder;
};

Result<Named> split(const std::string& option) {
  const size_t at = option.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == option.size())
    return fail(Code::invalid, "--lora must be NAME=PATH, got \"" + option + "\"");
  return Named{option.substr(0, at), option.substr(at + 1)};
}

}  // namespace

void declare_lora_option(CommandLine& line, std::vector<std::string>& options) {
  line.option("--lora", options,
              "NAME=PATH: a LoRA adapter, a folder of PEFT's or a GGUF file, which requests ask for as model NAME or "
              "base:NAME; may be repeated");
}

void declare_one_lora_option(CommandLine& line, std::vector<std::string>& options) {
  line.option("--lora", options,
              "NAME=PATH: a LoRA adapter, a folder of PEFT's or a GGUF file, with which the model answers");
}

Status check_one_adapter(const std::vector<std::string>& options) {
  if (options.size() > 1)
    return fail(Code::invalid,
                "--lora is given " + std::to_string(options.size()) + " times: this command answers with one adapter");
  return check_adapters(options, {}, ServeLimits{});
}

std::string name_of_adapter(const std::vector<std::string>& options) {
  return options.empty() ? "" : options.front().substr(0, options.front().find('='));
}

Status check_adapters(const std::vector<std::string>& options,
                      const std::vector<std::string>& names,
                      const ServeLimits& limits) {
  std::vector<std::string> given;
  for (const std::string& option : options) {
    QR_TRY(const Named one, split(option));
    if (auto fits = check_adapter_name(one.name, names, limits); !fits)
      return error_within("--lora", std::move(fits).error());
    if (std::ranges::find(given, one.name) != given.end())
      return fail(Code::invalid, "--lora: \"" + one.name + "\" is given twice");
    std::error_code error;
    if (!std::filesystem::exists(one.folder, error))
      return fail(Code::not_found, "--lora " + option + ": no file or folder \"" + one.folder + '"');
    given.push_back(one.name);
  }
  return {};
}

Result<std::unique_ptr<AdapterTable>> load_adapters(const std::vector<std::string>& options,
                                                    const ModelOptions& model,
                                                    const LoadedModel& loaded,
                                                    const ServeLimits& limits) {
  QR_TRY(const LoadOptions how, load_options(model, nullptr));
  const BaseModel base{loaded.path, how.weights};
  auto out = std::make_unique<AdapterTable>(
      [of = loaded.model.get(), ops = loaded.ops.get(), base](const std::string& folder, int64_t most_bytes) {
        return load_lora(folder, *of, *ops, base, most_bytes);
      },
      limits);
  for (const std::string& option : options) {
    QR_TRY(const Named one, split(option));
    if (auto done = out->load(one.name, one.folder, false); !done)
      return error_within("--lora", std::move(done).error());
  }
  return out;
}

}  // namespace quire
