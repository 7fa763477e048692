// The arguments of one marked call (call_form.h), read byte by byte and told as JSON: strings as they come, what may be
// of another kind once it is whole. One thread at a time.
#pragma once
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/parse/argument_kinds.h"
#include "text/parse/call_form.h"
#include "text/parse/marked_value.h"

namespace quire {

class MarkedArguments {
 public:
  enum class Step { more, whole, broken };
  // Both outlive it.
  MarkedArguments(const CallForm& form, const ArgumentKinds& kinds);

  // The next byte behind the name; appends to `json` what is certain. `whole`: the call has ended.
  Step push(char c, std::string& json);
  bool in_value() const { return at_ == At::value; }

 private:
  enum class At : uint8_t { body, key, key_end, value };
  Step push_body(char c, std::string& json);
  Step push_key(char c);
  Step push_key_end(char c);
  void push_value(char c, std::string& json);
  void end_value(std::string& json);
  ValueKinds kinds_here() const;

  const CallForm& form_;
  const ArgumentKinds& kinds_;
  const std::string key_begin_, key_end_, call_end_;  // without white space
  std::vector<std::string> json_key_ends_;            // likewise
  At at_ = At::body;
  std::string matched_;  // of a mark, without white space
  std::string key_;
  std::optional<MarkedValue> value_;
  std::unordered_set<std::string> told_;  // keys; one that comes again is passed over
  ValueKinds kinds_here_ = kEveryKind;
  bool again_ = false;    // the key came before
  bool is_json_ = false;  // the mark says that the value is
  bool told_key_ = false;
};

}  // namespace quire
