#include "route/portions.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace quire {
namespace {

constexpr std::string_view kMark = ": handover ";
constexpr size_t kLeastRoom = 16;  // for more ids

// Of an event, of a line, and of a mark among them.
std::string_view end_of(StreamForm form) { return form == StreamForm::lines ? "\n" : "\n\n"; }

// The next mark at or behind `from`, where an event begins; npos: there is none that is whole.
struct Mark {
  size_t begin = std::string_view::npos, end = 0;
  std::string_view said;
};
Mark next_mark(StreamForm form, std::string_view bytes, size_t from) {
  const std::string_view end_mark = end_of(form);
  Mark out;
  for (size_t at = bytes.find(kMark, from); at != std::string_view::npos; at = bytes.find(kMark, at + 1)) {
    if (at > 0 && !bytes.substr(0, at).ends_with(end_mark)) continue;
    const size_t end = bytes.find(end_mark, at);
    if (end == std::string_view::npos) return out;
    return {at, end + end_mark.size(), bytes.substr(at + kMark.size(), end - at - kMark.size())};
  }
  return out;
}

// Takes what is before the next `end`.
std::string_view next_part(std::string_view& text, char end = ' ') {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

template <typename Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0;
}

bool read_ids(std::string_view text, std::vector<Token>& out) {
  if (text.ends_with(',')) return false;
  while (!text.empty())
    if (!read_number(next_part(text, ','), out.emplace_back())) return false;
  return true;
}

// IDS BYTES [CHOICE [EVENTS]], or "past" EVENTS LIST
bool read_mark(std::string_view said, Portion& out) {
  const std::string_view ids = next_part(said);
  if (ids == "past") {
    out.past = said.substr(std::min(said.size(), said.find(' ') + 1));
    return read_number(next_part(said), out.n_events) && out.past.starts_with('[') && out.past.ends_with(']');
  }
  MarkedChoice told;
  told.over = ids == "end";
  if (!told.over && !read_ids(ids, told.ids)) return false;
  if (!read_number(next_part(said), told.told_bytes)) return false;
  size_t choice = 0;
  if (!said.empty() && !read_number(next_part(said), choice)) return false;
  if (choice >= kMostChoices) return false;
  out.n_events = -1;
  if (!said.empty() && !read_number(said, out.n_events)) return false;
  out.marks.emplace_back(choice, std::move(told));
  return true;
}

// {"tokens":[5,17],"told_bytes":123,"over":true}; {} where nothing was told.
void append_told(std::string& out, const MarkedChoice& told) {
  out += '{';
  if (told.told_bytes >= 0) {
    out += "\"tokens\":[";
    for (const Token id : told.ids) {
      if (out.back() != '[') out += ',';
      out += std::to_string(id);
    }
    out += "],\"told_bytes\":" + std::to_string(told.told_bytes);
    if (told.over) out += ",\"over\":true";
  }
  out += '}';
}

}  // namespace

std::optional<Portion> read_portion(StreamForm form, std::string_view bytes) {
  Portion out;
  for (Mark mark = next_mark(form, bytes, 0); mark.begin != std::string_view::npos;
       mark = next_mark(form, bytes, mark.end)) {
    if (!read_mark(mark.said, out)) return std::nullopt;
    out.events += bytes.substr(out.n_bytes, mark.begin - out.n_bytes);
    out.n_bytes = mark.end;
  }
  return out;
}

std::string without_marks(StreamForm form, std::string_view bytes) {
  std::string out;
  size_t from = 0;
  for (Mark mark = next_mark(form, bytes, 0); mark.begin != std::string_view::npos;
       mark = next_mark(form, bytes, mark.end)) {
    out += bytes.substr(from, mark.begin - from);
    from = mark.end;
  }
  return out += bytes.substr(from);
}

std::string MarkFilter::take(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (n_matched_ == kMark.size()) {
      n_ends_ = c == '\n' ? n_ends_ + 1 : 0;
      if (n_ends_ == most_ends_) n_matched_ = 0;
      continue;
    }
    if ((n_matched_ > 0 || n_ends_ == most_ends_) && c == kMark[n_matched_]) {
      if (++n_matched_ == kMark.size()) n_ends_ = 0;
      continue;
    }
    if (n_matched_ > 0) n_ends_ = 0;
    out += kMark.substr(0, std::exchange(n_matched_, 0));
    out += c;
    n_ends_ = c == '\n' ? std::min(n_ends_ + 1, most_ends_) : 0;
  }
  return out;
}

// Lists of ids grow by an eighth, and the list of choices to twice what it needs at most.
int64_t ToldSoFar::bytes_of(size_t n_choices, size_t n_ids) {
  constexpr size_t kEach = 2 * sizeof(MarkedChoice) + kLeastRoom * sizeof(Token);
  return static_cast<int64_t>(n_choices * kEach + (n_ids + n_ids / 8) * sizeof(Token));
}

int64_t ToldSoFar::n_bytes_with(const Portion& portion) const {
  size_t n_choices = choices_.size(), n_ids = n_ids_;
  for (const auto& [choice, mark] : portion.marks) {
    n_choices = std::max(n_choices, choice + 1);
    n_ids += mark.ids.size();
  }
  return bytes_of(n_choices, n_ids) + std::ssize(portion.past.empty() ? past_ : portion.past);
}

bool ToldSoFar::add(const Portion& portion) {
  bool more = false;
  if (!portion.past.empty()) past_ = portion.past;
  for (const auto& [choice, mark] : portion.marks) {
    if (choice >= choices_.size()) choices_.resize(choice + 1);
    MarkedChoice& told = choices_[choice];
    const size_t n = told.ids.size() + mark.ids.size();
    if (n > told.ids.capacity()) told.ids.reserve(n + std::max(n / 8, kLeastRoom));
    told.ids.insert(told.ids.end(), mark.ids.begin(), mark.ids.end());
    more |= !mark.ids.empty() || mark.told_bytes > std::max<int64_t>(told.told_bytes, 0) || (mark.over && !told.over);
    told.told_bytes = std::max(told.told_bytes, mark.told_bytes);
    told.over |= mark.over;
    n_ids_ += mark.ids.size();
  }
  n_events_ = portion.n_events;
  return more;
}

std::string ToldSoFar::going_on(std::string_view body, std::string_view ticket) const {
  const size_t open = body.find('{');
  if (open == std::string_view::npos) return "";
  std::string out(body.substr(0, open + 1));
  out += "\"" + std::string(kHandoverField) + "\":{\"ticket\":\"";
  for (const char c : ticket)  // hexadecimal digits and full stops, where it is one
    if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= ' ') out += c;
  out += "\",\"choices\":[";
  for (const MarkedChoice& told : choices_) {
    if (out.back() != '[') out += ',';
    append_told(out, told);
  }
  out += ']';
  if (n_events_ >= 0) out += ",\"n_events\":" + std::to_string(n_events_);
  if (has_past()) out += ",\"past\":" + past_;
  return (out += "},") += body.substr(open + 1);
}

}  // namespace quire
