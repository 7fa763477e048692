// See composer.h.
#include "text/grammar/composer.h"

#include <algorithm>
#include <functional>

#include "text/grammar/bnf.h"
#include "text/grammar/finish.h"
#include "text/grammar/lark.h"
#include "text/grammar/pattern.h"
#include "text/grammar/rx_chars.h"
#include "text/grammar/rx_text.h"

namespace quire {

using namespace grammar;

GrammarComposer::GrammarComposer(const GrammarLimits& limits, std::vector<Control> controls)
    : limits_(limits), rx_(limits.memory_bytes, limits.derivatives), net_(rx_, {}) {
  for (Control& c : controls) {
    if (c.first.empty()) continue;
    control_bytes_.push_back(c.first.size());
    std::string text = c.first;
    controls_.emplace(std::move(text), std::move(c));
  }
  std::sort(control_bytes_.begin(), control_bytes_.end(), std::greater<>());
  control_bytes_.erase(std::unique(control_bytes_.begin(), control_bytes_.end()), control_bytes_.end());
  const Rx any = CharCoder(rx_, Spelling::utf8).any();
  net_.wide(any);
  text_ = rx_.star(any);
}

// The longest control token that `text` begins with.
const GrammarComposer::Control* GrammarComposer::control_at(std::string_view text) const {
  std::string beginning;
  for (const size_t n : control_bytes_) {
    if (n > text.size()) continue;
    beginning = text.substr(0, n);
    const auto found = controls_.find(beginning);
    if (found != controls_.end()) return &found->second;
  }
  return nullptr;
}

GrammarComposer::Part GrammarComposer::literal(std::string_view text) {
  const Part rule = net_.rule();
  State at = net_.start(rule);
  const auto step = [&](Rx rx) {
    const State next = net_.state(rule);
    net_.edge_rx(at, rx, next);
    at = next;
  };
  std::string plain;
  while (!text.empty()) {
    if (const Control* c = control_at(text)) {
      if (!plain.empty()) step(rx_.literal(plain));
      plain.clear();
      step(net_.control(c->second));
      text.remove_prefix(c->first.size());
    } else {
      plain += text[0];
      text.remove_prefix(1);
    }
  }
  if (!plain.empty()) step(rx_.literal(plain));
  net_.final(at);
  return rule;
}

GrammarComposer::Part GrammarComposer::token(Token id) { return net_.rule_of(net_.control(id)); }

Result<GrammarComposer::Part> GrammarComposer::json_schema(const Json& schema, JsonSchemaOptions options) {
  const Control* mark = control_at(options.string_mark);
  if (mark != nullptr && mark->first == options.string_mark) options.mark_token = mark->second;
  return json_schema_rule(schema, options, limits_.fuel, net_, warnings_);
}

Result<GrammarComposer::Part> GrammarComposer::regex(std::string_view pattern) {
  CharCoder coder(rx_, Spelling::utf8);
  QR_TRY(const Rx rx, compile_pattern(pattern, PatternMeans::whole_text, coder));
  return net_.rule_of(rx);
}

Result<GrammarComposer::Part> GrammarComposer::gbnf(std::string_view source) { return bnf_rule(source, "gbnf", net_); }
Result<GrammarComposer::Part> GrammarComposer::ebnf(std::string_view source) { return bnf_rule(source, "ebnf", net_); }

Result<GrammarComposer::Part> GrammarComposer::lark(std::string_view source) { return lark_rule(source, net_); }

GrammarComposer::Part GrammarComposer::one_of(std::vector<std::string> texts) {
  return net_.rule_of(one_of_texts(rx_, std::move(texts)));
}

GrammarComposer::Part GrammarComposer::sequence(std::span<const Part> parts) {
  const Part rule = net_.rule();
  State at = net_.start(rule);
  for (const Part p : parts) {
    const State next = net_.state(rule);
    net_.edge_rule(at, p, next);
    at = next;
  }
  net_.final(at);
  return rule;
}

GrammarComposer::Part GrammarComposer::choice(std::span<const Part> parts) {
  const Part rule = net_.rule();
  const State end = net_.state(rule);
  for (const Part p : parts) net_.edge_rule(net_.start(rule), p, end);
  net_.final(end);
  return rule;
}

GrammarComposer::Part GrammarComposer::repeat(Part what, uint32_t min, uint32_t max) {
  return net_.loop(what, min, max);
}

GrammarComposer::Part GrammarComposer::free_text() { return net_.rule_of(text_); }

// Texts that end with `end` and have none of `ends` before that.
Rx GrammarComposer::first_time(std::span<const Rx> ends, Rx end) {
  const Rx early =
      rx_.cat({RxStore::kAny, rx_.alt({ends.begin(), ends.end()}), rx_.set(ByteSet::all()), RxStore::kAny});
  return rx_.both({rx_.cat(text_, end), rx_.negate(early)});
}

// What text before one of `marks` may not hold: each of them, or the spelling of the control token that it begins with.
std::vector<Rx> GrammarComposer::marks_in_text(std::span<const std::string> marks) {
  std::vector<Rx> out;
  for (const std::string& mark : marks) {
    const Control* control = control_at(mark);
    out.push_back(rx_.literal(control != nullptr ? control->first : mark));
  }
  return out;
}

GrammarComposer::Part GrammarComposer::text_until(std::span<const std::string> ends) {
  const Part rule = net_.rule();
  const State behind = net_.state(rule), done = net_.state(rule);
  const std::vector<Rx> marks = marks_in_text(ends);
  const Rx none = rx_.both({text_, rx_.negate(rx_.cat({RxStore::kAny, rx_.alt(marks), RxStore::kAny}))});
  for (const std::string& end : ends) {
    if (control_at(end) == nullptr) {
      net_.edge_rx(net_.start(rule), first_time(marks, rx_.literal(end)), done);
    } else {
      net_.edge_rule(behind, literal(end), done);
    }
  }
  net_.edge_rx(net_.start(rule), none, behind);
  net_.final(done);
  return rule;
}

// What may come behind a trigger that is whole: the rest of each tag that begins with it.
Result<GrammarComposer::Part> GrammarComposer::tags_of(std::string_view trigger, std::span<const Tag> tags) {
  std::vector<Part> ways;
  for (const Tag& tag : tags) {
    if (!tag.begin.starts_with(trigger)) continue;
    const Part both[] = {literal(std::string_view(tag.begin).substr(trigger.size())), tag.rest};
    ways.push_back(sequence(both));
  }
  return choice(ways);
}

Result<GrammarComposer::Part> GrammarComposer::triggered(std::span<const std::string> triggers,
                                                         std::span<const Tag> tags,
                                                         TagRules rules) {
  for (const std::string& t : triggers) {
    if (t.empty()) return fail(Code::invalid, "structural_tag: a trigger is empty");
  }
  for (const Tag& tag : tags) {
    if (std::none_of(triggers.begin(), triggers.end(),
                     [&](const std::string& t) { return tag.begin.starts_with(t); })) {
      return fail(Code::invalid, "structural_tag: a tag begins with none of the triggers: \"" + tag.begin + "\"");
    }
  }
  const std::vector<Rx> marks = marks_in_text(triggers);
  const Rx none = rx_.both({text_, rx_.negate(rx_.cat({RxStore::kAny, rx_.alt(marks), RxStore::kAny}))});
  const Part once = net_.rule();  // text, trigger, tag
  const State behind = net_.state(once), done = net_.state(once);
  net_.edge_rx(net_.start(once), none, behind);
  net_.final(done);
  for (const std::string& t : triggers) {
    const State begun = net_.state(once);
    if (control_at(t) == nullptr) {
      net_.edge_rx(net_.start(once), first_time(marks, rx_.literal(t)), begun);
    } else {
      net_.edge_rule(behind, literal(t), begun);
    }
    QR_TRY(const Part rest, tags_of(t, tags));
    net_.edge_rule(begun, rest, done);
  }
  const Part only_text = net_.rule_of(none);
  if (rules.stop_after_first) {
    const Part ways[] = {once, only_text};
    return rules.at_least_one ? once : choice(ways);
  }
  const Part parts[] = {repeat(once, rules.at_least_one ? 1 : 0, kNoLimit), only_text};
  return sequence(parts);
}

Result<std::shared_ptr<const Grammar>> GrammarComposer::finish(Part root) {
  return grammar::finish(net_, rx_, root, std::move(warnings_));
}

}  // namespace quire
