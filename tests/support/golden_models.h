// The models of tests/golden/models, as the parameters of tests. The build makes the folders, weights and all.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace quire {

inline constexpr const char* kGoldenModels = "build/golden/models/";

// Every model that there is: one of each architecture, and further ones that differ in their values.
inline std::vector<std::string> golden_models() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldenModels)) {
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// What there is of one: its folder, or its GGUF file where nobody has folders of that kind.
inline bool golden_has_folder(const std::string& name) {
  return std::filesystem::exists(kGoldenModels + name + "/config.json");
}
inline std::string golden_path(const std::string& name) {
  return kGoldenModels + name + (golden_has_folder(name) ? "" : "/model.gguf");
}

inline std::string golden_model_name(const testing::TestParamInfo<std::string>& each) {
  std::string out = each.param;
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

}  // namespace quire
