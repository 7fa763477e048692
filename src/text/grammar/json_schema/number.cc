// See number.h. Only "greater than" and "at least" are written out, digit by digit; the rest is *not* and *and*.
#include "text/grammar/json_schema/number.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace quire::grammar {

namespace {

Rx digit_range(RxStore& rx, char first, char last) {
  return first > last ? RxStore::kNever
                      : rx.set(ByteSet::range(static_cast<uint8_t>(first), static_cast<uint8_t>(last)));
}
Rx digit(RxStore& rx) { return digit_range(rx, '0', '9'); }

Rx whole_part(RxStore& rx) { return rx.alt({rx.byte('0'), rx.cat(digit_range(rx, '1', '9'), rx.star(digit(rx)))}); }
Rx some_fraction(RxStore& rx) { return rx.cat(rx.byte('.'), rx.repeat(digit(rx), 1, kNoLimit)); }

// Digits without a leading zero whose number is greater.
Rx whole_above(RxStore& rx, const std::string& digits) {
  const auto n = static_cast<uint32_t>(digits.size());
  const Rx first = digit_range(rx, '1', '9');
  std::vector<Rx> parts{rx.cat(first, rx.repeat(digit(rx), digits == "0" ? 0 : n, kNoLimit))};
  for (uint32_t i = 0; i < n; ++i) {
    const Rx higher = digit_range(rx, static_cast<char>(digits[i] + 1), '9');
    parts.push_back(rx.cat({rx.literal(digits.substr(0, i)), higher, rx.repeat(digit(rx), n - i - 1, n - i - 1)}));
  }
  return rx.alt(std::move(parts));
}

// Digits behind the point that make more than `digits` do, or at least as much.
Rx fraction_above(RxStore& rx, const std::string& digits, bool or_equal) {
  const Rx any = rx.star(digit(rx));
  std::vector<Rx> parts;
  for (size_t i = 0; i < digits.size(); ++i) {
    const Rx higher = digit_range(rx, static_cast<char>(digits[i] + 1), '9');
    parts.push_back(rx.cat({rx.literal(digits.substr(0, i)), higher, any}));
  }
  const Rx same = rx.literal(digits);
  parts.push_back(or_equal ? rx.cat(same, any) : rx.cat({same, any, digit_range(rx, '1', '9'), any}));
  return rx.alt(std::move(parts));
}

// Numbers without sign that are greater than |value|, or at least as great.
Rx above(RxStore& rx, const Decimal& value, bool or_equal) {
  const Rx more = rx.cat(whole_above(rx, value.whole), rx.optional(some_fraction(rx)));
  Rx behind = rx.cat(rx.byte('.'), fraction_above(rx, value.fraction, or_equal));
  if (or_equal && value.fraction.empty()) behind = rx.optional(some_fraction(rx));
  return rx.alt({more, rx.cat(rx.literal(value.whole), behind)});
}

// Numbers, sign included, on the upper side of a bound; on the lower side with `mirrored`.
Rx beyond(RxStore& rx, Bound bound, bool mirrored) {
  if (mirrored) bound.value.negative = !bound.value.negative && !bound.value.is_zero();
  const Rx minus = rx.byte('-');
  const Rx own_sign = mirrored ? minus : RxStore::kEmpty, other_sign = mirrored ? RxStore::kEmpty : minus;
  if (!bound.value.negative) {
    const Rx outside = rx.cat(own_sign, above(rx, bound.value, !bound.open));
    // Zero has no sign of its own: 0 is at most 0, too.
    return mirrored && bound.value.is_zero() && !bound.open ? rx.alt({outside, value_rx(rx, {false, "0", ""})})
                                                            : outside;
  }
  const Rx digits = rx.cat(whole_part(rx), rx.optional(some_fraction(rx)));
  const Rx too_far = above(rx, bound.value, bound.open);
  return rx.alt({rx.cat(own_sign, digits), rx.cat(other_sign, rx.both({digits, rx.negate(too_far)}))});
}

// The number without its point.
std::optional<uint32_t> modulus_of(const Decimal& of) {
  const std::string digits = (of.whole == "0" ? "" : of.whole) + of.fraction;
  const size_t start = digits.find_first_not_of('0');
  if (start == std::string::npos || digits.size() - start > 10 || of.fraction.size() > 30) return std::nullopt;
  uint64_t modulus = 0;
  for (const char c : digits.substr(start)) modulus = modulus * 10 + static_cast<uint64_t>(c - '0');
  if (modulus >= uint64_t{1} << 31) return std::nullopt;
  return static_cast<uint32_t>(modulus);
}

std::optional<Rx> multiple_rx(RxStore& rx, const Decimal& of) {
  const auto modulus = modulus_of(of);
  if (!modulus) return std::nullopt;
  return rx.multiple_of(*modulus, static_cast<uint32_t>(of.fraction.size()));
}

void expand_exponent(std::string& whole, std::string& fraction, int exponent) {
  if (exponent > 0) {
    const auto n = static_cast<size_t>(exponent);
    fraction.resize(std::max(fraction.size(), n), '0');
    whole += fraction.substr(0, n);
    fraction.erase(0, n);
  } else if (exponent < 0) {
    const auto n = static_cast<size_t>(-exponent);
    if (whole.size() < n) whole.insert(0, n - whole.size(), '0');
    fraction.insert(0, whole.substr(whole.size() - n));
    whole.resize(whole.size() - n);
  }
}

}  // namespace

