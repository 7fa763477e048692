// A streamed answer that another server may go on with when this one is gone: same bytes, as far as its client can
// tell. A router asks for it (kHandoverHeader) and is given, in the same field of the answer's head, a ticket, and
// behind the events of each portion a mark, a line that says how far the answer is. What it knows then it puts
// into the field "handover" of the same request to another server: {"ticket", "choices": [{"tokens", "told_bytes",
// "over"}], "n_events", "past"}. Names no one and grants nothing: whoever may send the request may say how its answer
// began. A choice that was told whole is computed again behind its last tokens, and nothing of it is told: so its usage
// is known, and what a dialect says of it at the end. Where tokens and bytes do not say all of how far an answer is,
// all of it is computed again, and nothing is told of what was told.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/types.h"
#include "serve/api_error.h"
#include "serve/schema.h"

namespace quire {

struct ApiRequest;
struct Job;
struct ServeEnv;

inline constexpr std::string_view kHandoverHeader = "x-quire-handover";

// What an answer is called besides what it says: drawn anew for each, and the same where one goes on.
struct AnswerName {
  std::string id;      // 32 hexadecimal digits
  uint64_t calls = 0;  // what the ids of its calls are made of
  int64_t created_s = 0;
};

// What another server has told of a choice.
struct ToldChoice {
  bool any = false;           // nothing, where not
  bool over = false;          // all of it
  std::vector<Token> output;  // tokens of which everything was told, but for the last ones of a choice that is over
  int64_t told_bytes = 0;     // of its text, as it is before calls and thinking are taken out
};

// A hash of a field of the request and its value: what the answer is of.
struct AskedField {
  uint32_t hash = 0;
  std::string_view name;  // a constant
};

struct Handover {
  bool asked = false;               // marks are told
  bool goes_on = false;             // behind what another server has told
  bool anew = false;                // once it is settled: all is computed again, what was told too
  std::string ticket;               // that the other gave; once it is settled, that this one gives
  std::vector<ToldChoice> choices;  // once it is settled: one for each choice, where it goes on
  int64_t n_events = 0;             // that were told, of a dialect that numbers them
  std::vector<AskedField> fields;   // by hash; but for the prompt, whose tokens count
  // Of a request that names an answer kept here: the messages up to that one's end, as JSON, which another server would
  // not know. They are told before the first mark.
  std::string past;
  std::optional<Json> told_past;  // that another server has told, an array
};

// How far a choice is.
struct HandoverMark {
  int choice = 0;
  bool over = false;       // all of it was told, and `ids` do not count
  std::vector<Token> ids;  // of which everything was told since its last mark
  int64_t told_bytes = 0;  // of its text in all
  int64_t n_events = -1;   // of the answer in all; -1: they have no numbers
};

// The field "handover".
std::span<const Field> handover_fields();
// The refusal (409) where a field inside it is, say, "of another answer" than this server's.
HttpError handover_mismatch(std::string_view field, std::string_view what);
// What the request says of it; names the answer and, where it goes on, sets the seed. REQUIRES job.stream and the seed
// are read.
ApiResult<void> read_handover(const ApiRequest& request, const ServeEnv& env, Job& job);
// Once the job is complete. Marks are told where another server could go on; an answer that goes on is refused (409,
// "handover_mismatch") where this server would not have given the same one, naming the field of the request that is not
// the same, and where it is said to have more choices
// than the request (400). `max_tokens`: of each prompt's choices.
ApiResult<void> settle_handover(const ServeEnv& env, std::span<const int> max_tokens, Job& job);
// ": handover IDS BYTES [CHOICE [EVENTS]]" and a blank line, or among lines a line of its own. IDS is "5,17", or "end"
// of a choice that is over; a choice that is left out is the first.
void append_mark(std::string& out, const HandoverMark& mark, bool among_lines);
// ": handover past EVENTS JSON" and a blank line: Handover::past, and how many events were told.
void append_past(std::string& out, const std::string& past, int64_t n_events);

}  // namespace quire
