// What a request's sequences have come to becomes the bytes of its reply. Io thread. See session.h.
#include <algorithm>
#include <utility>

#include "serve/outcome.h"
#include "serve/session.h"

namespace quire {
namespace {

constexpr size_t kWholeBytes = 256 << 10;  // the answer that is small enough to be sent with its length

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

bool Session::flush_pending(Reply& reply) {
  if (pending_.empty()) return true;
  if (!reply.write(pending_)) return false;
  pending_.clear();
  n_sound_ = 0;
  return true;
}

// Of what another server has told: the writer has to stand where the other's stood, and the client is told nothing.
template <typename F>
void Session::write_again(F&& write) {
  std::string told;
  int64_t* n_events = job_.writer->n_events();
  const int64_t before = n_events != nullptr ? *n_events : 0;
  write(told);
  if (n_events != nullptr) *n_events = before;
}

// Where it may have ended the answer, what comes now has no mark: behind that nobody can go on. Nor may a mark of
// another choice stand behind it.
bool Session::may_be_last(const Choice& c) const { return c.stopped() || c.n_tokens() >= max_tokens(c.prompt); }

bool Session::was_told(const Choice& c) const {
  return job_.handover.goes_on && job_.handover.choices[static_cast<size_t>(c.index)].over;
}

// The head of a stream, and what stands before its first token.
void Session::begin_stream(Reply& reply) {
  if (head_sent_) return;
  head_sent_ = true;
  counted(200);
  HttpHeaders headers = job_.writer->stream_headers();
  headers.insert(headers.end(), job_.headers.begin(), job_.headers.end());
  if (job_.handover.asked) headers.push_back({std::string(kHandoverHeader), job_.handover.ticket});
  marks_are_lines_ = std::ranges::any_of(headers, [](const HttpHeader& h) { return h.value == kNdjson; });
  reply.start_stream(200, std::move(headers));
  const int64_t n_prompt = n_prompt_tokens(job_);
  if (!job_.handover.goes_on) {
    job_.writer->begin(n_prompt, pending_);
    const int64_t* n_events = job_.writer->n_events();
    if (job_.handover.asked && !job_.handover.past.empty())
      append_past(pending_, std::exchange(job_.handover.past, {}), n_events != nullptr ? *n_events : 0);
    n_sound_ = pending_.size();
    return;
  }
  write_again([&](std::string& told) { job_.writer->begin(n_prompt, told); });
  if (int64_t* n_events = job_.writer->n_events()) *n_events = job_.handover.n_events;
}

void Session::write_delta(Reply& reply, Choice& c) {
  if (c.told || (job_.handover.asked && !c.ended() && may_be_last(c))) return;
  for (const int n_done : c.take_progress()) {
    begin_stream(reply);
    job_.writer->progress(c.index, {static_cast<int64_t>(job_.prompts[c.prompt].size()), c.n_cached_first(), n_done},
                          pending_);
    n_sound_ = pending_.size();
  }
  Delta delta;
  const bool some = c.take_text(delta);
  if (c.differs()) {
    failure_ = handover_mismatch("choices", "begin another answer");
    return;
  }
  if (Delta again = c.take_again(); !again.parts.empty() || !again.tokens.empty()) {
    begin_stream(reply);
    if (!wants_tokens()) again.tokens.clear();
    write_again([&](std::string& told) { job_.writer->delta(c.index, again, told); });
    if (job_.handover.anew) mark(c, {});  // says nothing new: a sign of life
    n_sound_ = pending_.size();
  }
  if (some) {
    begin_stream(reply);
    tell(c, std::move(delta));
  }
  if (!c.ended()) return;
  begin_stream(reply);
  tell_finish(c);
  c.told = true;
}

// Tokens are taken for marks too, and then of no interest to the client.
bool Session::wants_tokens() const { return job_.generation.sampling.n_logprobs >= 0 || job_.want_ids; }

void Session::tell(const Choice& c, Delta&& delta) {
  std::vector<Token> ids;
  ids.reserve(delta.tokens.size());
  for (const TokenText& token : delta.tokens) ids.push_back(token.id);
  if (!wants_tokens()) delta.tokens.clear();
  if (was_told(c)) return write_again([&](std::string& told) { job_.writer->delta(c.index, delta, told); });
  if (!delta.parts.empty() || !delta.tokens.empty()) job_.writer->delta(c.index, delta, pending_);
  if (!c.ended()) mark(c, std::move(ids));
  n_sound_ = pending_.size();
}

void Session::tell_finish(const Choice& c) {
  if (was_told(c)) return write_again([&](std::string& told) { job_.writer->finish(c.index, c.ending(), told); });
  job_.writer->finish(c.index, c.ending(), pending_);
  mark(c, {});
  n_sound_ = pending_.size();
}

// What is told without a mark is told again by whoever goes on.
void Session::mark(const Choice& c, std::vector<Token>&& ids) {
  if (!job_.handover.asked) return;
  const int64_t* n_events = job_.writer->n_events();
  append_mark(pending_,
              {.choice = c.index,
               .over = c.ended(),
               .ids = std::move(ids),
               .told_bytes = c.told_bytes(),
               .n_events = n_events != nullptr ? *n_events : -1},
              marks_are_lines_);
}

void Session::fail(Reply& reply, const HttpError& error) {
  over_ = true;
  cancel_all();
  if (!head_sent_) return refuse_with(error);
  if (!job_.stream) return reply.abort();                                        // in the middle of one JSON text
  if (job_.handover.asked && error.code == kShuttingDown) return reply.abort();  // another goes on
  broken_off_ = error.code == kShuttingDown ? "shutdown" : "failed";
  job_.writer->error(error, pending_);
  if (flush_pending(reply))
    reply.end();
  else
    reply.abort();
}

void Session::conclude(Reply& reply) {
  context_.metrics->request.observe(seconds(context_.clock->now_ns() - arrived_ns_));
  const UsageTotals usage = usage_of(job_, choices_);
  int64_t longest = 0;
  for (const auto& choice : choices_) longest = std::max(longest, choice->n_generated());
  context_.metrics->count_longest(longest);
  if (!job_.stream) {
    whole_ = job_.writer->body(take_results(job_, choices_, *context_.env->tokenizer), usage);
    return write_whole(reply);
  }
  job_.writer->end(usage, pending_);
  ending_ = true;
  if (!flush_pending(reply)) return;  // called again when there is room
  over_ = true;
  reply.end();
}

// A piece a turn; a small answer at once.
void Session::write_whole(Reply& reply) {
  whole_->write(head_sent_ ? kTurnBytes : kWholeBytes, pending_);
  if (!head_sent_) {
    HttpHeaders headers = job_.headers;
    headers.push_back({"Content-Type", "application/json"});
    counted(200);
    if (whole_->done()) {
      reply.send(200, std::move(headers), std::move(pending_));
      over_ = true;
      return;
    }
    head_sent_ = true;
    reply.start_stream(200, std::move(headers));
  }
  ending_ = whole_->done();
  if (!flush_pending(reply)) return;
  if (!ending_) return reply.notify();
  over_ = true;
  reply.end();
}

}  // namespace quire
