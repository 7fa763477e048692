// What a hub says, as any bytes: a listing is refused or every name in it stays below the folder and every choice is of
// files that are in it; names of repositories and Link headers likewise.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/check.h"
#include "hub/choice.h"
#include "hub/repo.h"

namespace {

using namespace quire;

void check_choice(const std::vector<HubFile>& files, std::string_view wanted) {
  const auto choice = choose_files(files, wanted);
  if (!choice) return;
  QR_CHECK(!choice->files.empty());
  for (const HubFile& file : choice->files) {
    QR_CHECK(std::any_of(files.begin(), files.end(), [&](const HubFile& f) { return f.path == file.path; }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<HubFile> files;
  if (add_listing(bytes, files)) {
    for (const HubFile& file : files) {
      const auto path = (std::filesystem::path("/folder") / file.path).lexically_normal().string();
      QR_CHECK(path.starts_with("/folder/") && path == "/folder/" + file.path, path);
      QR_CHECK(file.size >= 0);
    }
    check_choice(files, "");
    check_choice(files, "Q4_K_M");
    if (!files.empty()) check_choice(files, files.front().path);
  }
  if (const auto next = next_page(bytes)) QR_CHECK(next->find_first_of(" \r\n#") == next->npos);
  if (const auto name = parse_repo_name(bytes)) {
    QR_CHECK(name->id.find("..") == name->id.npos && std::count(name->id.begin(), name->id.end(), '/') == 1);
    QR_CHECK(name->file.empty() || check_hub_path(name->file).has_value());
  }
  (void)parse_commit(bytes);
  return 0;
}
