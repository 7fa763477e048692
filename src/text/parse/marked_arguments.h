// The arguments of one marked call (call_form.h), read byte by byte and told as JSON: strings as they come, what may be
// of another kind once it is whole. One thread at a time.
#pragma once
#include <string>
#include <vector>

#include "text/parse/argument_kinds.h"
#include "text/parse/call_form.h"

namespace quire {

class MarkedArguments {
 public:
  enum class Step { more, whole, broken };
  // Both outlive it.
  MarkedArguments(const CallForm& form, const ArgumentKinds& kinds);

  // The next byte behind the name; appends to `json` what is certain. `whole`: the call has ended.
  Step push(char c, std::string& json);

 private:
  enum class At : uint8_t { body, key, key_end, value };
  Step push_body(char c, std::string& json);
  Step push_key(char c);
  Step push_key_end(char c);
  void push_value(char c, std::string& json);
  void end_value(std::string& json);
  ValueKinds kinds_here() const;
  std::string_view value_end() const { return wrapped_ ? std::string_view(wrap_end_) : form_.value_end; }
  size_t held_bytes() const;

  const CallForm& form_;
  const ArgumentKinds& kinds_;
  const std::string key_begin_, key_end_, json_key_end_, call_end_;  // without white space
  const std::string wrap_end_;                                       // with what ends a value
  At at_ = At::body;
  std::string matched_;            // of a mark, without white space
  std::string key_, value_;        // what is read and not told yet
  std::vector<std::string> told_;  // keys; one that comes again is passed over
  ValueKinds kinds_here_ = kEveryKind;
  bool again_ = false, first_ = true;       // the key came before; nothing of the value came yet
  bool is_json_ = false;                    // the mark says that the value is
  bool at_begin_ = true, wrapped_ = false;  // of what may stand around the value; that has begun
};

}  // namespace quire
