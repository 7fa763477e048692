// JSON values: parsing untrusted text and building replies. Objects keep their key order (tojson in chat templates
// needs it). The parser behind it (simdjson) is strict about UTF-8 and numbers; nothing here recurses on user data
// deeper than kMaxJsonDepth. Values are plain data: copy, move, no sharing between threads without a lock.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace quire {

inline constexpr int kMaxJsonDepth = 64;

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in source order; keys are unique (the parser refuses duplicates)

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(int64_t{v}) {}
  Json(int64_t v) : value_(v) {}
  Json(double v) : value_(v) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}
  template <class T>
  Json(const T*) = delete;  // a pointer would become a bool
  // A copy that there is no memory for throws std::bad_alloc, and nothing else happens: written by hand, because that
  // of std::variant (libstdc++ 12, alternatives that are never valueless) then destroys what was not made.
  Json(const Json& other);
  Json& operator=(const Json& other);
  Json(Json&&) noexcept = default;
  Json& operator=(Json&&) noexcept = default;
  ~Json() = default;

  // Integers beyond int64 become doubles. Errors (Code::invalid) name the byte offset where known.
  static Result<Json> parse(std::string_view text);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* as_bool() const { return std::get_if<bool>(&value_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&value_); }
  const double* as_double() const { return std::get_if<double>(&value_); }  // only a non-integer number
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }
  Array* as_array() { return std::get_if<Array>(&value_); }
  Object* as_object() { return std::get_if<Object>(&value_); }
  bool is_number() const { return as_int() || as_double(); }
  double number() const { return as_int() ? static_cast<double>(*as_int()) : as_double() ? *as_double() : 0.0; }

  const Json* find(std::string_view key) const;  // nullptr when absent or when this is no object
  void set(std::string key, Json value);         // replaces or appends; a null value becomes an object first
  std::string dump() const;                      // compact; non-finite numbers become null

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// "text" with quotes, escaped; bytes that are not UTF-8 become U+FFFD, so the output is always valid JSON.
void append_json_string(std::string& out, std::string_view text);
// Shortest form that reads back to the same double; non-finite becomes null.
void append_json_number(std::string& out, double value);

}  // namespace quire
