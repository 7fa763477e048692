// One call of a CallForm, read byte by byte. One thread at a time.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/parse/argument_kinds.h"
#include "text/parse/call_form.h"
#include "text/parse/json_span.h"
#include "text/parse/keyword_arguments.h"
#include "text/parse/marked_arguments.h"
#include "text/parse/quoted_arguments.h"
#include "text/parse/tagged_arguments.h"

namespace quire {

// Which calls an answer may hold.
struct CallRules {
  const CallForm* form = nullptr;      // null: none, everything is text; outlives whoever has it
  std::vector<std::string> names;      // of the tools
  bool only_one = false;               // what comes behind the first call is dropped
  bool or_document = false;            // an answer is calls or a document, which may look like one: see CallItem
  std::vector<ArgumentKinds> kinds{};  // of each tool's arguments, or none at all; for values without quotes
  bool bare = false;                   // an answer may be calls without marks (bare_calls.h); of objects
  bool in_thoughts = false;            // thoughts may end an answer with calls (thought_calls.h), which nothing holds
};

// Where no mark tells calls from text, what the grammar lets through as text (call_grammar.h) is none: names and keys
// with escapes, a type that is no plain string. Beside a document, where no mark tells calls from it, a call is what
// the grammar of calls lets through (call_grammar.h) and nothing else, certain when it is whole: of objects, the name
// and the arguments, in this order.
class CallItem {
 public:
  enum class Step { more, whole, broken };
  // `rules` have a form and outlive it. `exact`: as beside a document.
  CallItem(const CallRules& rules, bool exact)
      : form_(*rules.form), rules_(rules), exact_(exact), quoted_(form_.string_mark) {}
  explicit CallItem(const CallRules& rules) : CallItem(rules, rules.or_document && rules.form->trigger.empty()) {}

  // The next byte. `broken`: this is no call of these tools, or none that can be read.
  Step push(char c);
  // It is a call: the name is one of the tools', and arguments have begun or there are none.
  bool certain() const { return certain_; }
  // What comes next belongs to a string of the arguments, or to a value between marks.
  bool in_string() const;
  // REQUIRES certain(): its name is the form's for no tool.
  bool calls_nothing() const { return calls_nothing_; }
  const std::string& name() const { return name_; }
  // Moves out what came of the arguments since. REQUIRES certain().
  std::string take_arguments() { return std::exchange(arguments_, {}); }

 private:
  enum class At : uint8_t {
    open,
    key,
    in_key,
    colon,
    value,
    in_name,
    in_other,
    in_arguments,
    in_marked,
    in_keywords,
    in_quoted,
    in_tagged,
    next,
    name
  };
  Step push_named(char c);
  Step push_object(char c);
  Step push_arguments(char c);
  Step push_marked(char c);
  Step push_keywords(char c);
  Step push_quoted(char c);
  Step push_tagged(char c);
  Step end_name(std::string_view name, char next);
  std::string_view name_end() const;
  bool may_become_name() const;
  Step push_value(char c);
  Step end_object();
  bool is_out_of_place(std::string_view key);
  bool is_spelled_out() const;
  bool know_name(std::string_view name);
  bool know_json_name();

  const CallForm& form_;
  const CallRules& rules_;
  const bool exact_;
  At at_ = At::open;
  bool certain_ = false, has_name_ = false, has_arguments_ = false, has_type_ = false;
  bool calls_nothing_ = false;
  JsonSpan span_;
  std::optional<MarkedArguments> marked_;
  std::optional<TaggedArguments> tagged_;
  KeywordArguments keywords_;
  QuotedArguments quoted_;
  std::string token_;  // the key, name or value that is read
  std::string name_, arguments_;
};

}  // namespace quire
