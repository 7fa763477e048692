#include "text/jinja/context.h"

namespace quire::jinja {

bool Context::fail_with(Code code, std::string message) {
  if (failed_) return false;  // the first error is the cause
  failed_ = true;
  error_ = {code, "chat template, line " + std::to_string(line_) + ": " + std::move(message)};
  return false;
}

Error Context::error() const { return error_; }

bool Context::out_of_memory() {
  return fail_with(Code::invalid,
                   "values take more than the limit of " + std::to_string(limits_.memory_bytes) + " bytes");
}

bool Context::out_of_budget() {
  if (arena_.used() > limits_.memory_bytes) return out_of_memory();
  return fail_with(Code::invalid, "rendering takes more than the limit of " + std::to_string(limits_.fuel) + " steps");
}

bool Context::fail_undefined(const Value& v) {
  const std::string name = v.s ? "'" + excerpt(v.s->text, 100) + "'" : "the value";
  Value owner;
  owner.kind = v.owner;
  const std::string of = v.owner == Kind::seq ? "list" : std::string(kind_name(owner));
  switch (v.lack) {
    case Lack::name: return fail(name + " is undefined");
    case Lack::attribute: return fail("'" + of + "' has no attribute " + name);
    case Lack::element: return fail("'" + of + "' has no such element");
    case Lack::parameter: return fail("parameter " + name + " was not given");
    case Lack::unsafe: return fail("attribute " + name + " of '" + of + "' is not accessible");
    case Lack::branch: return fail("the inline if has no else and its condition is false");
  }
  return fail(name + " is undefined");
}

std::string excerpt(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (text[limit] & 0xc0) == 0x80) --limit;
  return std::string(text.substr(0, limit)) + "…";
}

}  // namespace quire::jinja
