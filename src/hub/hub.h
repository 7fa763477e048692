// A hub that speaks as Hugging Face's does: what a repository holds, and its files. Tries again where that may help;
// says what to do where it does not. One thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/repo.h"
#include "hub/transfer.h"

namespace quire {

inline constexpr const char* kDefaultEndpoint = "https://huggingface.co";

struct HubOptions {
  std::string endpoint = kDefaultEndpoint;            // http:// or https://, a host, perhaps a path
  std::string token;                                  // printable ASCII; empty: none
  int retries = 5;                                    // in a row that got no further
  std::function<void(const std::string&)> told = {};  // why there is a wait before another try
};

// What a repository held at one commit.
struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

class Hub {
 public:
  // Code::invalid names the endpoint or the token where it cannot be meant; Code::unsupported: no libcurl.
  static Result<Hub> open(HubOptions options);

  // Asks which commit the revision is, and for that commit's files.
  Result<HubListing> list(const RepoName& repo);

  // The file's bytes from sink.from() on, over as many connections as it takes. Errors name the file.
  Status fetch(const std::string& id, const std::string& commit, const HubFile& file, HubSink& sink);

 private:
  Hub(HubOptions options, std::unique_ptr<HubTransfer> transfer);
  Result<HubAnswer> get(const std::string& url, HubSink& sink);
  Result<HubAnswer> get_text(const std::string& url, std::string& text);
  Error refusal(const HubAnswer& answer, const std::string& id, const std::string& what) const;

  HubOptions options_;
  std::unique_ptr<HubTransfer> transfer_;
};

}  // namespace quire
