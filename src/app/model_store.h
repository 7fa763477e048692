// Where models are kept that were pulled: one folder, in it ORG/NAME for a hub's and @pypi/NAME for a package's. Any
// thread; another process may add and remove meanwhile.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// `named`, or else $QUIRE_MODELS, $XDG_CACHE_HOME/quire/models, ~/.cache/quire/models; empty without a home.
std::string models_folder(const std::string& named);

// Where the model of a package is kept. `name` passed parse_package_name.
std::string package_folder(const std::string& models, std::string_view name);

// When the file or folder was last changed, in seconds since 1970; 0 where it cannot be seen.
int64_t modified_s(const std::string& path);
struct FileTimes {
  int64_t modified_s = 0;  // as modified_s()
  int64_t changed_ns = 0;  // when it, or who may read it, was changed last, in nanoseconds since 1970
};
// Both 0 where there is no such file.
FileTimes file_times(const std::string& path);

// A model that is there whole.
struct StoredModel {
  std::string name;                // what a command takes as its MODEL
  std::string path;                // its file, the first of a split one, or its folder
  std::vector<std::string> files;  // all of it
  int64_t bytes = 0;
  int64_t modified_s = 0;  // of its first file, since 1970
};
// By name. Empty where there is no such folder.
std::vector<StoredModel> stored_models(const std::string& models);

// The path of "ORG/NAME[:FILE]" or "pypi:NAME" where it is there whole, as ORG/NAME alone would choose among what is
// there; empty otherwise.
std::string stored_model(const std::string& models, const std::string& name);

// Removes "ORG/NAME", all of it, "ORG/NAME:FILE" or "pypi:NAME"; the bytes that were freed. Code::not_found where it is
// not there.
Result<int64_t> remove_stored(const std::string& models, const std::string& name);

}  // namespace quire
