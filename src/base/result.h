// Expected failures as values. Every room's door returns Result<T>; bugs go to QR_CHECK instead (check.h).
// g++ 12 has no usable std::expected under C++20, so the alias hides tl::expected (decision 001).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace quire {

// What kind of failure; serve maps it to an HTTP status in one table.
enum class Code : uint8_t { invalid, not_found, unsupported, exhausted, cancelled, timeout, corrupt, io, internal };

std::string_view code_name(Code);

// `message` names field, limit and value (for files: file, tensor or key, offset). It may be shown to a user:
// never put an address, a path that the user did not give, or another user's text in it.
struct Error {
  Code code = Code::internal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::make_unexpected(Error{code, std::move(message)});
}

}  // namespace quire

#define QR_CONCAT_INNER(a, b) a##b
#define QR_CONCAT(a, b) QR_CONCAT_INNER(a, b)

// QR_TRY(auto x, f());  declares x from the value or returns the error.   QR_TRY_VOID(f());  for Status.
#define QR_TRY(decl, expr) QR_TRY_INNER(QR_CONCAT(qr_try_, __LINE__), decl, expr)
#define QR_TRY_INNER(tmp, decl, expr)                           \
  auto tmp = (expr);                                            \
  if (!tmp) return tl::make_unexpected(std::move(tmp).error()); \
  decl = std::move(*tmp)
#define QR_TRY_VOID(expr)                                                     \
  do {                                                                        \
    auto qr_status = (expr);                                                  \
    if (!qr_status) return tl::make_unexpected(std::move(qr_status).error()); \
  } while (false)
