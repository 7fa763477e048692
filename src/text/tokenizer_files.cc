// See tokenizer_files.h.
#include "text/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "text/hf/hf_tokenizer.h"
#include "text/hf/json_fields.h"
#include "text/hf/older_files.h"
#include "text/spm_model.h"
#include "text/tiktoken.h"

namespace quire {

namespace {

namespace fs = std::filesystem;

Result<std::string> read_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  const std::string name = path.filename().string();
  if (error) return fail(Code::not_found, name + ": cannot be read");
  if (size > kMaxTokenizerFileBytes) {
    return fail(Code::corrupt, name + ": has " + std::to_string(size) + " bytes, the limit is " +
                                   std::to_string(kMaxTokenizerFileBytes));
  }
  std::ifstream in(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) return fail(Code::io, name + ": cannot be read");
  return bytes;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The first two stand beside vocab.json or another main file; each is optional, and a broken one is an error.
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr const char* kTemplate = "chat_template.jinja";
constexpr const char* kMerges = "merges.txt";

Result<Json> parse_json(const TokenizerFiles& files, const std::string& name) {
  const auto it = files.find(name);
  if (it == files.end()) return fail(Code::not_found, name + ": cannot be read");
  auto json = Json::parse(it->second);
  if (!json) return fail(Code::corrupt, name + ": " + json.error().message);
  return json;
}

// A special token is named by its text, or by an object with the text inside.
std::string token_text(const Json& config, std::string_view key) {
  const Json* v = field(config, key);
  if (v != nullptr && v->as_object() != nullptr) v = field(*v, "content");
  return v != nullptr && v->as_string() != nullptr ? *v->as_string() : std::string();
}

// One template, or a list of named ones of which "default" counts.
std::string template_text(const Json& config) {
  const Json* v = field(config, "chat_template");
  if (v == nullptr) return {};
  if (v->as_string() != nullptr) return *v->as_string();
  if (v->as_array() == nullptr) return {};
  for (const Json& item : *v->as_array()) {
    if (token_text(item, "name") == "default") return token_text(item, "template");
  }
  return {};
}

struct Folder {
  Json config = Json(Json::Object{});
  Json map = Json(Json::Object{});
  HfContext context;

  static Result<Folder> of(const TokenizerFiles& files) {
    Folder out;
    if (files.count(kConfig) > 0) {
      QR_TRY(out.config, parse_json(files, kConfig));
    }
    if (files.count(kSpecialTokens) > 0) {
      QR_TRY(out.map, parse_json(files, kSpecialTokens));
    }
    HfContext& c = out.context;
    for (const auto& [key, text] : {std::pair{"bos_token", &c.bos},
                                    {"eos_token", &c.eos},
                                    {"unk_token", &c.unk},
                                    {"pad_token", &c.pad},
                                    {"sep_token", &c.sep},
                                    {"cls_token", &c.cls},
                                    {"mask_token", &c.mask}}) {
      *text = token_text(out.config, key);
      if (text->empty()) *text = token_text(out.map, key);
    }
    c.chat_template = template_text(out.config);
    if (const auto it = files.find(kTemplate); it != files.end()) c.chat_template = it->second;
    return out;
  }

  // 1, 0, or −1 where it is not said.
  int flag(std::string_view key) const {
    const Json* v = field(config, key);
    return v == nullptr || v->as_bool() == nullptr ? -1 : *v->as_bool() ? 1 : 0;
  }

