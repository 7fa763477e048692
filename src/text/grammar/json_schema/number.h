// JSON numbers as expressions: bounds, whole multiples, single values. Bounded numbers are written without an exponent,
// so that their digits decide.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar/rx.h"

namespace quire::grammar {

// A decimal number, exactly: digits without superfluous zeros.
struct Decimal {
  bool negative = false;
  std::string whole;     // "0", "12"
  std::string fraction;  // "" or digits, the last not 0

  static Decimal of(const Json& number);  // REQUIRES number.is_number()
  bool is_whole() const { return fraction.empty(); }
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const { return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction); }
  bool operator==(const Decimal&) const = default;
};
// −1, 0, 1
int compare(const Decimal& a, const Decimal& b);

struct Bound {
  Decimal value;
  bool open = false;  // the value itself is out
};

// What numbers must be; all of it at once.
struct NumberRules {
  std::optional<Bound> low, high;
  bool whole = false;      // an integer
  bool not_whole = false;  // no integer
  std::vector<Decimal> multiples, not_multiples;
  std::vector<Decimal> excluded;

  void at_least(const Bound& b);
  void at_most(const Bound& b);
  bool free() const {
    return !low && !high && !not_whole && multiples.empty() && not_multiples.empty() && excluded.empty();
  }
};

// Whether rests of division by all multiples together are few enough to be told apart (kMaxRests).
bool countable(const NumberRules& rules);
inline constexpr uint64_t kMaxRests = 4096;
// Digits, both sides of the point together, of numbers whose last digit matters: as many as every reader of JSON keeps.
inline constexpr uint32_t kMaxDigits = 15;

// kNever where nothing is left; nothing where a multiple is beyond what can be counted with (2^31 after taking out the
// decimal point).
std::optional<Rx> number_rx(RxStore& rx, const NumberRules& rules);
// Every spelling of one value that number_rx uses.
Rx value_rx(RxStore& rx, const Decimal& value);

}  // namespace quire::grammar
