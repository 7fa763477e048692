// One sequence of a request, between the engine thread, which is told to leave tokens here, and the io thread, which
// takes them and keeps the choice's text. The two meet in the channel and in one flag.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "http/server.h"
#include "serve/api.h"
#include "serve/channel.h"
#include "serve/text_stream.h"
#include "text/parse/answer_parser.h"

namespace quire {

class KeyHolder;
class Choice;

// The choices of a request that have something to take. Each is in it once.
class ReadyChoices {
 public:
  void push(Choice& choice);  // engine thread
  Choice* take();             // io thread: the first of a chain, the newest first, or null
  // The choice has left the chain and may come back; returns the one behind it, or null.
  Choice* leave(Choice& choice);

 private:
  std::atomic<Choice*> head_{nullptr};
};

struct ChoiceSetup {
  Reply* reply = nullptr;          // notified when there is something to take; outlives the choice
  std::shared_ptr<KeyHolder> key;  // pays for what is generated; null: nobody
  HeldBytes* held = nullptr;       // of the request
  ReadyChoices* ready = nullptr;   // likewise
  const Tokenizer* tokenizer = nullptr;
  std::shared_ptr<const std::string> echo;  // comes before the text; may be null
  TextStreamOptions text;
  int64_t channel_bytes = 0;
  int notify_every = 1;  // tokens
  int index = 0;         // prompt · best_of + candidate
  size_t prompt = 0;
  bool prompt_only = false;  // what is generated is dropped
  bool gathers = false;      // the text is told as a whole
  ReasoningForm::Kind reasoning = ReasoningForm::Kind::none;
  bool reasoning_open = false;
  bool document = false;
  std::shared_ptr<const CallRules> calls;
};

class Choice final : public EventSink {
 public:
  explicit Choice(const ChoiceSetup& setup);

  // --- engine thread ---
  void on_token(SeqId id, const TokenEvent& event) override;
  void on_pooled(SeqId, std::span<const float> values) override;
  void on_explained(SeqId, const Explanation& explained) override;
  void on_finish(SeqId id, Finish how, const Usage& usage, const std::string& error) override;

  // --- any thread ---
  std::atomic<SeqId> seq{0};  // 0: not submitted yet
  const int index;
  const size_t prompt;
  bool finished() const { return finished_.load(std::memory_order_acquire); }  // usage() and finish() may be asked

  // --- before its sequence is submitted ---
  // The answer goes on behind these tokens and so many bytes of its text, which are not told again; nor is the echo.
  // False: they are no answer that goes on.
  bool go_on_behind(std::span<const Token> output, int64_t told_bytes);
  // The same where the sequence computes these tokens, too: the answer has to begin with them (differs()).
  void say_again(std::span<const Token> output, int64_t told_bytes);

  // --- io thread ---
  // Takes some of what the engine left; returns how many tokens were new to the text. `ended` then says whether the
  // sequence is over and all of it was taken, `behind` whether there may be more.
  int64_t take_tokens();
  bool ended() const { return ended_; }
  bool behind() const { return behind_; }
  Overflow overflow() const {
    const Overflow own = overflow_.load(std::memory_order_acquire);
    return own != Overflow::none ? own : channel_.overflow();
  }
  // It ended before the engine knew: a stop string is complete, or the only call that may come.
  bool stopped() const { return text_.stopped() || (parses_.over() && !parses_finished_); }
  // That, and the engine goes on: true once.
  bool wants_cancel();

