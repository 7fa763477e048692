// Refusals of the wire dialects: builders of http's HttpError, and the one table from Code to status. Messages are made
// of our own words and numbers, and of names that the client sent (cut to a fixed length).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/message.h"

namespace quire {

template <class T>
using ApiResult = tl::expected<T, HttpError>;

// 400: `field` is a path such as "messages[2].content".
HttpError bad_field(std::string_view field, std::string message, std::string_view code = "invalid_value");
// 400 "'stop' has 20 entries: the limit is 16 (n_stops)"; `note` is limit_note's, or empty.
HttpError over_limit(
    std::string_view field, std::string_view what, int64_t got, int64_t limit, std::string_view note = {});
// 400 for a known field that cannot be honoured; `reason` may be empty.
HttpError unsupported_field(std::string_view field, std::string_view reason);
HttpError missing_field(std::string_view field);
// An Error of a room below; `field` may be empty.
HttpError to_http_error(const Error& error, std::string_view field);

// 503 and 500, made without memory.
HttpError out_of_memory();
HttpError internal_error();
// Of a request whose first token cannot come by its deadline.
HttpError too_late();

// The value of `code`'s HTTP status.
int http_status(Code code);
// What the client sent, in a header field: other than plain ASCII becomes '?', cut at 64 bytes.
void append_header_text(std::string& out, std::string_view text);
inline constexpr std::string_view kWarningHeader = "x-quire-warning";
// "messages[3]", "messages[3].content".
std::string at_index(std::string_view path, int64_t index);
std::string at_key(std::string_view path, std::string_view key);

template <class E>
auto refuse(E&& error) {
  return tl::make_unexpected(std::forward<E>(error));
}

}  // namespace quire
