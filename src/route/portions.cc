#include "route/portions.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace quire {
namespace {

constexpr std::string_view kMark = ": handover ";

// Of an event, of a line, and of a mark among them.
std::string_view end_of(StreamForm form) { return form == StreamForm::lines ? "\n" : "\n\n"; }

// The next mark at or behind `from`, where an event begins; npos: there is none that is whole.
struct Mark {
  size_t begin = std::string_view::npos, end = 0;
  std::string_view ids, told;
};
Mark next_mark(StreamForm form, std::string_view bytes, size_t from) {
  const std::string_view end_mark = end_of(form);
  Mark out;
  for (size_t at = bytes.find(kMark, from); at != std::string_view::npos; at = bytes.find(kMark, at + 1)) {
    if (at > 0 && !bytes.substr(0, at).ends_with(end_mark)) continue;
    const size_t end = bytes.find(end_mark, at);
    if (end == std::string_view::npos) return out;
    const std::string_view said = bytes.substr(at + kMark.size(), end - at - kMark.size());
    const size_t gap = std::min(said.find(' '), said.size());
    out = {at, end + end_mark.size(), said.substr(0, gap), said.substr(std::min(gap + 1, said.size()))};
    return out;
  }
  return out;
}

bool are_ids(std::string_view text) {
  bool digit = text.empty();
  for (const char c : text) {
    if (c == ',' && !digit) return false;
    if (c != ',' && (c < '0' || c > '9')) return false;
    digit = c != ',';
  }
  return digit;
}

bool read_number(std::string_view text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0;
}

void append_ids(std::string& to, std::string_view ids) {
  if (!to.empty() && !ids.empty()) to += ',';
  to += ids;
}

}  // namespace

std::optional<Portion> read_portion(StreamForm form, std::string_view bytes) {
  Portion out;
  for (Mark mark = next_mark(form, bytes, 0); mark.begin != std::string_view::npos;
       mark = next_mark(form, bytes, mark.end)) {
    if (!are_ids(mark.ids) || !read_number(mark.told, out.told_bytes)) return std::nullopt;
    out.events += bytes.substr(out.n_bytes, mark.begin - out.n_bytes);
    append_ids(out.ids, mark.ids);
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

void ToldSoFar::add(const Portion& portion) {
  append_ids(ids_, portion.ids);
  told_bytes_ = portion.told_bytes;
}

std::string ToldSoFar::going_on(std::string_view body, std::string_view ticket) const {
  const size_t open = body.find('{');
  if (open == std::string_view::npos) return "";
  std::string out(body.substr(0, open + 1));
  out += "\"" + std::string(kHandoverField) + "\":{\"ticket\":\"";
  for (const char c : ticket)  // hexadecimal digits and full stops, where it is one
    if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= ' ') out += c;
  out += "\",\"tokens\":[" + ids_ + "],\"told_bytes\":" + std::to_string(told_bytes_) + "},";
  return out += body.substr(open + 1);
}

}  // namespace quire
