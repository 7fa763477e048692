// A stream of one of our own servers that another one can go on with. The one idea: such a server tells behind the
// events or lines of each portion how far the answer is, in a line that no client would read, and only what has such a
// mark behind it is passed on. So what the client has is what can be gone on from, wherever the stream breaks. Pure.
//   : handover 5,17,23 123        tokens of which everything was told since the last mark; bytes of text told in all
//   : handover 5,17,23 123 2 14   of the answer's third choice; and how many events were told, where they have numbers
//   : handover end 130 2          all of the choice was told
//   : handover past 2 [...]       what only this server knew of the request; and how many events were told
// Behind a mark among events is a blank line.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"
#include "route/event_cut.h"

namespace quire {

inline constexpr std::string_view kHandoverHeader = "x-quire-handover";
inline constexpr std::string_view kHandoverField = "handover";  // of a request: what was told

// How far a choice is: a mark, or what several come to.
struct MarkedChoice {
  std::vector<Token> ids;
  int64_t told_bytes = -1;  // -1: nothing of it was told
  bool over = false;
};
struct Portion {
  std::string events;                                  // for the client
  std::vector<std::pair<size_t, MarkedChoice>> marks;  // and whose they are
  int64_t n_events = -1;                               // of the last mark, -1: it does not say
  std::string past;                                    // a JSON list; empty: nothing was told of it
  size_t n_bytes = 0;                                  // that these and their marks take; 0: no mark came yet
};
inline constexpr size_t kMostChoices = 4096;  // of an answer; what is said of others cannot be read
// All up to the last mark of `bytes`, which begin where an event or a line does. Nullopt: a mark cannot be read.
// REQUIRES a form that is not bytes, here and below.
std::optional<Portion> read_portion(StreamForm form, std::string_view bytes);
// Events or lines, whole or not, without the marks among them.
std::string without_marks(StreamForm form, std::string_view bytes);

// The same of a stream whose events or lines are passed on before they are whole, cut anywhere: what may become a mark
// is held, 11 bytes of it at most.
class MarkFilter {
 public:
  explicit MarkFilter(StreamForm form) : most_ends_(form == StreamForm::lines ? 1 : 2), n_ends_(most_ends_) {}
  // What of the next bytes of the stream may be passed on.
  std::string take(std::string_view bytes);

 private:
  int most_ends_, n_ends_;  // line feeds that end an event; those just passed
  size_t n_matched_ = 0;    // of what a mark begins with; all of it: in a mark
};

// How far an answer is.
class ToldSoFar {
 public:
  // Whether it says more than was known: of a choice a token, more bytes, or that it is over. Nothing is taken back.
  bool add(const Portion& portion);
  bool any() const { return !choices_.empty() || has_past(); }
  // Any worker can be asked, whatever the request says of who has what stands before it.
  bool has_past() const { return !past_.empty(); }
  // That it holds at most, now and then.
  int64_t n_bytes() const { return bytes_of(choices_.size(), n_ids_) + std::ssize(past_); }
  int64_t n_bytes_with(const Portion& portion) const;
  void forget() { *this = {}; }
  // The request, which began so, as it is sent to who goes on; empty: it is no JSON object.
  std::string going_on(std::string_view body, std::string_view ticket) const;

 private:
  static int64_t bytes_of(size_t n_choices, size_t n_ids);

  std::vector<MarkedChoice> choices_;
  std::string past_;
  int64_t n_events_ = -1;
  size_t n_ids_ = 0;
};

}  // namespace quire
