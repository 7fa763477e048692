// The folders of tests/golden/quantised, one for each way of quantising, as the parameters of tests.
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace quire {

inline constexpr const char* kQuantisedFolders = "tests/golden/quantised/";

inline std::vector<std::string> quantised_folders() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(kQuantisedFolders)) {
    out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace quire
