// From tokens to what the client is told: bytes to whole code points, stop strings cut out, what may become one held
// back, logprobs released together with their text. What comes out, joined, depends on the tokens alone, not on how
// often it is taken. One choice each; one thread at a time (io).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/request.h"
#include "serve/api.h"
#include "text/detok.h"
#include "text/stop_strings.h"

namespace quire {

struct TextPiece {
  std::string text;  // whole code points
  std::vector<TokenText> tokens;
  int64_t n_points = 0;  // code points of all text up to the end of this
};

struct TextStreamOptions {
  std::shared_ptr<const StopStrings> stops;  // may be null
  bool include_stop = false;                 // the stop string stays in the text
  bool show_special = false;
  bool want_tokens = false;  // they are told beside their text
  int min_tokens = 0;        // so many tokens neither end nor begin a stop string
};

class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, TextStreamOptions options);

  // So many code points of the choice's text are told before the first token's, by somebody else (echo).
  void begin_behind(int64_t n_points) { n_points_ += n_points; }
  // REQUIRES !stopped(). An id that the tokenizer does not know (models pad their vocabulary) has no text.
  void push(const TokenEvent& event);
  void finish();  // no token follows: nothing is held back any more
  // A stop string is complete: the text ends with it.
  bool stopped() const { return stopped_; }
  const std::string& stop_string() const { return stop_string_; }  // empty until then
  // Moves out what is certain and not yet taken. False when there is nothing.
  bool take(TextPiece& out);

 private:
  struct Entry {
    TokenText token;
    int64_t end;  // code points of the text up to this token's end
  };
  void add_text(std::string_view text, bool may_stop);
  void cut(size_t n_bytes);

  const Tokenizer& tokenizer_;
  const TextStreamOptions options_;
  Detok detok_;
  StopStrings::State state_ = 0;
  bool stopped_ = false, finished_ = false;
  std::string stop_string_;
  std::string fresh_;   // scratch: the text of one token
  std::string buffer_;  // text that was not taken yet; its end may be held back
  int64_t n_tokens_ = 0;
  int64_t n_points_ = 0;        // of all text so far, taken or not
  std::vector<Entry> entries_;  // not yet taken
};

}  // namespace quire
