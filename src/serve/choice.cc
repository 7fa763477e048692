#include "serve/choice.h"

#include "serve/keys.h"

namespace quire {

Choice::Choice(const ChoiceSetup& setup)
    : index(setup.index),
      prompt(setup.prompt),
      reply_(*setup.reply),
      key_(setup.key),
      notify_every_(setup.notify_every),
      prompt_only_(setup.prompt_only),
      channel_(setup.channel_bytes),
      tokenizer_(*setup.tokenizer),
      splits_(setup.reasoning != ReasoningForm::Kind::none),
      splitter_(setup.reasoning, setup.reasoning_open),
      counter_(splitter_),
      text_(*setup.tokenizer, setup.text) {}

void Choice::on_token(SeqId id, const TokenEvent& event) {
  seq.store(id, std::memory_order_relaxed);  // start() stores it too, perhaps later
  const bool fits = channel_.push(event);
  if (++n_pushed_ % notify_every_ == 0 || !fits) reply_.notify();
}

void Choice::on_finish(SeqId, Finish how, const Usage& usage, const std::string& error) {
  if (key_ != nullptr) key_->charge_generated(usage.n_generated);
  finish_ = how;
  usage_ = usage;
  error_ = error;
  finished_.store(true, std::memory_order_release);
  reply_.notify();
}

int64_t Choice::take_tokens() {
  const bool finished = finished_.load(std::memory_order_acquire);  // before popping: then every token is seen
  const int64_t before = n_tokens_;
  TokenEvent event;
  while (channel_.pop(event)) {
    if (event.prompt) {
      prompt_tokens_.push_back(std::move(event));
      continue;
    }
    if (prompt_only_ || text_.stopped()) continue;
    text_.push(event);
    if (splits_) count_reasoning(event.id);
    logprob_sum_ += static_cast<double>(event.logprob);
    ++n_tokens_;
  }
  if (finished) {
    text_.finish();
    ended_ = true;
  }
  return n_tokens_ - before;
}

void Choice::count_reasoning(Token id) {
  scratch_.clear();
  dropped_.clear();
  if (id < tokenizer_.n_vocab()) tokenizer_.append_bytes(id, true, scratch_);
  counter_.push(scratch_, dropped_, dropped_);
  n_reasoning_ += counter_.thinking() ? 1 : 0;
}

bool Choice::take_text(Delta& out) {
  const bool some = text_.take(out);
  out.reasoning.clear();
  if (!splits_) return some;
  scratch_ = std::move(out.text);
  out.text.clear();
  splitter_.push(scratch_, out.reasoning, out.text);
  if (ended_ && !split_ended_) {
    split_ended_ = true;
    splitter_.finish(out.reasoning, out.text);
  }
  return !out.text.empty() || !out.reasoning.empty() || !out.tokens.empty();
}

bool Choice::wants_cancel() {
  if (cancelled_ || ended_ || !text_.stopped()) return false;
  cancelled_ = true;
  return true;
}

}  // namespace quire
