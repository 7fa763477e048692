// The fields of a request as data: name, kinds, range, and what becomes of it. One loop checks a body against the
// tables, so every dialect refuses in the same words, and past it a parser reads legal values only. Immutable after it
// is made: any thread.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "serve/api_error.h"
#include "serve/limits.h"

namespace quire {

inline constexpr double kNoMax = std::numeric_limits<double>::infinity();

enum Kinds : uint8_t { kBool = 1, kInteger = 2, kNumber = 4, kString = 8, kArray = 16, kObject = 32, kAnyKind = 63 };

struct Field {
  enum class Use : uint8_t {
    used,
    ignored,      // known, and without effect here
    unsupported,  // a 400 unless null or one of `neutral`
    foreign       // a 400 unless empty: another server's object around fields that stand in the body itself here
  };
  std::string_view name{};
  uint8_t kinds = kAnyKind;  // Kinds that are accepted; null counts as absent
  Use use = Use::used;
  double min = -kNoMax, max = kNoMax;         // of a number: its value; string: bytes; array, object: entries
  int64_t ServeLimits::* limit = nullptr;     // takes the place of max
  std::string_view same_as{};                 // the field that this is another name of
  std::array<std::string_view, 2> neutral{};  // JSON texts
};

// The makers of table rows.
constexpr Field flag_field(std::string_view name) { return {.name = name, .kinds = kBool}; }
constexpr Field integer_field(std::string_view name, double min, double max) {
  return {.name = name, .kinds = kInteger, .min = min, .max = max};
}
constexpr Field count_field(std::string_view name, double min, int64_t ServeLimits::* limit) {
  return {.name = name, .kinds = kInteger, .min = min, .limit = limit};
}
constexpr Field number_field(std::string_view name, double min, double max) {
  return {.name = name, .kinds = kNumber, .min = min, .max = max};
}
constexpr Field field_of(std::string_view name, int kinds, int64_t ServeLimits::* limit = nullptr) {
  return {.name = name, .kinds = static_cast<uint8_t>(kinds), .limit = limit};
}
constexpr Field other_name(std::string_view name, std::string_view same_as) {
  return {.name = name, .same_as = same_as};
}
constexpr Field ignored_field(std::string_view name) { return {.name = name, .use = Field::Use::ignored}; }
constexpr Field unsupported(std::string_view name, std::string_view neutral = {}, std::string_view or_neutral = {}) {
  return {.name = name, .use = Field::Use::unsupported, .neutral = {neutral, or_neutral}};
}
constexpr Field foreign_object(std::string_view name) {
  return {.name = name, .use = Field::Use::foreign, .neutral = {"{}"}};
}

// What a client is told beside its answer: gathered while its request is read, sent in one header (kWarningHeader).
// One thread at a time.
class Warnings {
 public:
  void unknown_field(std::string path) { unknown_.push_back(std::move(path)); }
  int64_t n_unknown() const { return static_cast<int64_t>(unknown_.size()); }
  // REQUIRES text made by append_header_text where the client's words are in it.
  void add(std::string text) { others_.push_back(std::move(text)); }
  std::string text() const;  // empty where there are none

 private:
  std::vector<std::string> unknown_, others_;
};

// What a body is read against. Plain references: passed down while one request is read.
struct Reading {
  const ServeLimits& limits;
  Warnings& warnings;
};

// The checked fields of one body: a view of it.
class Args {
 public:
  const Json* find(std::string_view name) const;  // nullptr when absent or null; under its main name
  // By which of its names the client sent it, as the tables have it; where it is absent, `name`.
  std::string_view sent_as(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool flag(std::string_view name, bool otherwise) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;  // beyond int64: the nearest int64
  double number(std::string_view name, double otherwise) const;
  std::string_view text(std::string_view name) const;  // empty when absent
  // visit(name, value) of each field that is neither absent nor null, under its main name, which is a constant.
  template <typename F>
  void each(F&& visit) const {
    for (const Entry& e : entries_) visit(e.name, *e.value);
  }

 private:
  friend class Schema;
  struct Entry {
    std::string_view name;
    std::string_view sent_as;
    const Json* value;
  };
  std::vector<Entry> entries_;
};

class Schema {
 public:
  // REQUIRES names are unique over the tables, and every same_as is a name there; the tables outlive the schema.
  explicit Schema(std::initializer_list<std::span<const Field>> tables);

  // `path` is put before names in errors, "" for the body itself. Fields that no table has are ignored; of one request
  // the first n_warned become warnings. The result views `object`.
  ApiResult<Args> check(const Json& object, const Reading& reading, std::string_view path) const;
  // Every field, for documentation.
  const std::vector<const Field*>& fields() const { return fields_; }

 private:
  std::vector<const Field*> fields_;
  std::unordered_map<std::string_view, const Field*> by_name_;
};

// A number without a fraction, whatever its notation; beyond int64 the nearest int64. False for anything else.
bool read_integer(const Json& value, int64_t& out);

}  // namespace quire
