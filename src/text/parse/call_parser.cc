#include "text/parse/call_parser.h"

#include <utility>

namespace quire {
namespace {

bool ends_text(std::string_view text, std::string_view mark) { return !mark.empty() && text.starts_with(mark); }

}  // namespace

CallParser::CallParser(std::shared_ptr<const CallRules> rules, bool document)
    : rules_(std::move(rules)), or_document_(document) {
  if (rules_ == nullptr || rules_->form == nullptr) return;
  const CallForm& form = *rules_->form;
  lead_ = without_space(form.lead);
  between_ = without_space(form.between);
  tail_ = without_space(form.tail);
  if (form.trigger.empty()) {
    at_ = At::start;
    return;
  }
  std::vector<std::string> triggers{std::string(form.trigger)};
  if (!form.short_lead.empty()) triggers.emplace_back(form.short_lead);
  auto compiled = StopStrings::compile(triggers);
  QR_CHECK(compiled.has_value());
  trigger_ = std::make_shared<const StopStrings>(std::move(*compiled));
  if (or_document_) at_ = At::begin;
  if (!form.said.empty()) at_ = At::to_whom;
  if (!rules_->bare) return;
  at_ = At::bare;
  bare_.emplace(*rules_);
}

void CallParser::push(std::string_view text, AnswerParts& out) {
  if (rules_ == nullptr) return out.add(PartKind::text, text);
  for (const char c : text) {
    take(c, out);
    while (!again_.empty()) {
      const char next = again_.front();
      again_.erase(0, 1);
      take(next, out);
    }
  }
}

void CallParser::take(char c, AnswerParts& out) {
  switch (at_) {
    case At::bare: return take_bare(c, out);
    case At::start:
      if (is_json_space(c)) {
        spaces_ += c;
        return;
      }
      at_ = At::lead;
      if (!lead_.empty()) return take_lead(c, out);
      begin_item();
      return take_item(c, out);
    case At::to_whom: return take_to_whom(c);
    case At::begin: return take_begin(c, out);
    case At::text: return take_text(c, out);
    case At::document: return out.add(PartKind::text, {&c, 1});
    case At::lead: return take_lead(c, out);
    case At::item: return take_item(c, out);
    case At::after: return take_after(c, out);
    case At::over: return;
  }
}

void CallParser::take_bare(char c, AnswerParts& out) {
  raw_ += c;
  if (!bare_->push(c)) give_up_bare(out);
}

// What the text of an answer begins with where a call could: that, or the name of a tool.
void CallParser::take_to_whom(char c) {
  raw_ += c;
  const std::string_view said = rules_->form->said;
  if (said.starts_with(raw_)) {
    if (raw_ != said) return;
    raw_.clear();
    at_ = or_document_ ? At::document : At::text;
    return;
  }
  again_ = std::exchange(raw_, {});
  begin_item();
}

// It is read as any other answer.
void CallParser::give_up_bare(AnswerParts& out) {
  const std::string raw = std::exchange(raw_, {});
  bare_.reset();
  at_ = At::text;
  for (const char c : raw) take(c, out);
}

void CallParser::tell_bare(AnswerParts& out) {
  for (const BareCalls::Call& call : bare_->calls()) {
    if (rules_->only_one && n_calls_ > 0) break;
    out.add_call(n_calls_, call.name);
    out.add_arguments(n_calls_++, call.arguments);
  }
  raw_.clear();
}

// Calls or a document: the first bytes say which.
void CallParser::take_begin(char c, AnswerParts& out) {
  if (raw_.empty() && is_json_space(c)) {
    spaces_ += c;
    return;
  }
  const CallForm& form = *rules_->form;
  const std::string so_far = raw_ + c;
  if (!form.trigger.starts_with(so_far) && !form.short_lead.starts_with(so_far)) {
    raw_ = so_far;
    return begin_document(out);
  }
  take_text(c, out);
}

// All that came is of it.
void CallParser::begin_document(AnswerParts& out) {
  out.add(PartKind::text, spaces_);
  out.add(PartKind::text, raw_);
  spaces_.clear();
  raw_.clear();
  at_ = At::document;
}

// White space waits for what comes behind it, unless that is the end or a call.
void CallParser::say(std::string_view text, AnswerParts& out) {
  for (const char c : text) {
    if (is_json_space(c)) {
      if (!behind_call_) spaces_ += c;
      continue;
    }
    behind_call_ = false;
    out.add(PartKind::text, spaces_);
    out.add(PartKind::text, {&c, 1});
    spaces_.clear();
  }
}

void CallParser::take_text(char c, AnswerParts& out) {
  if (trigger_ == nullptr) return say({&c, 1}, out);
  raw_ += c;
  state_ = trigger_->step(state_, c);
  if (trigger_->match_bytes(state_) > 0) {
    state_ = 0;
    const std::string_view short_lead = rules_->form->short_lead;
    matched_ = without_space(raw_);
    at_ = At::lead;
    if (matched_ == lead_ || (!short_lead.empty() && raw_ == short_lead)) begin_item();
    return;
  }
  const size_t n_free = raw_.size() - trigger_->held_bytes(state_);
  say(std::string_view(raw_).substr(0, n_free), out);
  raw_.erase(0, n_free);
}

void CallParser::end_piece(AnswerParts& out) {
  if (trigger_ == nullptr) return;
  const bool in_call = at_ == At::lead || at_ == At::item;
  if (at_ != At::text && !(in_call && rules_->form->recipients)) return;
  const std::string raw = take_unread();
  if (at_ != At::item || !told_) say(raw, out);
  matched_.clear();
  state_ = 0;
  at_ = At::text;
}

void CallParser::take_lead(char c, AnswerParts& out) {
  raw_ += c;
  if (is_json_space(c)) return;
  matched_ += c;
  if (!lead_.starts_with(matched_)) return give_up(out);
  if (matched_ == lead_) begin_item();
}

void CallParser::begin_item() {
  at_ = At::item;
  told_ = false;
  item_.emplace(*rules_);
}

void CallParser::take_item(char c, AnswerParts& out) {
  raw_ += c;
  const CallItem::Step step = item_->push(c);
  if (step == CallItem::Step::broken) return give_up(out);
  const bool is_call = item_->certain() && !item_->calls_nothing();
  if (is_call) tell(out);
  if (step != CallItem::Step::whole) return;
  matched_.clear();
  raw_.clear();
  spaces_.clear();
  behind_call_ = true;
  // Where nothing ends a call, a grammar lets text follow: the next call's mark counts exactly as it is written.
  const At next = tail_.empty() && trigger_ != nullptr ? At::text : At::after;
  at_ = rules_->only_one && is_call ? At::over : next;
}

void CallParser::tell(AnswerParts& out) {
  if (!told_) {
    out.add_call(n_calls_++, item_->name());
    spaces_.clear();
    told_ = true;
  }
  out.add_arguments(n_calls_ - 1, item_->take_arguments());
  raw_.clear();
}

// What was read of something that is no call, without the mark that a reader of messages put in front of it.
std::string CallParser::take_unread() {
  std::string out = std::exchange(raw_, {});
  const bool in_message = trigger_ != nullptr && rules_->form->recipients;
  if (in_message && out.starts_with(rules_->form->trigger)) out.erase(0, rules_->form->trigger.size());
  return out;
}

// A call that broke behind its name stays as far as it came; anything else is text. The byte that broke it may begin a
// mark.
void CallParser::give_up(AnswerParts& out) {
  const bool told = at_ == At::item && told_, after = at_ == At::after;
  std::string raw = take_unread();
  matched_.clear();
  if (or_document_ && n_calls_ == 0) {
    raw_ = std::move(raw);
    return begin_document(out);
  }
  at_ = At::text;
  if (after) {  // no longer than a mark
    for (const char c : raw) take(c, out);
    return;
  }
  if (!rules_->form->said.empty() && !told) {
    if (raw == lead_ + std::string(rules_->form->said)) return;  // a mark, too: text follows
    say(raw.substr(0, 1), out);
    again_.insert(0, raw, 1);  // a mark may begin in it; no longer than the longest name with its marks
    return;
  }
  const char last = raw.back();
  if (told) {
    behind_call_ = false;
  } else {
    raw.pop_back();
    say(raw, out);
  }
  take_text(last, out);
}

// Behind a call: another one, or the end of all. White space is dropped, also that before text.
void CallParser::take_after(char c, AnswerParts& out) {
  raw_ += c;
  if (is_json_space(c)) return;
  matched_ += c;
  const bool ends = !tail_.empty() && tail_.starts_with(matched_);
  const bool goes_on = !between_.empty() && between_.starts_with(matched_);
  if (ends && matched_ == tail_) {
    at_ = At::text;
    raw_.clear();
  } else if (goes_on && matched_ == between_) {
    begin_item();
  } else if (!ends && !goes_on) {
    give_up(out);
  }
}

void CallParser::finish(AnswerParts& out) {
  if (at_ == At::bare) bare_->whole() ? tell_bare(out) : give_up_bare(out);
  // Nothing but what stands between calls is no text: the answer was cut off in front of a further one.
  if (at_ == At::item && n_calls_ > 0 && without_space(raw_) == between_) raw_.clear();
  if (at_ == At::item && item_->calls_nothing()) raw_.clear();
  if (at_ == At::text && behind_call_ && tail_.empty()) raw_.clear();
  if (at_ == At::text && trigger_ != nullptr && ends_text(raw_, rules_->form->text_end)) raw_.clear();
  if (at_ == At::to_whom || at_ == At::begin || at_ == At::lead || (at_ == At::item && !told_) || at_ == At::text)
    say(take_unread(), out);
  if (n_calls_ == 0) out.add(PartKind::text, spaces_);
  raw_.clear();
  spaces_.clear();
  if (rules_ != nullptr) at_ = At::over;
}

}  // namespace quire
