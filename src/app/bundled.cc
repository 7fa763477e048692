#include "app/bundled.h"

#include <system_error>

namespace quire {

std::string bundled_model_from(const std::filesystem::path& bin) {
  const std::filesystem::path above = bin.parent_path();
  for (const auto& folder : {above / "share" / "quire" / "models", above.parent_path() / "models"}) {
    std::error_code error;
    const std::filesystem::path file = folder / kBundledModel;
    if (std::filesystem::is_regular_file(file, error)) return file.string();
  }
  return {};
}

std::string bundled_model() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : bundled_model_from(self.parent_path());
}

}  // namespace quire
