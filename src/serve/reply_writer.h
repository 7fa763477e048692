// What comes of a request's sequences, and who turns it into a dialect's bytes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "http/message.h"
#include "http/sse.h"
#include "serve/pieces.h"
#include "text/parse/answer_parts.h"

namespace quire {

class PromptTokens;

inline constexpr std::string_view kNdjson = "application/x-ndjson";  // streams of lines

enum class FinishReason : uint8_t { stop, length, tool_calls };
std::string_view finish_name(FinishReason);  // "stop", "length", "tool_calls"
std::string hex64(uint64_t value);           // 16 digits, for ids
struct Ending {
  FinishReason reason = FinishReason::stop;
  std::string stop_string{};  // the one that ended the choice, empty when none did
  int64_t n_tokens = 0;       // of the choice, as its usage counts them
};

struct TokenText {  // for clients that asked for logprobs, ids or what was guessed
  Token id = -1;
  float logprob = 0.0F;         // NaN: the first of a prompt, which has none
  std::vector<TopLogprob> top;  // falling
  int64_t text_at = 0;          // code points of the choice's text before this token
  int n_points = 0;             // of its own: those that it completes
  bool accepted = false;        // a guess that came true
};
struct Delta {
  AnswerParts parts;
  std::vector<TokenText> tokens;
  int64_t n_tokens = 0;  // of the choice so far
  int64_t n_points = 0;  // code points of its text so far, as the model wrote it
};
// A JSON string of all parts of the kind.
void append_joined(std::string& out, const AnswerParts& parts, PartKind kind);
// The same of a whole answer, whose parts lie in what `owner` keeps.
void add_joined(Pieces& out, const AnswerParts& parts, PartKind kind, const std::shared_ptr<const void>& owner);

struct ChoiceResult {
  int index = 0;
  Delta whole;
  Ending ending;
  std::shared_ptr<const std::string> echo{};  // comes before the text; null: nothing does
  std::shared_ptr<PromptTokens> prompt{};     // where their logprobs were asked for; of all choices of a prompt
  std::vector<float> pooled{};                // where the job asked for it
  Explanation explained{};                    // likewise
};
struct UsageTotals {
  int64_t n_prompt = 0;  // each prompt once, however many choices it has
  int64_t n_generated = 0;
  int64_t n_cached = 0;
  int64_t n_disk = 0;       // of the cached: that were brought from disk
  int64_t n_remote = 0;     // of the cached: that were brought from the remote store
  int64_t n_dropped = 0;    // of the prompts: that kv_budget left no room for
  int64_t n_pinned = 0;     // of the prompts: that are pinned now
  int64_t n_reasoning = 0;  // of the generated
  // Of the slowest sequence, since it was submitted: until it was first run, until its first token, until its end.
  int64_t queued_ns = 0, first_token_ns = 0, total_ns = 0;
  Cost cost{};  // of every sequence that ran
};

// How far a prompt is, in tokens: all, those that were cached, and those that are computed or were cached.
struct PromptProgress {
  int64_t n_total = 0, n_cached = 0, n_done = 0;
};

// Turns results into a dialect's bytes. Io thread only; one per request. A streamed answer is begin, then deltas and
// one finish per choice in any interleaving, then end; error instead of anything from begin on. A whole one is body.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  virtual HttpHeaders stream_headers() const { return sse_headers(); }
  virtual void begin(int64_t n_prompt, std::string& out) = 0;
  // Before a choice's first delta, where the job tells it.
  virtual void progress(int /*choice*/, const PromptProgress&, std::string& /*out*/) {}
  virtual void delta(int choice, const Delta& delta, std::string& out) = 0;
  virtual void finish(int choice, const Ending& ending, std::string& out) = 0;
  virtual void end(const UsageTotals& usage, std::string& out) = 0;
  virtual void error(const HttpError& error, std::string& out) = 0;
  // Whether a prompt's logprobs stand in each of its choices, and whether a streamed answer is kept until its end.
  virtual bool repeats_prompts() const { return true; }
  virtual bool keeps_all() const { return false; }
  // Of a dialect that numbers its events: how many it has told. Null: it does not.
  virtual int64_t* n_events() { return nullptr; }
  // Written while the writer lives.
  virtual Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) = 0;
};

}  // namespace quire
