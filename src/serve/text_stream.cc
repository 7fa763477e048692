#include "serve/text_stream.h"

#include <algorithm>

#include "serve/code_points.h"

namespace quire {
// The tokens continue a prompt, so the first one's leading space is part of the text.
TextStream::TextStream(const Tokenizer& tokenizer, TextStreamOptions options)
    : tokenizer_(tokenizer), options_(std::move(options)), detok_(tokenizer, options_.show_special, false) {}

void TextStream::push(const TokenEvent& event) {
  const int64_t begin = n_points_;
  fresh_.clear();
  if (event.id < tokenizer_.n_vocab()) detok_.push(event.id, fresh_);
  add_text(fresh_, n_tokens_++ >= options_.min_tokens);
  // A token of which all text lies behind the cut is not part of the answer.
  const bool dropped = stopped_ && begin >= n_points_ && !fresh_.empty();
  if (options_.want_tokens && !dropped)
    entries_.push_back({{event.id, event.logprob, event.top, begin, 0, event.accepted}, std::max(begin, n_points_)});
}

void TextStream::add_text(std::string_view text, bool may_stop) {
  if (options_.stops == nullptr || !may_stop) {
    buffer_ += text;
    n_points_ += count_points(text);
    return;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    state_ = options_.stops->step(state_, text[i]);
    const size_t match = options_.stops->match_bytes(state_);
    if (match == 0) continue;
    buffer_ += text.substr(0, i + 1);
    n_points_ += count_points(text.substr(0, i + 1));
    stopped_ = true;
    stop_string_ = buffer_.substr(buffer_.size() - match);
    if (!options_.include_stop) cut(match);
    return;
  }
  buffer_ += text;
  n_points_ += count_points(text);
}

// Takes the stop string off the end, and with it the tokens that made nothing but it.
void TextStream::cut(size_t n_bytes) {
  n_points_ -= count_points(std::string_view(buffer_).substr(buffer_.size() - n_bytes));
  buffer_.resize(buffer_.size() - n_bytes);
  std::erase_if(entries_, [this](const Entry& e) { return e.end > n_points_ && e.token.text_at >= n_points_; });
}

void TextStream::finish() {
  if (finished_) return;
  finished_ = true;
  if (stopped_) return;
  fresh_.clear();
  detok_.flush(fresh_);
  add_text(fresh_, n_tokens_ > options_.min_tokens);
}

bool TextStream::take(TextPiece& out) {
  out.tokens.clear();
  const bool all = finished_ || stopped_;
  const size_t n_held = all || options_.stops == nullptr ? 0 : options_.stops->held_bytes(state_);
  const size_t n_free = buffer_.size() - n_held;
  const int64_t until = n_points_ - count_points(std::string_view(buffer_).substr(n_free));
  out.n_points = until;
  out.text.assign(buffer_, 0, n_free);
  buffer_.erase(0, n_free);
  const auto keep =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return !all && e.end > until; });
  for (auto it = entries_.begin(); it != keep; ++it) {
    it->token.n_points = static_cast<int>(std::min(it->end, n_points_) - it->token.text_at);
    out.tokens.push_back(std::move(it->token));
  }
  entries_.erase(entries_.begin(), keep);
  return !out.text.empty() || !out.tokens.empty();
}

}  // namespace quire
