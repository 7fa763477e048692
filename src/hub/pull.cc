#include "hub/pull.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>

#include "base/bounded_reader.h"
#include "base/json.h"
#include "base/mmap.h"
#include "base/size_text.h"
#include "hub/folder_lock.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;

// All of it before the first byte comes.
Status check_room(const std::string& folder, const std::vector<Download>& downloads) {
  double wanted = 0;
  for (const Download& one : downloads) wanted += static_cast<double>(missing_bytes(one));
  struct statvfs disk{};
  if (::statvfs(folder.c_str(), &disk) != 0) return {};  // the write itself will say
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (wanted <= free) return {};
  return fail(Code::exhausted, folder + ": does not fit on the disk: needs " + size_text(static_cast<int64_t>(wanted)) +
                                   " more, has " + size_text(static_cast<int64_t>(free)));
}

}  // namespace

std::vector<HubFile> files_in(const std::string& folder) {
  std::vector<HubFile> out;
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, error);  // folders may go meanwhile
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    const fs::directory_entry& entry = *entries;
    std::error_code gone;
    const uintmax_t bytes = entry.is_regular_file(gone) ? entry.file_size(gone) : 0;
    if (gone || !entry.is_regular_file(gone)) continue;
    HubFile& file = out.emplace_back();
    file.path = entry.path().lexically_relative(folder).string();
    file.size = static_cast<int64_t>(bytes);
  }
  return out;
}

bool has_shards(const std::string& folder) {
  const fs::path index = fs::path(folder) / "model.safetensors.index.json";
  std::error_code error;
  if (!fs::exists(index, error)) return true;
  const auto file = MappedFile::open(index.string());
  if (!file || (*file)->size() > kMaxIndexBytes) return false;
  const auto facts = Json::parse({reinterpret_cast<const char*>((*file)->bytes().data()), (*file)->bytes().size()});
  const Json* map = facts ? facts->find("weight_map") : nullptr;
  if (map == nullptr || map->as_object() == nullptr) return false;
  return std::all_of(map->as_object()->begin(), map->as_object()->end(), [&](const auto& entry) {
    const std::string* name = entry.second.as_string();
    return name != nullptr && fs::exists(fs::path(folder) / *name, error);
  });
}

std::vector<HubChoice> whole_models(const std::string& folder) {
  std::vector<HubChoice> out = all_models(files_in(folder));
  std::erase_if(out, [&](const HubChoice& choice) { return choice.entry.empty() && !has_shards(folder); });
  return out;
}

std::string pulled_before(const std::string& folder, const std::string& file) {
  std::vector<HubFile> whole;
  for (const HubChoice& choice : whole_models(folder))
    whole.insert(whole.end(), choice.files.begin(), choice.files.end());
  const auto choice = choose_files(whole, file);
  if (!choice) return {};
  return choice->entry.empty() ? folder : (fs::path(folder) / choice->entry).string();
}

Result<Pulled> pull(const PullOptions& options,
                    const DownloadProgress& progress,
                    const std::function<void(const PulledFile&)>& done) {
  QR_TRY(Hub hub, Hub::open(options.hub));
  QR_TRY(const HubListing listing, hub.list(options.repo));
  const auto choice = choose_files(listing.files, options.repo.file);
  if (!choice) return error_within(options.repo.id, choice.error());
  const fs::path folder = options.folder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail(Code::io, options.folder + ": cannot be made: " + error.message());
  const FolderLock lock(options.folder);
  if (!lock.take()) return fail(Code::exhausted, options.folder + ": another quire pull writes into this folder");
  Pulled out{.path = (folder / choice->entry).string(), .commit = listing.commit, .files = {}};
  if (choice->entry.empty()) out.path = folder.string();
  std::vector<Download> downloads;
  downloads.reserve(choice->files.size());
  for (const HubFile& file : choice->files)
    downloads.push_back({options.repo.id, listing.commit, file, (folder / file.path).string(), options.replace});
  QR_TRY_VOID(check_room(options.folder, downloads));
  for (const Download& one : downloads) {
    QR_TRY(const DownloadResult how, download(hub, one, progress));
    done(out.files.emplace_back(PulledFile{one.file, one.target, how}));
  }
  return out;
}

}  // namespace quire
