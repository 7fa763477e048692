#include "serve/choice.h"

#include <algorithm>
#include <new>

#include "http/keys.h"
#include "serve/code_points.h"

namespace quire {
namespace {

constexpr int kTakenAtOnce = 1024;  // tokens of a choice, before another's

int64_t bytes_of(const Delta& delta) {
  int64_t n = delta.parts.bytes();
  for (const TokenText& token : delta.tokens)
    n += static_cast<int64_t>(sizeof token + token.top.size() * sizeof(TopLogprob));
  return n;
}

}  // namespace

// A choice stands in at most one place, so its own link is all that the list needs. Whoever takes the chain marks each
// as not ready when it leaves it, so before its channel is read: what comes later puts it on the list again. Not when
// the channel is read: that may be a choice that was left in hand and is on the list again by now.
void ReadyChoices::push(Choice& choice) {
  if (choice.is_ready_.exchange(true)) return;
  Choice* head = head_.load(std::memory_order_relaxed);
  do {
    choice.next_ready = head;
  } while (!head_.compare_exchange_weak(head, &choice, std::memory_order_release, std::memory_order_relaxed));
}

Choice* ReadyChoices::leave(Choice& choice) {
  Choice* next = choice.next_ready;
  choice.is_ready_.exchange(false);  // reads what the engine wrote, and so sees the tokens before it
  return next;
}

Choice* ReadyChoices::take() { return head_.exchange(nullptr, std::memory_order_acquire); }

Choice::Choice(const ChoiceSetup& setup)
    : index(setup.index),
      prompt(setup.prompt),
      reply_(*setup.reply),
      held_(*setup.held),
      ready_(*setup.ready),
      key_(setup.key),
      notify_every_(setup.notify_every),
      prompt_only_(setup.prompt_only),
      gathers_(setup.gathers),
      channel_(setup.channel_bytes, *setup.held),
      tokenizer_(*setup.tokenizer),
      splits_(setup.reasoning != ReasoningForm::Kind::none || setup.calls != nullptr),
      parser_(setup.reasoning, setup.reasoning_open, setup.calls, setup.document),
      parses_(parser_),
      text_(*setup.tokenizer, setup.text),
      echo_(setup.echo) {
  if (echo_ != nullptr) text_.begin_behind(count_points(*echo_));
}

void Choice::on_token(SeqId id, const TokenEvent& event) {
  seq.store(id, std::memory_order_relaxed);  // start() stores it too, perhaps later
  const bool fits = channel_.push(event);
  tell(++n_pushed_ % notify_every_ == 0 || !fits);
}

void Choice::on_pooled(SeqId, std::span<const float> values) {
  if (!hold(static_cast<int64_t>(values.size_bytes()))) return;
  try {
    pooled_.assign(values.begin(), values.end());
  } catch (const std::bad_alloc&) {
    lose(Overflow::no_memory);
  }
}

// A few tokens, whatever the prompt.
void Choice::on_explained(SeqId, const Explanation& explained) {
  try {
    explained_ = explained;
  } catch (const std::bad_alloc&) {
    lose(Overflow::no_memory);
  }
}

void Choice::on_finish(SeqId, Finish how, const Usage& usage, const std::string& error) {
  if (key_ != nullptr) key_->charge_generated(usage.n_generated);
  finish_ = how;
  usage_ = usage;
  try {
    error_ = error;
  } catch (const std::bad_alloc&) {
    lose(Overflow::no_memory);
  }
  finished_.store(true, std::memory_order_release);
  tell(true);
}

void Choice::tell(bool now) {
  ready_.push(*this);
  if (now) reply_.notify();
}

bool Choice::hold(int64_t n_bytes) {
  const auto taken = held_.take(n_bytes);
  if (taken == HeldBytes::Taken::yes) return true;
  lose(taken == HeldBytes::Taken::all_full ? Overflow::all_full : Overflow::too_large);
  return false;
}

int64_t Choice::take_tokens() {
  const bool finished = finished_.load(std::memory_order_acquire);  // before popping: then every token is seen
  const int64_t before = n_tokens_;
  TokenEvent event;
  behind_ = true;
  for (int i = 0; i < kTakenAtOnce && behind_; ++i) {
    behind_ = channel_.pop(event);
    if (!behind_) break;
    if (event.n_done >= 0) {
      if (n_cached_first_ < 0) n_cached_first_ = event.n_done;
      progress_.push_back(event.n_done);
      continue;
    }
    if (event.prompt) {
      if (hold(static_cast<int64_t>(sizeof event + event.top.size() * sizeof(TopLogprob))))
        prompt_tokens_.push_back(std::move(event));
      continue;
    }
    if (prompt_only_ || stopped()) continue;
    text_.push(event);
    if (splits_) parse_token(event.id);
    logprob_sum_ += static_cast<double>(event.logprob);
    ++n_tokens_;
  }
  if (finished && !behind_) {
    text_.finish();
    if (splits_ && !ended_ && !stopped()) {  // some calls show at the end only
      parses_.finish(dropped_);
      parses_finished_ = true;
    }
    ended_ = true;
  }
  if (gathers_) gather();
  return n_tokens_ - before;
}

void Choice::parse_token(Token id) {
  scratch_.clear();
  dropped_.clear();
  if (id < tokenizer_.n_vocab()) tokenizer_.append_bytes(id, true, scratch_);
  parses_.push(scratch_, dropped_);
  n_reasoning_ += parses_.thinking() ? 1 : 0;
}

bool Choice::take_text(Delta& out) {
  const bool some = next_text(out);
  if (echo_ == nullptr || echoed_) return some;
  echoed_ = true;
  AnswerParts with_echo;
  with_echo.add(PartKind::text, *echo_);
  with_echo.append(out.parts);
  out.parts = std::move(with_echo);
  return true;
}

void Choice::gather() {
  const bool some = next_text(fresh_);
  whole_.n_points = fresh_.n_points;
  if (!some || !hold(bytes_of(fresh_))) return;
  whole_.parts.append(fresh_.parts);
  for (TokenText& token : fresh_.tokens) whole_.tokens.push_back(std::move(token));
}

bool Choice::next_text(Delta& out) {
  text_.take(piece_);
  if (told_bytes_left_ + told_tokens_left_ > 0) drop_told();
  told_bytes_ += std::ssize(piece_.text);
  out.tokens = std::move(piece_.tokens);
  out.n_tokens = n_tokens_;
  out.n_points = piece_.n_points;
  out.parts.clear();
  parser_.push(piece_.text, out.parts);
  if (ended_ && !parse_ended_) {
    parse_ended_ = true;
    parser_.finish(out.parts);
  }
  return !out.parts.empty() || !out.tokens.empty();
}

bool Choice::go_on_behind(std::span<const Token> output, int64_t told_bytes) {
  for (const Token id : output) {
    if (stopped()) return false;
    TokenEvent event;
    event.id = id;
    text_.push(event);
    if (splits_) parse_token(id);
    ++n_tokens_;
  }
  note_told(output, told_bytes);
  return !stopped();
}

void Choice::say_again(std::span<const Token> output, int64_t told_bytes) {
  says_again_ = true;
  told_again_.assign(output.begin(), output.end());
  note_told(output, told_bytes);
}

void Choice::note_told(std::span<const Token> output, int64_t told_bytes) {
  echoed_ = true;
  told_bytes_ = told_bytes_left_ = told_bytes;
  told_tokens_left_ = std::ssize(output);
}

// What comes of text is known once it was parsed, as it was where it was told.
void Choice::drop_told() {
  const auto n_bytes = static_cast<size_t>(std::min(told_bytes_left_, std::ssize(piece_.text)));
  const auto n_tokens = std::min(told_tokens_left_, std::ssize(piece_.tokens));
  parser_.push(std::string_view(piece_.text).substr(0, n_bytes), again_.parts);
  piece_.text.erase(0, n_bytes);
  const auto end = piece_.tokens.begin() + n_tokens;
  if (says_again_) {
    const auto expected = told_again_.end() - told_tokens_left_;
    differs_ |= !std::equal(piece_.tokens.begin(), end, expected,
                            [](const TokenText& token, Token id) { return token.id == id; });
  }
  again_.tokens.insert(again_.tokens.end(), std::make_move_iterator(piece_.tokens.begin()),
                       std::make_move_iterator(end));
  piece_.tokens.erase(piece_.tokens.begin(), end);
  told_bytes_left_ -= static_cast<int64_t>(n_bytes);
  told_tokens_left_ -= n_tokens;
  differs_ |= ended_ && told_bytes_left_ + told_tokens_left_ > 0 && says_again_;
}

bool Choice::wants_cancel() {
  if (cancelled_ || ended_ || !stopped()) return false;
  cancelled_ = true;
  return true;
}

}  // namespace quire
