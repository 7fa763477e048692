#include "hub/choice.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/lower_case.h"
#include "base/size_text.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

// From what most people want to what is larger than it needs to be, then what loses much.
constexpr std::array kPreferred = {"Q4_K_M", "Q8_0", "Q4_K_S", "Q5_K_M", "Q5_K_S", "Q6_K", "Q4_0", "Q4_1",   "IQ4_NL",
                                   "IQ4_XS", "Q5_0", "Q5_1",   "BF16",   "F16",    "F32",  "FP16", "Q3_K_M", "Q2_K"};

constexpr std::array kFolderFiles = {"config.json",
                                     "generation_config.json",
                                     "quantize_config.json",
                                     "quant_config.json",
                                     "hf_quant_config.json",
                                     "tokenizer.json",
                                     "tokenizer.model",
                                     "tokenizer_config.json",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "vocab.json",
                                     "merges.txt",
                                     "vocab.txt",
                                     "chat_template.jinja",
                                     "chat_template.json",
                                     "tiktoken.model",
                                     "qwen.tiktoken",
                                     "LICENSE",
                                     "LICENSE.txt",
                                     "LICENSE.md",
                                     "NOTICE"};

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kWholeName = "model.safetensors";
constexpr size_t kMaxListed = 40;

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A GGUF model: one file, or all parts NAME-00001-of-00003.gguf by their number.
struct Gguf {
  std::string stem;  // the path without the part's number and ".gguf"
  int64_t n_parts = 1;
  std::map<int64_t, const HubFile*> parts;

  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& [no, file] : parts) sum += file->size;
    return sum;
  }
};

bool is_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct PartName {
  std::string_view stem;
  int64_t no = 1, count = 1;
};

PartName part_name(std::string_view path) {
  constexpr size_t kEnding = 5, kNumbers = 15;  // ".gguf", "-00001-of-00003"
  const std::string_view stem = path.substr(0, path.size() - kEnding);
  if (stem.size() <= kNumbers) return {stem};
  const std::string_view end = stem.substr(stem.size() - kNumbers);
  if (end[0] != '-' || end.substr(6, 4) != "-of-" || !is_digits(end.substr(1, 5)) || !is_digits(end.substr(10)))
    return {stem};
  return {stem.substr(0, stem.size() - kNumbers), std::stoll(std::string(end.substr(1, 5))),
          std::stoll(std::string(end.substr(10)))};
}

// Projectors of images, importance matrices and vocabularies are no models.
bool is_model_gguf(std::string_view path) {
  const std::string name = lower_case(base_name(path));
  return name.ends_with(".gguf") && !name.starts_with("mmproj") && name.find("imatrix") == name.npos &&
         name.find("vocab") == name.npos;
}

std::vector<Gguf> find_ggufs(std::span<const HubFile> files) {
  std::map<std::pair<std::string, int64_t>, Gguf> found;
  for (const HubFile& file : files) {
    if (!is_model_gguf(file.path)) continue;
    const PartName name = part_name(file.path);
    Gguf& gguf = found[{std::string(name.stem), name.count}];
    gguf.stem = name.stem;
    gguf.n_parts = name.count;
    gguf.parts[name.no] = &file;
  }
  std::vector<Gguf> out;
  out.reserve(found.size());
  for (auto& [key, gguf] : found) out.push_back(std::move(gguf));
  return out;
}

// Whether a file's name has the tag between other words: "m-Q4_K-x" has Q4_K, "m-Q4_K_M" has not.
bool has_tag(const Gguf& gguf, std::string_view tag) {
  const std::string name = lower_case(base_name(gguf.stem)), wanted = lower_case(tag);
  if (wanted.empty()) return false;
  for (size_t at = name.find(wanted); at != name.npos; at = name.find(wanted, at + 1)) {
    const char before = at == 0 ? '-' : name[at - 1];
    const char after = at + wanted.size() == name.size() ? '-' : name[at + wanted.size()];
    if ((before == '-' || before == '.' || before == '_') && (after == '-' || after == '.')) return true;
  }
  return false;
}

std::string list(std::vector<std::pair<std::string, int64_t>> names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMaxListed); ++i)
    out += "\n  " + in_quotes(names[i].first) + "  " + size_text(names[i].second);
  if (names.size() > kMaxListed) out += "\n  and " + std::to_string(names.size() - kMaxListed) + " more";
  return out;
}

std::string list_ggufs(const std::vector<const Gguf*>& ggufs) {
  std::vector<std::pair<std::string, int64_t>> names;
  names.reserve(ggufs.size());
  for (const Gguf* gguf : ggufs) {
    if (!gguf->parts.empty()) names.emplace_back(gguf->parts.begin()->second->path, gguf->bytes());
  }
  return list(std::move(names));
}

std::string list_files(std::span<const HubFile> files) {
  std::vector<std::pair<std::string, int64_t>> names;
  names.reserve(files.size());
  for (const HubFile& file : files) names.emplace_back(file.path, file.size);
  return list(std::move(names));
}

