// What a request says of where it belongs, read from its body without building it: the members of the outermost object,
// as they are written; names are what they stand for, whichever way they are escaped. One pass, no recursion; whether
// the body is good JSON is for the worker to say, so what cannot be read is left out. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct Asked {
  // Empty where absent or no string.
  std::string model, name, prompt_cache_key, previous_response_id, user, cache_salt;
  std::string_view prompt;             // as it is written, empty where absent
  bool has_other_beginning = false;    // something that a model was taught stands before the prompt, or is added to it
  std::string_view keep_alive;         // the value as it is written, empty where absent
  int64_t max_tokens = 0;              // 0: not said
  int64_t n_prompts = 1;               // of a list of texts, or of lists of tokens
  int64_t n_choices = 1;               // that are computed of each: n, or best_of where that is more
  std::string_view body;               // what was read
  std::vector<std::string_view> text;  // values that become the prompt, in the order in which templates have them
  int64_t text_bytes = 0;              // of all these
  // What servers count as their requests: each choice of each prompt.
  int64_t n_sequences() const;
};

inline constexpr int64_t kMostSequences = 1024;  // of one request; who asks for more is refused by workers

// The views are into `body`.
Asked read_asked(std::string_view body);

// Names of the beginnings of the prompt, a block of text each: equal names, equal text up to there (and equal `seed`).
// 64 bytes a block for the first 8 KiB, then 1 KiB; a last block that is not full has none. At most kMostBlocks.
inline constexpr int64_t kMostBlocks = 640;
std::vector<uint64_t> block_names(const Asked& asked, uint64_t seed);
// How many bytes of text the first `n` blocks are.
int64_t bytes_of_blocks(int64_t n);

// About as many tokens as so many bytes of text are.
constexpr int64_t tokens_of_bytes(int64_t bytes) { return bytes / 4; }

}  // namespace quire
