#include "route/asked.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/hash128.h"
#include "base/json.h"

namespace quire {
namespace {

constexpr int64_t kSmallBlock = 64, kLargeBlock = 1024, kSmallBlocks = 128;

// What becomes the prompt, in the order of most templates: tools and system first.
constexpr std::array<std::string_view, 11> kText = {"tools",       "system",       "instructions", "messages",
                                                    "input_extra", "input_prefix", "prompt",       "input",
                                                    "input_ids",   "text",         "query"};
constexpr std::array<std::string_view, 4> kMaxTokens = {"max_tokens", "max_completion_tokens", "max_output_tokens",
                                                        "n_predict"};

// Of these a request may have a list, each of which a server computes by itself.
constexpr std::array<std::string_view, 6> kPrompts = {"prompt", "input", "input_ids", "text", "content", "documents"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Reader {
 public:
  explicit Reader(std::string_view body) : body_(body) {}

  bool take(char c) {
    skip_blanks();
    if (at_ >= body_.size() || body_[at_] != c) return false;
    ++at_;
    return true;
  }
  // The text of a string that begins here; false: there is none, or it does not end.
  bool take_string(std::string_view& out) {
    if (!take('"')) return false;
    const size_t begin = at_;
    if (!skip_string()) return false;
    out = body_.substr(begin, at_ - 1 - begin);
    return true;
  }
  // The whole value that begins here, as it is written; false: it does not end.
  bool take_value(std::string_view& out) {
    skip_blanks();
    const size_t begin = at_;
    int64_t depth = 0;
    while (at_ < body_.size()) {
      const char c = body_[at_];
      if (depth == 0 && at_ > begin && (c == ',' || c == '}' || c == ']')) break;
      ++at_;
      if (c == '"' && !skip_string()) return false;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (depth == 0 && (c == '"' || c == '}' || c == ']')) break;
    }
    out = body_.substr(begin, at_ - begin);
    return depth == 0 && !out.empty();
  }

 private:
  void skip_blanks() {
    while (at_ < body_.size() && is_blank(body_[at_])) ++at_;
  }
  // From behind its first quote to behind its last.
  bool skip_string() {
    const size_t begin = at_;
    while (true) {
      const size_t quote = body_.find('"', at_);
      if (quote == std::string_view::npos) return false;
      size_t n_escapes = 0;
      while (quote - n_escapes > begin && body_[quote - n_escapes - 1] == '\\') ++n_escapes;
      at_ = quote + 1;
      if (n_escapes % 2 == 0) return true;
    }
  }

  const std::string_view body_;
  size_t at_ = 0;
};

// What a string stands for, from what stands between its quotes; as it is written where that is no good JSON.
std::string decoded(std::string_view text) {
  if (text.find('\\') == std::string_view::npos) return std::string(text);
  const auto json = Json::parse("\"" + std::string(text) + "\"");
  const std::string* string = json ? json->as_string() : nullptr;
  return string != nullptr ? *string : std::string(text);
}

std::string string_of(std::string_view value) {
  return value.size() >= 2 && value.front() == '"' ? decoded(value.substr(1, value.size() - 2)) : std::string();
}

// How many prompts a value is: a list of texts or of lists is several; one of numbers, or of messages, is one.
int64_t prompts_in(std::string_view value) {
  Reader reader(value);
  std::string_view one;
  int64_t n = 0;
  if (reader.take('['))
    while (n < kMostSequences && reader.take_value(one) && (one.front() == '"' || one.front() == '[')) {
      ++n;
      if (!reader.take(',')) break;
    }
  return std::max<int64_t>(n, 1);
}

void note(std::string_view name, std::string_view value, Asked& out) {
  if (name == "model") out.model = string_of(value);
  if (name == "name") out.name = string_of(value);
  if (name == "keep_alive") out.keep_alive = value;
  if (name == "prompt_cache_key") out.prompt_cache_key = string_of(value);
  if (name == "previous_response_id") out.previous_response_id = string_of(value);
  if (name == "user") out.user = string_of(value);
  if (name == "cache_salt") out.cache_salt = string_of(value);
  if (name == "prompt") out.prompt = value;
  if (name == "prefix" || name == "lora") out.has_other_beginning = true;
  if (std::ranges::find(kPrompts, name) != kPrompts.end()) out.n_prompts = std::max(out.n_prompts, prompts_in(value));
  int64_t n = 0;
  if (std::from_chars(value.data(), value.data() + value.size(), n).ec != std::errc() || n <= 0) return;
  if (std::ranges::find(kMaxTokens, name) != kMaxTokens.end()) out.max_tokens = n;
  if (name == "n" || name == "best_of") out.n_choices = std::max(out.n_choices, std::min(n, kMostSequences));
}

}  // namespace

int64_t Asked::n_sequences() const { return std::min(n_prompts * n_choices, kMostSequences); }

Asked read_asked(std::string_view body) {
  Asked out;
  out.body = body;
  std::array<std::string_view, kText.size()> text;
  Reader reader(body);
  std::string_view written, value;
  if (reader.take('{'))
    while (reader.take_string(written) && reader.take(':') && reader.take_value(value)) {
      const std::string name = decoded(written);
      note(name, value, out);
      const auto at = std::find(kText.begin(), kText.end(), name);
      const bool is_setting = name == "text" && !value.starts_with('"');  // of responses, where it is an object
      if (at != kText.end() && !is_setting) text[static_cast<size_t>(at - kText.begin())] = value;
      if (!reader.take(',')) break;
    }
  for (const std::string_view part : text) {
    if (part.empty()) continue;
    out.text.push_back(part);
    out.text_bytes += std::ssize(part);
  }
  return out;
}

int64_t bytes_of_blocks(int64_t n) {
  return std::min(n, kSmallBlocks) * kSmallBlock + std::max<int64_t>(0, n - kSmallBlocks) * kLargeBlock;
}

std::vector<uint64_t> block_names(const Asked& asked, uint64_t seed) {
  std::vector<uint64_t> out;
  uint64_t chain = seed;
  for (size_t i = 0; i < asked.text.size(); ++i) {
    std::string_view rest = asked.text[i];
    while (!rest.empty() && std::ssize(out) < kMostBlocks) {
      const auto size = static_cast<size_t>(std::ssize(out) < kSmallBlocks ? kSmallBlock : kLargeBlock);
      if (rest.size() < size && i + 1 == asked.text.size()) break;  // the next turn goes on here
      const std::string_view block = rest.substr(0, size);
      chain = hash128(block.data(), block.size(), chain).lo;
      out.push_back(chain);
      rest.remove_prefix(block.size());
    }
  }
  return out;
}

}  // namespace quire