Result<HubChoice> take(const Gguf& gguf) {
  HubChoice out;
  for (int64_t no = 1; no <= gguf.n_parts; ++no) {
    const auto it = gguf.parts.find(no);
    if (it == gguf.parts.end()) {
      return fail(Code::not_found, in_quotes(gguf.stem) + ": part " + std::to_string(no) + " of " +
                                       std::to_string(gguf.n_parts) + " is not in the repository");
    }
    out.files.push_back(*it->second);
  }
  if (out.files.empty() || gguf.parts.size() != out.files.size())
    return fail(Code::corrupt, in_quotes(gguf.stem) + ": its parts are numbered beyond their count");
  out.entry = out.files.front().path;
  return out;
}

std::vector<const Gguf*> with_tag(const std::vector<Gguf>& ggufs, std::string_view tag) {
  std::vector<const Gguf*> out;
  for (const Gguf& gguf : ggufs) {
    if (has_tag(gguf, tag)) out.push_back(&gguf);
  }
  return out;
}

Result<HubChoice> choose_gguf(const std::vector<Gguf>& ggufs) {
  if (ggufs.size() == 1) return take(ggufs.front());
  std::vector<const Gguf*> left;
  for (const char* tag : kPreferred) {
    left = with_tag(ggufs, tag);
    if (left.size() == 1) return take(*left.front());
    if (!left.empty()) break;
  }
  if (left.empty()) {
    for (const Gguf& gguf : ggufs) left.push_back(&gguf);
  }
  return fail(Code::invalid, "there are several models; name one as ORG/NAME:FILE:" + list_ggufs(left));
}

bool is_shard(std::string_view path) {
  return path.starts_with("model-") && path.ends_with(".safetensors") && path.find('/') == path.npos;
}

Result<HubChoice> choose_folder(std::span<const HubFile> files) {
  const auto has = [&](std::string_view path) {
    return std::any_of(files.begin(), files.end(), [&](const HubFile& f) { return f.path == path; });
  };
  const bool sharded = has(kIndexName);
  if (!has("config.json") || !(sharded || has(kWholeName))) {
    return fail(
        Code::not_found,
        "there is neither a GGUF file nor a folder of config.json and model.safetensors (weights in .bin and .pth "
        "are pickled code and not opened); what there is:" +
            list_files(files));
  }
  HubChoice out;
  const auto is_small = [&](const HubFile& f) {
    return std::find(kFolderFiles.begin(), kFolderFiles.end(), f.path) != kFolderFiles.end();
  };
  // What is small comes first: a model that cannot be opened is then known before its weights are fetched.
  std::copy_if(files.begin(), files.end(), std::back_inserter(out.files), is_small);
  std::copy_if(files.begin(), files.end(), std::back_inserter(out.files), [&](const HubFile& f) {
    return sharded ? f.path == kIndexName || is_shard(f.path) : f.path == kWholeName;
  });
  return out;
}

std::optional<Result<HubChoice>> choose_by_name(std::span<const HubFile> files,
                                                const std::vector<Gguf>& ggufs,
                                                std::string_view wanted) {
  std::vector<HubFile> found;
  for (const HubFile& file : files) {
    if (file.path == wanted) {
      found = {file};
      break;
    }
    if (file.path.ends_with("/" + std::string(wanted))) found.push_back(file);
  }
  if (found.empty()) return std::nullopt;
  if (found.size() > 1)
    return fail(Code::invalid, "there are several files " + in_quotes(wanted) + ":" + list_files(found));
  for (const Gguf& gguf : ggufs) {
    for (const auto& [no, file] : gguf.parts) {
      if (file->path == found.front().path) return take(gguf);
    }
  }
  const std::string entry = found.front().path;
  return HubChoice{std::move(found), entry};
}

}  // namespace

Result<HubChoice> choose_files(std::span<const HubFile> files, std::string_view wanted) {
  if (files.empty()) return fail(Code::not_found, "there are no files in the repository");
  const std::vector<Gguf> ggufs = find_ggufs(files);
  if (wanted.empty()) return ggufs.empty() ? choose_folder(files) : choose_gguf(ggufs);
  if (auto named = choose_by_name(files, ggufs, wanted)) return std::move(*named);
  const std::vector<const Gguf*> tagged = with_tag(ggufs, wanted);
  if (tagged.size() == 1) return take(*tagged.front());
  if (!tagged.empty()) return fail(Code::invalid, "several files are " + in_quotes(wanted) + ":" + list_ggufs(tagged));
  return fail(Code::not_found, "there is no file " + in_quotes(wanted) + "; what there is:" + list_files(files));
}

std::vector<HubChoice> all_models(std::span<const HubFile> files) {
  std::vector<HubChoice> out;
  for (const Gguf& gguf : find_ggufs(files)) {
    if (auto whole = take(gguf)) out.push_back(std::move(*whole));
  }
  if (!out.empty()) return out;
  if (auto folder = choose_folder(files)) out.push_back(std::move(*folder));
  return out;
}

}  // namespace quire
