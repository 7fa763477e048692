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

Result<Json> read_json(const fs::path& path) {
  QR_TRY(const std::string text, read_file(path));
  auto json = Json::parse(text);
  if (!json) return fail(Code::corrupt, path.filename().string() + ": " + json.error().message);
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

// The files beside a tokenizer. Each is optional; a broken one is an error.
struct Folder {
  Json config = Json(Json::Object{});
  Json map = Json(Json::Object{});
  HfContext context;

  static Result<Folder> open(const fs::path& path) {
    Folder out;
    if (is_file(path / "tokenizer_config.json")) {
      QR_TRY(out.config, read_json(path / "tokenizer_config.json"));
    }
    if (is_file(path / "special_tokens_map.json")) {
      QR_TRY(out.map, read_json(path / "special_tokens_map.json"));
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
    if (is_file(path / "chat_template.jinja")) {
      QR_TRY(c.chat_template, read_file(path / "chat_template.jinja"));
    }
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

Result<std::unique_ptr<Tokenizer>> from_json(const fs::path& path, Folder& folder) {
  QR_TRY(const Json root, read_json(path));
  if (is_llama_like(folder)) {  // these classes put the frame on themselves, whatever tokenizer.json says
    folder.context.add_bos = folder.flag("add_bos_token");
    folder.context.add_eos = folder.flag("add_eos_token");
  }
  return make_hf_tokenizer(root, folder.context);
}

// A file that is no JSON: SentencePiece's message begins with the tag of a piece, ranks with base64, else it is a list
// of words.
Result<std::unique_ptr<Tokenizer>> from_other(const fs::path& path, const Folder& folder) {
  QR_TRY(const std::string bytes, read_file(path));
  if (bytes.starts_with('\n')) {
    return make_spm_model(bytes,
                          {folder.flag("add_bos_token"), folder.flag("add_eos_token"), folder.context.chat_template});
  }
  if (looks_like_tiktoken(bytes)) return make_tiktoken(bytes, {folder.added_tokens(), folder.context.chat_template});
  if (path.filename() == "vocab.txt") return make_bert_vocab(bytes, folder.context, folder.flag("do_lower_case") != 0);
  return fail(Code::unsupported, path.filename().string() + ": not a tokenizer file of a known kind");
}

Result<std::unique_ptr<Tokenizer>> from_vocab_and_merges(const fs::path& path, const Folder& folder) {
  QR_TRY(Json vocab, read_json(path / "vocab.json"));
  QR_TRY(const std::string merges, read_file(path / "merges.txt"));
  const std::string family = token_text(folder.config, "tokenizer_class");  // files only points to it
  ByteLevelFiles files{std::move(vocab), merges, family, folder.flag("add_prefix_space") == 1, folder.added_tokens()};
  return make_byte_level_files(std::move(files), folder.context);
}

// The one file of a folder that holds the tokenizer, best first; empty: none.
fs::path main_file(const fs::path& folder) {
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "tiktoken.model", "qwen.tiktoken", "vocab.json", "vocab.txt"}) {
    if (is_file(folder / name)) return folder / name;
  }
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with("tokenizer.json") || name.ends_with(".tiktoken")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found.empty() ? fs::path() : found.front();
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

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path file = is_folder ? main_file(path) : fs::path(path);
  if (file.empty() || !is_file(file)) return fail(Code::not_found, path + ": no tokenizer found");
  Folder folder;
  if (is_folder) {
    QR_TRY(folder, Folder::open(path));
  }
  if (file.filename() == "vocab.json") return from_vocab_and_merges(file.parent_path(), folder);
  return file.extension() == ".json" ? from_json(file, folder) : from_other(file, folder);
}

}  // namespace quire