  // The prompt's tokens behind the first, where their logprobs were asked for.
  std::vector<TokenEvent> give_prompt_tokens() { return std::move(prompt_tokens_); }
  // How far the prompt is: what was not taken yet, rising; of a job that asks for it.
  std::vector<int> take_progress() { return std::exchange(progress_, {}); }
  int n_cached_first() const { return n_cached_first_; }  // what it began with
  const TextStream& text() const { return text_; }
  // Moves out what is certain and not yet taken; the echo first. False when there is nothing. REQUIRES a choice that
  // does not gather.
  bool take_text(Delta& out);
  // Computed again, it is another answer than the one that was told.
  bool differs() const { return differs_; }
  // What of what another has told came again since the last call: not for the client, but for a writer that has to be
  // as far as the other's was.
  Delta take_again() { return std::exchange(again_, {}); }
  // All of it, without the echo. REQUIRES that the choice gathers and has ended.
  Delta give_whole() { return std::move(whole_); }
  int64_t told_bytes() const { return told_bytes_; }    // of its text: taken, or told before by another
  int64_t n_reasoning() const { return n_reasoning_; }  // tokens
  int64_t n_tokens() const { return n_tokens_; }        // up to the one that completed a stop string
  double mean_logprob() const { return n_tokens_ > 0 ? logprob_sum_ / static_cast<double>(n_tokens_) : 0.0; }
  // REQUIRES ended() or finished().
  Finish finish() const { return finish_; }
  const Usage& usage() const { return usage_; }
  const std::string& error() const { return error_; }
  std::vector<float> give_pooled() { return std::move(pooled_); }
  Explanation give_explained() { return std::move(explained_); }
  const std::shared_ptr<const std::string>& echo() const { return echo_; }
  int64_t n_generated() const { return prompt_only_ ? 0 : stopped() ? n_tokens_ : usage_.n_generated; }
  Ending ending() const {
    if (text_.stopped()) return {FinishReason::stop, text_.stop_string(), n_generated()};
    const bool cut = prompt_only_ || (finish_ == Finish::length && !stopped());
    const FinishReason done = parses_.n_calls() > 0 ? FinishReason::tool_calls : FinishReason::stop;
    return {cut ? FinishReason::length : done, {}, n_generated()};
  }

  bool told = false;     // its end is written
  bool in_hand = false;  // the session has it from the ready ones
  int64_t last_ns = 0;   // of the last tokens, 0: none yet
  Choice* next_ready = nullptr;

 private:
  friend class ReadyChoices;
  void tell(bool now);
  bool next_text(Delta& out);
  void note_told(std::span<const Token> output, int64_t told_bytes);
  void drop_told();
  void gather();
  bool hold(int64_t n_bytes);
  void lose(Overflow why) { overflow_.store(why, std::memory_order_release); }

  Reply& reply_;
  HeldBytes& held_;
  ReadyChoices& ready_;
  std::atomic<bool> is_ready_{false};
  std::atomic<Overflow> overflow_{Overflow::none};  // beside the channel's
  const std::shared_ptr<KeyHolder> key_;
  const int notify_every_;
  const bool prompt_only_, gathers_;
  TokenChannel channel_;
  int n_pushed_ = 0;  // engine thread

  // Written by the engine thread before finished_ is set.
  Finish finish_ = Finish::stop;
  Usage usage_;
  std::string error_;
  std::vector<float> pooled_;
  Explanation explained_;
  std::atomic<bool> finished_{false};

  void parse_token(Token id);

  const Tokenizer& tokenizer_;
  const bool splits_;
  AnswerParser parser_, parses_;  // of the text that is told; of every token's
  TextPiece piece_;
  std::string scratch_;
  int64_t n_reasoning_ = 0;
  bool parse_ended_ = false, parses_finished_ = false;
  TextStream text_;
  const std::shared_ptr<const std::string> echo_;
  bool echoed_ = false;
  int64_t told_bytes_ = 0;
  int64_t told_bytes_left_ = 0, told_tokens_left_ = 0;  // of what another has told: that come again
  bool says_again_ = false;                             // the sequence computes what was told, too
  std::vector<Token> told_again_;                       // its tokens then
  bool differs_ = false;
  AnswerParts dropped_;
  Delta again_, whole_, fresh_;
  bool ended_ = false, behind_ = false, cancelled_ = false;
  int64_t n_tokens_ = 0;
  double logprob_sum_ = 0;
  std::vector<TokenEvent> prompt_tokens_;
  std::vector<int> progress_;
  int n_cached_first_ = -1;
};

}  // namespace quire
