// What a sampled token means to its sequence: its rules are told, it joins the answer, and the sequence may end with
// it.
#pragma once
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/guesses.h"
#include "engine/plan.h"

namespace quire {

// A sequence that left the engine, and why.
struct Ended {
  std::unique_ptr<Sequence> seq;
  Finish finish = Finish::stop;
  std::string error;
};

// What failed, in one text. Where there is no memory to say it, that is said (kNoMemory).
std::string failure(std::initializer_list<std::string_view> parts) noexcept;

// Is told every token that is part of an answer, and whether it is a guess that came true.
using EmitToken = std::function<void(Sequence&, Sampled&, bool accepted)>;

struct Taking {
  int n_ctx;  // tokens that a sequence may come to
  int64_t now_ns;
  const EmitToken& emit;
};

struct Taken {
  int n_accepted = 0;  // guesses
  int way = kDraft;    // through the guesses, of which these are the first (engine/guesses.h)
  bool over = false;
};

// Takes the tokens of a grant's rows of output, in order, for as long as each is what a next row was computed for: the
// draft's, or a branch's. `all`: what the step's rows gave; the grant's own begin at `first`.
Taken take_tokens(const Grant& grant, std::span<Sampled> all, size_t first, const Taking& how, Ended& end);

}  // namespace quire
