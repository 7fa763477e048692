// For this room's tests and benchmarks only: finds the shared data, reads golden files, and reads a GGUF file's
// tokenizer without the io room (which lies above). The reader trusts its input: these are our own fixtures.
#pragma once
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace quire {

inline std::filesystem::path shared_dir() {
  const char* env = std::getenv("QUIRE_SHARED");
  return std::filesystem::path(env != nullptr ? env : "../shared") / "data";
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Skips the running test (GoogleTest) when the file is not there.
#define QR_NEED_FILE(path)                                                        \
  do {                                                                            \
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no test data: " << path; \
  } while (false)

class GgufTokenizerReader {
 public:
  explicit GgufTokenizerReader(const std::filesystem::path& path) : data_(read_file(path)) {}

  TokenizerSpec read() {
    at_ = 8;  // magic, version
    take<uint64_t>();
    const auto n_kv = take<uint64_t>();
    for (uint64_t i = 0; i < n_kv; ++i) {
      const std::string key = take_string();
      value(key, take<uint32_t>());
    }
    const bool spm = spec_.model == "llama";
    spec_.add_bos = add_bos_ < 0 ? spm || spec_.model == "bert" : add_bos_ == 1;
    spec_.bos_by_name = add_bos_ < 0 && spec_.model == "gpt2";
    spec_.add_eos = add_eos_ < 0 ? spec_.model == "t5" || spec_.model == "bert" : add_eos_ == 1;
    return std::move(spec_);
  }

 private:
  template <class T>
  T take() {
    T v;
    std::memcpy(&v, data_.data() + at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  std::string take_string() {
    const auto n = take<uint64_t>();
    at_ += n;
    return data_.substr(at_ - n, n);
  }
  static size_t width(uint32_t type) {
    constexpr size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return kWidths[type];
  }

  void value(const std::string& key, uint32_t type) {
    constexpr uint32_t kString = 8, kArray = 9;
    if (type == kArray) {
      const auto element = take<uint32_t>();
      array(key, element, take<uint64_t>());
    } else if (type == kString) {
      set_string(key, take_string());
    } else {
      int64_t v = 0;
      std::memcpy(&v, data_.data() + at_, std::min<size_t>(width(type), 8));
      at_ += width(type);
      set_int(key, v);
    }
  }

  void array(const std::string& key, uint32_t element, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      if (element == 8) {
        std::string s = take_string();
        if (key == "tokenizer.ggml.tokens")
          spec_.tokens.push_back(std::move(s));
        else if (key == "tokenizer.ggml.merges")
          spec_.merges.push_back(std::move(s));
      } else if (key == "tokenizer.ggml.scores") {
        spec_.scores.push_back(take<float>());
      } else if (key == "tokenizer.ggml.token_type") {
        spec_.types.push_back(static_cast<TokenType>(take<int32_t>()));
      } else if (key == "tokenizer.ggml.precompiled_charsmap") {
        spec_.precompiled_charsmap.push_back(take<char>());
      } else {
        at_ += width(element);
      }
    }
  }

  void set_string(const std::string& key, std::string v) {
    if (key == "tokenizer.ggml.model")
      spec_.model = std::move(v);
    else if (key == "tokenizer.ggml.pre")
      spec_.pre = std::move(v);
    else if (key == "tokenizer.chat_template")
      spec_.chat_template = std::move(v);
  }

  void set_int(const std::string& key, int64_t v) {
    const std::string prefix = "tokenizer.ggml.";
    if (!key.starts_with(prefix)) return;
    const std::string name = key.substr(prefix.size());
    const auto id = static_cast<Token>(static_cast<uint32_t>(v));
    if (name == "bos_token_id")
      spec_.bos = id;
    else if (name == "eos_token_id")
      spec_.eos = id;
    else if (name == "eot_token_id")
      spec_.eot = id;
    else if (name == "unknown_token_id")
      spec_.unk = id;
    else if (name == "seperator_token_id")
      spec_.sep = id;
    else if (name == "padding_token_id")
      spec_.pad = id;
    else if (name == "cls_token_id")
      spec_.cls = id;
    else if (name == "mask_token_id")
      spec_.mask = id;
    else if (name == "add_bos_token")
      add_bos_ = static_cast<int>(v);
    else if (name == "add_eos_token")
      add_eos_ = static_cast<int>(v);
    else if (name == "add_space_prefix")
      spec_.add_space_prefix = v != 0;
    else if (name == "remove_extra_whitespaces")
      spec_.remove_extra_whitespaces = v != 0;
  }

  std::string data_;
  size_t at_ = 0;
  int add_bos_ = -1, add_eos_ = -1;
  TokenizerSpec spec_;
};

inline std::unique_ptr<Tokenizer> load_gguf_tokenizer(const std::filesystem::path& path) {
  auto made = make_tokenizer(GgufTokenizerReader(path).read());
  QR_CHECK(made.has_value(), path.string() + ": " + (made ? "" : made.error().message));
  return std::move(*made);
}

inline std::vector<Token> encode(const Tokenizer& t, std::string_view text, EncodeOptions options = {}) {
  std::vector<Token> ids;
  t.encode(text, options, ids);
  return ids;
}

// The .inp/.out pairs beside a vocabulary: texts and the ids they must give.
struct GoldenPairs {
  std::vector<std::string> texts;
  std::vector<std::vector<Token>> ids;
};
inline GoldenPairs read_golden_pairs(const std::filesystem::path& gguf) {
  GoldenPairs out;
  const std::string inp = read_file(gguf.string() + ".inp"), separator = "\n__ggml_vocab_test__\n";
  for (size_t at = 0; at < inp.size();) {
    const size_t end = std::min(inp.find(separator, at), inp.size());
    out.texts.push_back(inp.substr(at, end - at));
    at = end + separator.size();
  }
  std::istringstream lines(read_file(gguf.string() + ".out"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    out.ids.emplace_back(std::istream_iterator<Token>(numbers), std::istream_iterator<Token>());
  }
  return out;
}

}  // namespace quire
