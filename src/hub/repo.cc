#include "hub/repo.h"

#include <algorithm>
#include <unordered_set>

#include "base/bounded_reader.h"
#include "base/json.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr size_t kMaxNameBytes = 96, kMaxRevisionBytes = 200;
constexpr size_t kMaxPathBytes = 1024, kMaxPartBytes = 255;
constexpr int kMaxDepth = 16;
constexpr size_t kMaxFiles = 100'000;
constexpr int64_t kMaxFileBytes = int64_t{1} << 50;

bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
bool is_hex(std::string_view text, size_t n) {
  return text.size() == n &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxNameBytes || text.front() == '-' || text.front() == '.') return false;
  return text.find("..") == text.npos &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_revision(std::string_view text) {  // a branch, a tag, a commit, refs/pr/1
  if (text.empty() || text.size() > kMaxRevisionBytes || text.find("..") != text.npos) return false;
  return is_alnum(text.front()) && std::all_of(text.begin(), text.end(), [](char c) {
           return is_alnum(c) || c == '-' || c == '_' || c == '.' || c == '/' || c == '+';
         });
}

tl::unexpected<Error> bad_listing(const std::string& what) {
  return fail(Code::corrupt, "the hub's listing cannot be read: " + what);
}

// The digest of one entry, empty where the hub has none in the form that we know.
std::string digest_at(const Json* holder, size_t n_digits) {
  const Json* oid = holder != nullptr ? holder->find("oid") : nullptr;
  const std::string* text = oid != nullptr ? oid->as_string() : nullptr;
  if (text == nullptr) return "";
  const std::string_view prefix = "sha256:";
  const std::string_view digits = std::string_view(*text).substr(text->starts_with(prefix) ? prefix.size() : 0);
  return is_hex(digits, n_digits) ? std::string(digits) : "";
}

// nullopt for a folder.
Result<std::optional<HubFile>> read_entry(const Json& entry) {
  const Json* type = entry.find("type");
  const Json* path = entry.find("path");
  if (type == nullptr || type->as_string() == nullptr || path == nullptr || path->as_string() == nullptr)
    return bad_listing("an entry without type and path");
  if (*type->as_string() == "directory") return std::nullopt;
  QR_TRY_VOID(check_hub_path(*path->as_string()));
  HubFile file;
  file.path = *path->as_string();
  const Json* lfs = entry.find("lfs");
  // A large file's own oid is that of the pointer which stands for it in git.
  file.sha256 = digest_at(lfs, 64);
  if (lfs == nullptr || lfs->is_null()) file.git_sha1 = digest_at(&entry, 40);
  const Json* size = entry.find("size");
  if (size == nullptr || size->as_int() == nullptr || *size->as_int() < 0 || *size->as_int() > kMaxFileBytes)
    return bad_listing("the size of " + in_quotes(file.path) + " is no number of bytes");
  file.size = *size->as_int();
  return file;
}

}  // namespace

Result<RepoName> parse_repo_name(std::string_view text) {
  RepoName out;
  const size_t slash = text.find('/');
  const size_t colon = text.find(':', slash == text.npos ? 0 : slash);
  if (colon != text.npos) {
    out.file = text.substr(colon + 1);
    if (!check_hub_path(out.file))
      return fail(Code::invalid, "FILE " + in_quotes(out.file) + ": is neither a file's name nor a tag as Q4_K_M");
  }
  std::string_view id = text.substr(0, colon);
  if (const size_t at = id.find('@'); at != id.npos) {
    out.revision = id.substr(at + 1);
    id = id.substr(0, at);
    if (!is_revision(out.revision))
      return fail(Code::invalid, "REVISION " + in_quotes(out.revision) + ": is no branch, tag or commit");
  }
  if (slash == text.npos || slash >= id.size() || !is_name(id.substr(0, slash)) || !is_name(id.substr(slash + 1)))
    return fail(Code::invalid, in_quotes(id) + ": a model of a hub is written ORG/NAME[@REVISION][:FILE]");
  out.id = id;
  return out;
}

Status check_hub_path(std::string_view path) {
  const auto refuse = [&](const char* why) {
    return fail(Code::corrupt, "the file name " + in_quotes(path) + ": " + why);
  };
  if (path.empty() || path.size() > kMaxPathBytes) return refuse("must have 1 to 1024 bytes");
  int depth = 0;
  for (size_t begin = 0; begin <= path.size(); ++depth) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return refuse("leads out of its folder");
    if (part.size() > kMaxPartBytes) return refuse("has a part of more than 255 bytes");
    begin = end + 1;
  }
  if (depth > kMaxDepth) return refuse("lies more than 16 folders deep");
  for (size_t i = 0; i < path.size(); ++i) {
    const auto byte = static_cast<unsigned char>(path[i]);
    // U+0080 to U+009F are control characters too: C2 80 to C2 9F.
    const bool is_c1 = byte == 0xc2 && i + 1 < path.size() && static_cast<unsigned char>(path[i + 1]) < 0xa0;
    if (byte < 0x20 || byte == 0x7f || byte == '\\' || is_c1) return refuse("has a backslash or a control character");
  }
  return {};
}

Status add_listing(std::string_view json, std::vector<HubFile>& files) {
  const auto page = Json::parse(json);
  if (!page) return bad_listing(page.error().message);
  if (page->as_array() == nullptr) return bad_listing("it is no list");
  std::unordered_set<std::string> seen;
  for (const HubFile& file : files) seen.insert(file.path);
  for (const Json& entry : *page->as_array()) {
    QR_TRY(std::optional<HubFile> file, read_entry(entry));
    if (!file) continue;
    if (!seen.insert(file->path).second) return bad_listing("the file " + in_quotes(file->path) + " is in it twice");
    if (files.size() == kMaxFiles) return bad_listing("more than " + std::to_string(kMaxFiles) + " files");
    files.push_back(std::move(*file));
  }
  return {};
}

Result<std::string> parse_commit(std::string_view json) {
  const auto facts = Json::parse(json);
  if (!facts) return error_within("the hub's answer about the revision cannot be read", facts.error());
  const Json* sha = facts->find("sha");
  const std::string* text = sha != nullptr ? sha->as_string() : nullptr;
  if (text == nullptr || !(is_hex(*text, 40) || is_hex(*text, 64)))
    return fail(Code::corrupt, "the hub's answer about the revision has no commit (\"sha\")");
  return *text;
}

std::optional<std::string> next_page(std::string_view link) {
  while (!link.empty()) {
    const size_t open = link.find('<'), close = link.find('>', open == link.npos ? 0 : open);
    if (open == link.npos || close == link.npos) return std::nullopt;
    const std::string_view target = link.substr(open + 1, close - open - 1);
    const size_t next = link.find('<', close);
    const std::string_view parameters = link.substr(close + 1, next == link.npos ? link.npos : next - close - 1);
    link.remove_prefix(std::min(next, link.size()));
    if (parameters.find("rel=\"next\"") == parameters.npos && parameters.find("rel=next") == parameters.npos) continue;
    const size_t query = target.find('?');
    const auto is_bad = [](char c) { return c <= 0x20 || c >= 0x7f || c == '#'; };
    if (query == target.npos || std::any_of(target.begin(), target.end(), is_bad)) return std::nullopt;
    return std::string(target.substr(query + 1));
  }
  return std::nullopt;
}

std::string url_escape(std::string_view text, bool keep_slashes) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

}  // namespace quire
