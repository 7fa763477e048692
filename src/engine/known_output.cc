#include "engine/known_output.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>

namespace quire {
namespace {

Status check(const Request& request, bool recorded) {
  const auto refuse = [](const std::string& why) { return fail(Code::invalid, "the answer so far " + why); };
  if (recorded) return refuse("cannot be gone on with: this run is recorded, and a recording holds no such answers");
  if (request.pool != Pool::none || request.explain != nullptr || request.sampling.n_prompt_logprobs >= 0)
    return refuse("goes with neither vectors, explanations nor a prompt's logprobs");
  for (const auto& rule : request.rules)
    if (rule->needs_samples()) return refuse("does not say how its tokens were drawn, which mirostat has to know");
  const auto n = static_cast<int64_t>(request.output.size());
  if (n >= request.max_tokens)
    return refuse("has " + std::to_string(n) + " tokens, and may have " + std::to_string(request.max_tokens) +
                  ": nothing is left to say");
  for (const Token id : request.output)
    if (std::ranges::find(request.stop_ids, id) != request.stop_ids.end())
      return refuse("holds token " + std::to_string(id) + ", which ends it");
  return {};
}

}  // namespace

Status replay_output(Request& request, bool recorded) {
  if (request.output.empty()) return {};
  QR_TRY_VOID(check(request, recorded));
  size_t n = 0;
  try {
    for (const Token id : request.output) {
      for (const auto& rule : request.rules) rule->accept(id);
      ++n;
      if (request.end == nullptr || !request.end->accept(id)) continue;
      return fail(Code::invalid, "the answer so far ends with its token " + std::to_string(n) + " of " +
                                     std::to_string(request.output.size()));
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& broken) {
    return fail(Code::invalid,
                "the answer so far breaks a rule with its token " + std::to_string(n + 1) + ": " + broken.what());
  }
  return {};
}

std::vector<Token> known_tokens(const Request& request, int n_virtual) {
  std::vector<Token> out(static_cast<size_t>(n_virtual));
  out.reserve(out.size() + request.prompt.size() + request.output.size());
  out.insert(out.end(), request.prompt.begin(), request.prompt.end());
  out.insert(out.end(), request.output.begin(), request.output.end());
  return out;
}

}  // namespace quire
