// One file of a repository on its way into a folder. The one idea: bytes gather in NAME.<digest>.part, named after what
// they are to become, so that any part can be gone on with; the file's own name appears by rename, when every byte is
// there and the digest is right. One thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/hub.h"

namespace quire {

struct Download {
  std::string id, commit;
  HubFile file;
  std::string target;    // where it goes; its folder is made
  bool replace = false;  // another file of that name gives way; otherwise it is an error
};

// `checking`: bytes that are here are read and added up; otherwise they are coming from the hub.
using DownloadProgress = std::function<void(const Download&, bool checking, int64_t bytes)>;

struct DownloadResult {
  int64_t fetched_bytes = 0;
  bool was_here = false;  // whole and right
};

// What is not here yet, by the sizes of files alone.
int64_t missing_bytes(const Download& what);

// Code::exhausted: no room; Code::corrupt: whole and wrong, and kept as NAME.wrong; Code::invalid: another file has the
// name. What has come stays in the part file whatever happens.
Result<DownloadResult> download(Hub& hub, const Download& what, const DownloadProgress& progress);

}  // namespace quire
