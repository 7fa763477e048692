#include "app/bundled.h"

#include <system_error>

#include "app/model_store.h"

namespace quire {
namespace {

// The folder of the running program; empty where the system does not tell.
std::filesystem::path program_folder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : self.parent_path();
}

}  // namespace

std::string bundled_model_from(const std::filesystem::path& bin, const char* file) {
  const std::filesystem::path above = bin.parent_path();
  for (const auto& folder : {above / "share" / "quire" / "models", above.parent_path() / "models"}) {
    std::error_code error;
    const std::filesystem::path path = folder / file;
    if (std::filesystem::is_regular_file(path, error)) return path.string();
  }
  return {};
}

std::string bundled_model() {
  const std::filesystem::path bin = program_folder();
  return bin.empty() ? std::string() : bundled_model_from(bin, kBundledModel);
}

std::string default_model(const std::string& models) {
  const std::filesystem::path bin = program_folder();
  const std::string fetched = package_folder(models, kDefaultModel.package) + "/" + kDefaultModel.file;
  for (const std::string& path : {bin.empty() ? "" : bundled_model_from(bin, kDefaultModel.file), fetched}) {
    std::error_code error;
    const uintmax_t bytes = path.empty() ? 0 : std::filesystem::file_size(path, error);
    if (!error && bytes == static_cast<uintmax_t>(kDefaultModel.bytes)) return path;
  }
  return {};
}

}  // namespace quire
