// What a repository of a hub holds: its name as a user writes it, and the hub's listing of its files. Nothing that a
// hub says is trusted: names stay below the folder that they are put into, sizes and counts are bounded. Pure, any
// thread. The form of listings: Hugging Face's hub, /api/models/ORG/NAME/tree/REVISION.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// "ORG/NAME[@REVISION][:FILE]".
struct RepoName {
  std::string id;  // ORG/NAME
  std::string revision = "main";
  std::string file;  // a file's name or a tag as "Q4_K_M"; empty: nobody asked for one
};
// Code::invalid names the part that cannot be meant.
Result<RepoName> parse_repo_name(std::string_view text);

struct HubFile {
  std::string path;  // below the repository's root; passed check_hub_path
  int64_t size = 0;
  std::string sha256, git_sha1;  // lower-case hexadecimal; one of them may be empty, or both
  // The better of the two, empty where there is none.
  const std::string& digest() const { return !sha256.empty() ? sha256 : git_sha1; }
};

// Code::corrupt unless `path` names a file below the folder that it is appended to: no "..", no leading slash, no
// backslash or control character; at most 1024 bytes, 255 between two slashes, 16 folders deep.
Status check_hub_path(std::string_view path);

// Appends the files of one page of a listing. Code::corrupt for text of another form, names that check_hub_path
// refuses, files twice, sizes outside of 0 to 2^50.
Status add_listing(std::string_view json, std::vector<HubFile>& files);

// The commit that a revision stands for, from /api/models/ORG/NAME/revision/REVISION: 40 or 64 hexadecimal digits.
Result<std::string> parse_commit(std::string_view json);

// The query of the next page from a Link header (`<https://…/tree/main?cursor=x>; rel="next"`). Where else the address
// leads is left out: a listing does not send us to another server.
std::optional<std::string> next_page(std::string_view link);

// For a path within a URL: everything but letters, digits and -._~ as %XX; slashes too unless they are kept.
std::string url_escape(std::string_view text, bool keep_slashes);

}  // namespace quire
