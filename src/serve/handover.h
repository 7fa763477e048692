// A streamed answer that another server may go on with when this one is gone: same bytes, as far as its client can
// tell. A router asks for it (kHandoverHeader) and is given, in the same field of the answer's head, a ticket, and
// behind the events of each portion a mark, a line that says how far the answer is. What it knows then it puts
// into the field "handover" of the same request to another server: {"ticket", "tokens", "told_bytes"}. Names no one and
// grants nothing: whoever may send the request may say how its answer began.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

struct Handover {
  bool asked = false;         // marks are told
  bool goes_on = false;       // behind what another server has told
  std::string ticket;         // that the other gave; once it is settled, that this one gives
  std::vector<Token> output;  // tokens of which everything was told
  int64_t told_bytes = 0;     // of the answer's text, as it is before calls and thinking are taken out
};

// The field "handover".
std::span<const Field> handover_fields();
// What the request says of it; names the answer and, where it goes on, sets the seed. REQUIRES job.stream and the seed
// are read.
ApiResult<void> read_handover(const ApiRequest& request, const ServeEnv& env, Job& job);
// Once the job is complete. Marks are told where another server could go on; an answer that goes on is refused (409,
// "handover_mismatch") where this server would not have given the same one. `max_tokens`: of the answer.
ApiResult<void> settle_handover(const ServeEnv& env, int max_tokens, Job& job);
// ": handover 5,17 123" and a blank line, or among lines a line of its own: tokens whose text was told since the last
// mark, and bytes of text in all.
void append_mark(std::string& out, std::span<const Token> ids, int64_t told_bytes, bool among_lines);

}  // namespace quire
