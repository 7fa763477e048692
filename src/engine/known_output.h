// An answer that goes on behind what another engine has said of it (Request::output).
#pragma once
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace quire {

// Leads the request's rules along its output, and its end rule. REQUIRES that its rules are complete and were told
// nothing. Code::invalid where the output cannot be one that goes on: it ends the answer, breaks a rule, is as long as
// the answer may be, or the request asks for what goes with no output. Any thread.
Status replay_output(Request& request, bool recorded);

// What a sequence begins with: n_virtual zeros, the prompt, the output.
std::vector<Token> known_tokens(const Request& request, int n_virtual);

}  // namespace quire
