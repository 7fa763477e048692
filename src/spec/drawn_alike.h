// How those guess who have logits of their own: they draw as the target does, with the same filters under the same draw
// of (seed, position), so that two distributions that are alike give the same token, at temperature 0 and above. Engine
// thread.
#pragma once
#include "sample/sampling_params.h"
#include "spec/proposer.h"

namespace quire {

// What the sequence forbids and prefers whatever came before, into `out`, which keeps its room.
void put_biases(const Draft& draft, LogitEdits& out);
// How the token behind the draft's is drawn. `edits` outlives what is returned.
SampleParams draw_alike(const Draft& draft, const LogitEdits& edits);
// The likeliest token, behind `edits` where there are some, whatever else the sequence asks for: of those that draw
// nothing. `edits` outlives what is returned.
SampleParams draw_likeliest(const LogitEdits* edits = nullptr);
// Asks for what is likely beside the token, too: so many.
SampleParams beside(SampleParams params, int n_side);
// Makes a tree of a draft that is complete: beside its first token those of `likely` that are others, max_side at most.
void add_side(std::span<const Token> likely, Draft& draft);
// Puts a token into the draft. Whether it wants one more: not behind an end token, and not where it has all that was
// asked for.
bool take_guess(Token token, Draft& draft);
// Puts a token that was drawn into the draft. Whether it wants one more: as take_guess, and not where the
// token is none of the target's n_vocab, which it does not get.
bool take_drawn(const Sampled& sampled, int n_vocab, Draft& draft);

}  // namespace quire
