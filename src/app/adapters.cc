#include "app/adapters.h"

#include <algorithm>
#include <filesystem>

#include "base/bounded_reader.h"
#include "model/lora.h"
#include "ops/forwarding_ops.h"
#include "ops/held_numbers.h"

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

// A backend that says how much memory it lacks for an adapter.
class LackingOps final : public ForwardingOps {
 public:
  LackingOps(Ops& ops, int64_t& lacks) : ops_(ops), lacks_(lacks) {}
  Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) override {
    auto out = ops_.load_low_rank(from, to);
    if (!out && out.error().code == Code::exhausted) {
      const int64_t left = std::max<int64_t>(ops_.free_bytes(), 0);
      lacks_ = std::max<int64_t>(bytes_of(from) - left, 1);
    }
    return out;
  }

 private:
  static int64_t bytes_of(std::span<const LowRankSource> from) {
    int64_t out = 0;
    for (const LowRankSource& one : from) {
      for (const auto numbers : {one.a, one.b}) out += std::ssize(numbers) * held_bytes(narrowest(numbers));
    }
    return out;
  }
  Ops& target() const override { return ops_; }
  Ops& ops_;
  int64_t& lacks_;
};

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

int64_t adapter_bytes_of(const std::vector<std::string>& options, const ServeLimits& limits) {
  int64_t out = 0;
  for (const std::string& option : options) {
    const auto one = split(option);
    if (!one) continue;
    std::filesystem::path path = one->folder;
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) path /= "adapter_model.safetensors";
    const auto bytes = std::filesystem::file_size(path, error);
    if (!error) out += 2 * static_cast<int64_t>(bytes);
  }
  return std::min(out, limits.adapter_bytes);
}

Result<std::unique_ptr<AdapterTable>> load_adapters(const std::vector<std::string>& options,
                                                    const ModelOptions& model,
                                                    const LoadedModel& loaded,
                                                    const ServeLimits& limits) {
  QR_TRY(const LoadOptions how, load_options(model, nullptr));
  const BaseModel base{loaded.path, how.weights};
  auto out = std::make_unique<AdapterTable>(
      [of = loaded.model.get(), ops = loaded.ops.get(), base](const std::string& folder, AdapterTable::Room& room) {
        LackingOps lacking(*ops, room.backend_lacks);
        return load_lora(folder, *of, lacking, base, room.most_bytes);
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
