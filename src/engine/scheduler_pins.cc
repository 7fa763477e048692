// What a request's wishes for its past come to when it ends: pins, and how long the rest is to stay. Of a pin: its
// prompt was computed or found, so all of it is in the tree, and nobody has had time to need its room.
#include <new>

#include "engine/scheduler.h"

namespace quire {

// Turns the end into an error where the prompt cannot be pinned.
void Scheduler::pin(Sequence& seq, Ended& end) {
  if (end.finish == Finish::error) return;
  const PinWish& wish = seq.request.pin;
  const auto refuse = [&](std::string_view why, bool limit) {
    seq.account.n_pinned = limit ? -1 : 0;
    end.finish = Finish::error;
    end.error = failure({why});
  };
  try {
    if (pin_book_->n_of(wish.owner) >= wish.n_most)
      return refuse("this client has " + std::to_string(wish.n_most) + " pins, which is the limit", true);
    Prefix prompt = pasts_.prefix_of(seq);
    prompt.tokens = prompt.tokens.first(static_cast<size_t>(seq.n_prompt));
    const Result<const Pins::Pin*> pinned = pins_->add(wish.id, prompt);
    if (!pinned) return refuse(pinned.error().message, true);
    seq.account.n_pinned = (*pinned)->n_tokens - seq.n_virtual;
    pin_book_->add({wish.id, wish.owner, (*pinned)->n_tokens, (*pinned)->bytes});
  } catch (const std::bad_alloc&) {
    pins_->remove(wish.id);
    refuse(kNoMemory, false);
  }
}

// Virtual tokens come before the prompt, and stay for good. Without memory for it less is retained.
void Scheduler::retain(const Sequence& seq) {
  try {
    std::vector<RetentionRange> ranges = seq.request.retention;
    for (RetentionRange& range : ranges) {
      range.begin = std::min(range.begin, options_.n_ctx) + seq.n_virtual;
      range.end = std::min(range.end, options_.n_ctx) + seq.n_virtual;
    }
    accounts_.counters().n_unretained_blocks += cache_.retain(pasts_.prefix_of(seq), ranges);
    if (loads_ != nullptr)
      accounts_.counters().n_unretained_below += loads_->retain(pasts_.prefix_of(seq), ranges, planned_ns_);
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace quire