  std::vector<AddedToken> added_tokens() const {
    std::vector<AddedToken> out;
    const Json* list = field(config, "added_tokens_decoder");
    if (list == nullptr || list->as_object() == nullptr) return out;
    for (const auto& [id, token] : *list->as_object()) {
      const Json* special = field(token, "special");
      const bool is_special = special == nullptr || special->as_bool() == nullptr || *special->as_bool();
      if (id.empty() || id.size() > 8 || id.find_first_not_of("0123456789") != std::string::npos) continue;
      out.push_back({token_text(token, "content"), std::stoi(id), is_special});
    }
    std::erase_if(out, [](const AddedToken& t) { return t.text.empty(); });
    return out;
  }
};

bool is_llama_like(const Folder& folder) {
  const std::string name = token_text(folder.config, "tokenizer_class");
  return name.starts_with("LlamaTokenizer") || name.starts_with("CodeLlamaTokenizer") ||
         name.starts_with("GemmaTokenizer");
}

Result<std::unique_ptr<Tokenizer>> from_json(const Json& root, Folder& folder) {
  if (is_llama_like(folder)) {  // these classes put the frame on themselves, whatever tokenizer.json says
    folder.context.add_bos = folder.flag("add_bos_token");
    folder.context.add_eos = folder.flag("add_eos_token");
  }
  return make_hf_tokenizer(root, folder.context);
}

// A file that is no JSON: SentencePiece's message begins with the tag of a piece, ranks with base64, else it is a list
// of words.
Result<std::unique_ptr<Tokenizer>> from_other(const std::string& name, const std::string& bytes, const Folder& folder) {
  if (bytes.starts_with('\n')) {
    return make_spm_model(bytes,
                          {folder.flag("add_bos_token"), folder.flag("add_eos_token"), folder.context.chat_template});
  }
  if (looks_like_tiktoken(bytes)) return make_tiktoken(bytes, {folder.added_tokens(), folder.context.chat_template});
  if (name == "vocab.txt") return make_bert_vocab(bytes, folder.context, folder.flag("do_lower_case") != 0);
  return fail(Code::unsupported, name + ": not a tokenizer file of a known kind");
}

Result<std::unique_ptr<Tokenizer>> from_vocab_and_merges(Json vocab, const std::string& merges, const Folder& folder) {
  const std::string family = token_text(folder.config, "tokenizer_class");  // `files` only points to it
  ByteLevelFiles files{std::move(vocab), merges, family, folder.flag("add_prefix_space") == 1, folder.added_tokens()};
  return make_byte_level_files(std::move(files), folder.context);
}

constexpr const char* kMainFiles[] = {"tokenizer.json", "tokenizer.model", "tiktoken.model",
                                      "qwen.tiktoken",  "vocab.json",      "vocab.txt"};

// The one file of a folder that holds the tokenizer, best first; empty: none.
fs::path main_file(const fs::path& folder) {
  for (const char* name : kMainFiles) {
    if (is_file(folder / name)) return folder / name;
  }
  std::error_code error;
  std::vector<fs::path> found;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (name.ends_with("tokenizer.json") || name.ends_with(".tiktoken")) found.push_back(entries->path());
  }
  std::sort(found.begin(), found.end());
  return found.empty() ? fs::path() : found.front();
}

// The same among files that were read.
std::string main_name(const TokenizerFiles& files) {
  for (const char* name : kMainFiles) {
    if (files.count(name) > 0) return name;
  }
  for (const auto& [name, bytes] : files) {
    if (name != kConfig && name != kSpecialTokens && name != kTemplate) return name;
  }
  return {};
}

}  // namespace

bool has_tokenizer_files(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return !main_file(path).empty();
  const std::string name = fs::path(path).filename().string();
  const auto ends = [&name](const char* end) { return name.ends_with(end); };
  return is_file(path) && (ends(".json") || ends(".model") || ends(".tiktoken") ||
                           name.find(".model.") != std::string::npos || name == "vocab.txt");
}

Result<TokenizerFiles> read_tokenizer_files(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path file = is_folder ? main_file(path) : fs::path(path);
  if (file.empty() || !is_file(file)) return fail(Code::not_found, path + ": no tokenizer found");
  const fs::path beside = file.parent_path();
  std::vector<fs::path> wanted = {file};
  if (file.filename() == "vocab.json") wanted.push_back(beside / kMerges);
  if (is_folder) {
    for (const char* name : {kConfig, kSpecialTokens, kTemplate}) {
      if (is_file(beside / name)) wanted.push_back(beside / name);
    }
  }
  TokenizerFiles out;
  for (const fs::path& one : wanted) {
    QR_TRY(out[one.filename().string()], read_file(one));
  }
  return out;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const TokenizerFiles& files) {
  const std::string name = main_name(files);
  if (name.empty()) return fail(Code::not_found, "no tokenizer found");
  QR_TRY(Folder folder, Folder::of(files));
  if (!name.ends_with(".json")) return from_other(name, files.at(name), folder);
  QR_TRY(Json root, parse_json(files, name));
  if (name != "vocab.json") return from_json(root, folder);
  const auto merges = files.find(kMerges);
  if (merges == files.end()) return fail(Code::not_found, std::string(kMerges) + ": cannot be read");
  return from_vocab_and_merges(std::move(root), merges->second, folder);
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path) {
  QR_TRY(const TokenizerFiles files, read_tokenizer_files(path));
  return load_tokenizer(files);
}

}  // namespace quire
