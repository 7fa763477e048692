// How a family of models writes calls of tools: one description, from which the parser of its answers is made
// (call_parser.h). A family is one file in formats/, registered under its name.
#pragma once
#include <string_view>

#include "base/registry.h"

namespace quire {

// An answer that calls is free text, `lead`, calls with `between` between them, and `tail`. Models write white space in
// these as they please, so the parser passes over it.
//   named calls     NAME name_end ARGUMENTS
//   marked calls    NAME name_end {key_begin KEY key_end VALUE value_end} call_end: a value is text without quotes, and
//                   what it is the tool's parameters say
//   keyword calls   NAME name_end KEY=VALUE, … call_end: a value is a literal of Python's
//   quoted calls    NAME{KEY:VALUE,…}: keys without quotes, strings as they are between two string_marks
//   tagged calls    NAME name_end {<KEY>VALUE</KEY>} call_end, a tag_mark before each tag: a value is text or such
//                   elements again, of a list with the name item
//   objects         {"NAME_KEY": NAME, "ARGUMENTS_KEY": ARGUMENTS}, other keys are passed over; where there is a
//   name_key
struct CallForm {
  std::string_view trigger{};  // of `lead`, what it begins with; empty: nothing comes before calls
  std::string_view lead{}, between{}, tail{};
  std::string_view short_lead{};  // what some models write instead of `lead`
  std::string_view text_end{};    // of `trigger`: it ends text without a call, too, and is none of it
  std::string_view name_key{}, arguments_key{};
  std::string_view no_tool{};  // of objects: the name by which a model calls nothing, unless a tool has it
  std::string_view name_end{};
  std::string_view id_mark{};      // between the name and what else stands before name_end; in objects: the id's key
  std::string_view behind_name{};  // in calls that are held to the form: what stands before name_end
  std::string_view id_pattern{};   // what stands there in calls that are held to the form; empty: no mark either
  std::string_view key_begin{}, key_end{}, value_end{}, call_end{};
  // Instead of key_end where the value is JSON, which otherwise is a string. A '*' in it stands for what the value is:
  // number, boolean, null, object or array.
  std::string_view json_key_end{};
  std::string_view wrap_begin{}, wrap_end{};  // that a model may put around a value, inside key_end and value_end
  std::string_view string_mark{};             // at both ends of a string; calls are quoted calls then
  std::string_view tag_mark{};                // before each tag; calls are tagged calls then
  std::string_view prompt_mark{};             // tells the family like `trigger`, where it comes with tools alone
  // Not empty: the prompt ends with `lead`, and an answer is calls from their names on, or this and then text in which
  // a name behind `lead` calls, and this there is a mark in front of more text. These are exactly as they are written.
  std::string_view said{};
  bool padded = false;      // a line end stands before and behind each value
  bool joined = false;      // nothing stands between arguments, otherwise a line end
  bool entities = false;    // in keys &quot; and &amp; stand for " and &
  bool keywords = false;    // calls are keyword calls
  bool channels = false;    // a call is a message of its own, the last of an answer, and text is one (text/reasoning.h)
  bool recipients = false;  // of channels: messages say to whom they are instead, and several may be calls

  bool marked() const { return !key_begin.empty(); }
  bool quoted() const { return !string_mark.empty(); }
  bool tagged() const { return !tag_mark.empty(); }
  bool objects() const { return !name_key.empty(); }
};

// QR_REGISTER(CallForm, "hermes", kForm).

}  // namespace quire