Decimal Decimal::of(const Json& number) {
  char text[64];
  const auto end = number.as_int() != nullptr ? std::to_chars(text, text + sizeof text, *number.as_int())
                                              : std::to_chars(text, text + sizeof text, number.number());
  std::string_view s(text, static_cast<size_t>(end.ptr - text));
  Decimal out;
  out.negative = s.starts_with('-');
  if (out.negative) s.remove_prefix(1);
  int exponent = 0;
  if (const size_t e = s.find('e'); e != std::string_view::npos) {
    std::string_view digits = s.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    s = s.substr(0, e);
  }
  const size_t point = s.find('.');
  out.whole = s.substr(0, point);
  if (point != std::string_view::npos) out.fraction = s.substr(point + 1);
  expand_exponent(out.whole, out.fraction, exponent);
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  if (out.whole.empty()) out.whole = "0";
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.negative = false;
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = a.whole.size() != b.whole.size() ? (a.whole.size() < b.whole.size() ? -1 : 1) : a.whole.compare(b.whole);
  if (order == 0) order = a.fraction.compare(b.fraction);
  order = order < 0 ? -1 : order > 0 ? 1 : 0;
  return a.negative ? -order : order;
}

void NumberRules::at_least(const Bound& b) {
  const int order = low ? compare(b.value, low->value) : 1;
  if (order > 0 || (order == 0 && b.open)) low = b;
}

void NumberRules::at_most(const Bound& b) {
  const int order = high ? compare(b.value, high->value) : -1;
  if (order < 0 || (order == 0 && b.open)) high = b;
}

bool countable(const NumberRules& rules) {
  uint64_t rests = 1;
  for (const auto* list : {&rules.multiples, &rules.not_multiples}) {
    for (const Decimal& m : *list) {
      const auto modulus = modulus_of(m);
      if (!modulus) return false;
      rests = std::lcm(rests, uint64_t{*modulus});
      if (rests > kMaxRests) return false;
    }
  }
  return true;
}

Rx value_rx(RxStore& rx, const Decimal& value) {
  const Rx zeros = rx.star(rx.byte('0'));
  const Rx fraction = value.fraction.empty() ? rx.optional(rx.cat({rx.byte('.'), rx.byte('0'), zeros}))
                                             : rx.cat({rx.byte('.'), rx.literal(value.fraction), zeros});
  const Rx sign = value.negative ? rx.byte('-') : value.is_zero() ? rx.optional(rx.byte('-')) : RxStore::kEmpty;
  return rx.cat({sign, rx.literal(value.whole), fraction});
}

std::optional<Rx> number_rx(RxStore& rx, const NumberRules& rules) {
  const Rx sign = rx.optional(rx.byte('-'));
  const Rx whole = rx.cat(sign, whole_part(rx));
  if (rules.free()) {
    if (rules.whole) return whole;
    const Rx e = rx.set(ByteSet::range('E', 'E') | ByteSet::range('e', 'e'));
    const Rx e_sign = rx.optional(rx.set(ByteSet::range('+', '+') | ByteSet::range('-', '-')));
    const Rx exponent = rx.cat({e, e_sign, rx.repeat(digit(rx), 1, 2)});
    return rx.cat({whole, rx.optional(some_fraction(rx)), rx.optional(exponent)});
  }
  std::vector<Rx> all{rules.whole ? whole : rx.cat(whole, rx.optional(some_fraction(rx)))};
  if (rules.low) all.push_back(beyond(rx, *rules.low, false));
  if (rules.high) all.push_back(beyond(rx, *rules.high, true));
  if (rules.not_whole || !rules.multiples.empty() || !rules.not_multiples.empty() || !rules.excluded.empty()) {
    const Rx digits = rx.repeat(digit(rx), 1, kMaxDigits);
    const Rx both_sides = rx.repeat(rx.set(ByteSet::range('0', '9') | ByteSet::range('.', '.')), 1, kMaxDigits + 1);
    all.push_back(
        rx.cat(sign, rx.alt({digits, rx.both({both_sides, rx.cat({RxStore::kAny, rx.byte('.'), RxStore::kAny})})})));
  }
  if (rules.not_whole) {
    const Rx zeros = rx.optional(rx.cat(rx.byte('.'), rx.star(rx.byte('0'))));
    all.push_back(rx.negate(rx.cat(whole, zeros)));
  }
  for (const Decimal& m : rules.multiples) {
    const auto multiple = multiple_rx(rx, m);
    if (!multiple) return std::nullopt;
    all.push_back(*multiple);
  }
  for (const Decimal& m : rules.not_multiples) {
    const auto multiple = multiple_rx(rx, m);
    if (!multiple) return std::nullopt;
    all.push_back(rx.negate(*multiple));
  }
  std::vector<Rx> excluded;
  for (const Decimal& v : rules.excluded) excluded.push_back(value_rx(rx, v));
  if (!excluded.empty()) all.push_back(rx.negate(rx.alt(std::move(excluded))));
  const Rx out = rx.both(std::move(all));
  return rx.alive(out) ? out : RxStore::kNever;
}

}  // namespace quire::grammar
