// One call of a CallForm, read byte by byte. One thread at a time.
#pragma once
#include <span>
#include <string>
#include <utility>

#include "text/parse/call_form.h"
#include "text/parse/json_span.h"

namespace quire {

class CallItem {
 public:
  enum class Step { more, whole, broken };
  CallItem(const CallForm& form, std::span<const std::string> names) : form_(form), names_(names) {}

  // The next byte. `broken`: this is no call of these tools, or none that can be read.
  Step push(char c);
  // It is a call: the name is one of the tools', and arguments have begun or there are none.
  bool certain() const { return certain_; }
  const std::string& name() const { return name_; }
  // Moves out what came of the arguments since. REQUIRES certain().
  std::string take_arguments() { return std::exchange(arguments_, {}); }

 private:
  enum class At : uint8_t { open, key, in_key, colon, value, in_name, in_other, in_arguments, next, name };
  Step push_named(char c);
  Step push_object(char c);
  Step push_arguments(char c);
  Step push_value(char c);
  Step end_object();
  bool know_name(std::string_view name);
  bool know_json_name();

  const CallForm& form_;
  const std::span<const std::string> names_;
  At at_ = At::open;
  bool certain_ = false, has_name_ = false, has_arguments_ = false;
  JsonSpan span_;
  std::string token_;  // the key, name or value that is read
  std::string name_, arguments_;
};

}  // namespace quire
