// A model from a hub into a folder: its listing, the choice of files, one download after the other. One pull at a time
// writes into a folder. Blocking; one thread.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/choice.h"
#include "hub/download.h"
#include "hub/hub.h"

namespace quire {

struct PullOptions {
  HubOptions hub;
  RepoName repo;
  std::string folder;    // where the files go; it is made
  bool replace = false;  // files of the same names with other bytes give way
};

struct PulledFile {
  HubFile file;
  std::string path;
  DownloadResult how;
};

struct Pulled {
  std::string path;  // what a command takes as its MODEL
  std::string commit;
  std::vector<PulledFile> files;
};

// Errors name the file; Code::exhausted also for a folder that another pull writes into. `done` after each file.
Result<Pulled> pull(const PullOptions& options,
                    const DownloadProgress& progress,
                    const std::function<void(const PulledFile&)>& done);

// What a folder holds, below it, as a listing without digests; half-fetched files among them.
std::vector<HubFile> files_in(const std::string& folder);
// Whether all weights are there that its index of shards names; true where it has no index.
bool has_shards(const std::string& folder);
// The models in a folder that earlier pulls have fetched whole.
std::vector<HubChoice> whole_models(const std::string& folder);
// What pull() would return as the path of `file`, chosen among whole_models(); empty where that is none. Asks no hub.
std::string pulled_before(const std::string& folder, const std::string& file);

}  // namespace quire
