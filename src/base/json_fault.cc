#include "base/json_fault.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>

#include "base/json.h"

namespace quire {
namespace {

namespace json = boost::json;

// Lets everything pass: only the syntax counts.
struct Anything {
  // NOLINTBEGIN(readability-identifier-naming): the names that the parser asks for
  static constexpr size_t max_array_size = static_cast<size_t>(-1);
  static constexpr size_t max_object_size = static_cast<size_t>(-1);
  static constexpr size_t max_string_size = static_cast<size_t>(-1);
  static constexpr size_t max_key_size = static_cast<size_t>(-1);
  // NOLINTEND(readability-identifier-naming)

  using Text = json::string_view;
  using Error = json::error_code;
  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) { return true; }
  bool on_object_end(size_t, Error&) { return true; }
  bool on_array_begin(Error&) { return true; }
  bool on_array_end(size_t, Error&) { return true; }
  bool on_key_part(Text, size_t, Error&) { return true; }
  bool on_key(Text, size_t, Error&) { return true; }
  bool on_string_part(Text, size_t, Error&) { return true; }
  bool on_string(Text, size_t, Error&) { return true; }
  bool on_number_part(Text, Error&) { return true; }
  bool on_int64(int64_t, Text, Error&) { return true; }
  bool on_uint64(uint64_t, Text, Error&) { return true; }
  bool on_double(double, Text, Error&) { return true; }
  bool on_bool(bool, Error&) { return true; }
  bool on_null(Error&) { return true; }
  bool on_comment_part(Text, Error&) { return true; }
  bool on_comment(Text, Error&) { return true; }
};

}  // namespace

std::optional<size_t> json_fault(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth + 1;  // this parser recurses
  json::basic_parser<Anything> parser(options);
  json::error_code error;
  const size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (error == json::error::too_deep) return std::nullopt;
  if (error) return read;
  const size_t rest = text.find_first_not_of(" \t\r\n", read);
  return rest == std::string_view::npos ? std::nullopt : std::optional(rest);
}

}  // namespace quire
