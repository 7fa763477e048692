// Arithmetic, comparison and truth.
#include "text/jinja/ops.h"

#include <cmath>
#include <limits>

#include "text/jinja/format.h"
#include "text/jinja/print.h"

namespace quire::jinja {
namespace {

std::string_view symbol(Operator op) {
  constexpr std::string_view kSymbols[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

bool unsupported(Context& in, Operator op, const Value& a, const Value& b) {
  return in.fail("operator " + std::string(symbol(op)) + " does not take '" + std::string(kind_name(a)) + "' and '" +
                 std::string(kind_name(b)) + "'");
}

bool overflow(Context& in, Operator op) {
  return in.fail("the result of " + std::string(symbol(op)) + " does not fit a 64-bit integer");
}

// a // b and a % b of Python: the remainder has the divisor's sign.
struct Division {
  int64_t quotient, remainder;
};
Division divide(int64_t a, int64_t b) {
  Division d{a / b, a % b};
  if (d.remainder != 0 && (d.remainder < 0) != (b < 0)) {
    --d.quotient;
    d.remainder += b;
  }
  return d;
}

bool int_power(Context& in, int64_t base, int64_t exponent, Value& out) {
  if (exponent < 0) {
    if (base == 0) return in.fail("0 cannot be raised to a negative power");
    out = make_real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    return true;
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return overflow(in, Operator::pow);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow(in, Operator::pow);
  }
  out = make_int(result);
  return true;
}

bool int_arithmetic(Context& in, Operator op, int64_t a, int64_t b, Value& out) {
  int64_t result = 0;
  bool wraps = false;
  const bool divides = op == Operator::div || op == Operator::floor_div || op == Operator::mod;
  if (divides && b == 0) return in.fail("division by zero");
  switch (op) {
    case Operator::add: wraps = __builtin_add_overflow(a, b, &result); break;
    case Operator::sub: wraps = __builtin_sub_overflow(a, b, &result); break;
    case Operator::mul: wraps = __builtin_mul_overflow(a, b, &result); break;
    case Operator::div: out = make_real(static_cast<double>(a) / static_cast<double>(b)); return true;
    case Operator::pow: return int_power(in, a, b, out);
    default:
      wraps = a == std::numeric_limits<int64_t>::min() && b == -1 && op == Operator::floor_div;
      if (b == -1) {
        result = op == Operator::mod || wraps ? 0 : -a;
      } else {
        result = op == Operator::mod ? divide(a, b).remainder : divide(a, b).quotient;
      }
  }
  if (wraps) return overflow(in, op);
  out = make_int(result);
  return true;
}

double float_mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

bool float_arithmetic(Context& in, Operator op, double a, double b, Value& out) {
  const bool divides = op == Operator::div || op == Operator::floor_div || op == Operator::mod;
  if (divides && b == 0) return in.fail("division by zero");
  switch (op) {
    case Operator::add: out = make_real(a + b); return true;
    case Operator::sub: out = make_real(a - b); return true;
    case Operator::mul: out = make_real(a * b); return true;
    case Operator::div: out = make_real(a / b); return true;
    case Operator::floor_div: out = make_real(std::floor(a / b)); return true;
    case Operator::mod: out = make_real(float_mod(a, b)); return true;
    default: break;
  }
  if ((a == 0 && b < 0) || (a < 0 && b != std::floor(b))) return in.fail("this power has no real value");
  out = make_real(std::pow(a, b));
  return true;
}

bool add_strings(Context& in, const Str& a, const Str& b, Value& out) {
  const Str* pieces[2] = {&a, &b};
  const bool markup = a.markup || b.markup;
  if (markup && !a.markup && !escape_html(in, a, pieces[0])) return false;
  if (markup && !b.markup && !escape_html(in, b, pieces[1])) return false;
  const Str* joined = nullptr;
  if (!concat(in, pieces, joined)) return false;
  if (markup) {
    Str* marked = in.arena().make<Str>(*joined);
    marked->markup = true;
    joined = marked;
  }
  out = make_string(joined);
  return true;
}

bool add_seqs(Context& in, const Seq& a, const Seq& b, Value& out) {
  const size_t size = a.size + b.size;
  if (!in.room(size * sizeof(Value)) || !in.step(static_cast<int64_t>(size / 8))) return false;
  Seq* seq = new_seq(in.arena(), a.kind, size);
  std::copy_n(a.items, a.size, seq->items);
  std::copy_n(b.items, b.size, seq->items + a.size);
  seq->size = size;
  out = make_seq(seq);
  return true;
}

bool repeat_string(Context& in, const Str& s, size_t times, Value& out) {
  const bool plain = s.user.empty();
  const bool all_user = s.user.size() == 1 && s.user[0] == ByteRange{0, s.text.size()};
  const Str* joined = nullptr;
  if (plain || all_user) {
    std::string text;
    text.reserve(s.text.size() * times);
    for (size_t i = 0; i < times; ++i) text += s.text;
    joined = copy_str(in.arena(), text, all_user);
  } else {
    const std::vector<const Str*> pieces(times, &s);
    if (!in.step(static_cast<int64_t>(times)) || !concat(in, pieces, joined)) return false;
  }
  out = make_string(joined);
  return true;
}

bool repeat(Context& in, const Value& v, int64_t times, Value& out) {
  const size_t piece = v.is_text() ? v.s->text.size() : v.seq->size * sizeof(Value);
  const size_t n = times > 0 && piece > 0 ? static_cast<size_t>(times) : 0;
  size_t total = 0;
  if (__builtin_mul_overflow(piece, n, &total)) total = std::numeric_limits<size_t>::max();
  if (!in.room(total) || !in.step(static_cast<int64_t>(n / 32))) return false;
  if (v.is_text()) return repeat_string(in, *v.s, n, out);
  Seq* seq = new_seq(in.arena(), v.seq->kind, v.seq->size * n);
  for (size_t i = 0; i < n; ++i) std::copy_n(v.seq->items, v.seq->size, seq->items + i * v.seq->size);
  seq->size = v.seq->size * n;
  out = make_seq(seq);
  return true;
}

bool is_array(const Value& v) {
  return v.is(Kind::seq) && (v.seq->kind == SeqKind::list || v.seq->kind == SeqKind::tuple);
}

bool arithmetic(Context& in, Operator op, const Value& a, const Value& b, Value& out) {
  if (a.is(Kind::undefined)) return in.fail_undefined(a);
  if (op == Operator::mod && a.is_text()) return format_percent(in, *a.s, b, out);
  if (b.is(Kind::undefined)) return in.fail_undefined(b);
  if (a.is_whole() && b.is_whole()) return int_arithmetic(in, op, a.whole(), b.whole(), out);
  if (a.is_number() && b.is_number()) return float_arithmetic(in, op, a.number(), b.number(), out);
  if (op == Operator::add && a.is_text() && b.is_text()) return add_strings(in, *a.s, *b.s, out);
  if (op == Operator::add && is_array(a) && is_array(b) && a.seq->kind == b.seq->kind) {
    return add_seqs(in, *a.seq, *b.seq, out);
  }
  if (op == Operator::mul && (a.is_text() || is_array(a)) && b.is_whole()) return repeat(in, a, b.whole(), out);
  if (op == Operator::mul && a.is_whole() && (b.is_text() || is_array(b))) return repeat(in, b, a.whole(), out);
  return unsupported(in, op, a, b);
}

// -1, 0, 1 or 2 for unordered (NaN). Exact for 64-bit integers: long double has their 64 bits.
int order(const Value& a, const Value& b) {
  const auto wide = [](const Value& v) {
    return v.is(Kind::real) ? static_cast<long double>(v.d) : static_cast<long double>(v.whole());
  };
  const long double x = wide(a), y = wide(b);
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y ? 1 : 0;
}

bool equal_at(Context& in, const Value& a, const Value& b, int depth, bool& out);

bool equal_seqs(Context& in, const Seq& a, const Seq& b, int depth, bool& out) {
  const auto family = [](SeqKind k) { return k == SeqKind::group ? SeqKind::tuple : k; };
  out = &a == &b || (family(a.kind) == family(b.kind) && a.size == b.size && a.kind != SeqKind::generator);
  for (size_t i = 0; out && &a != &b && i < a.size; ++i) {
    if (!equal_at(in, a.items[i], b.items[i], depth + 1, out)) return false;
  }
  return true;
}

bool equal_dicts(Context& in, const Dict& a, const Dict& b, int depth, bool& out) {
  out = a.size == b.size;
  for (size_t i = 0; out && &a != &b && i < a.size; ++i) {
    Value* other = nullptr;
    if (!lookup(in, b, a.entries[i].key, other)) return false;
    out = other != nullptr;
    if (out && !equal_at(in, a.entries[i].value, *other, depth + 1, out)) return false;
  }
  return true;
}

bool equal_at(Context& in, const Value& a, const Value& b, int depth, bool& out) {
  if (!in.step()) return false;
  if (depth > kMaxValueDepth) return in.fail("a value is nested too deeply to be compared");
  out = false;
  if (a.is_number() && b.is_number()) {
    out = order(a, b) == 0;
    return true;
  }
  if (a.kind != b.kind) return true;
  switch (a.kind) {
    case Kind::absent:
    case Kind::undefined:
    case Kind::none: out = true; return true;
    case Kind::string:
      if (a.s->text.size() != b.s->text.size()) return true;
      out = a.s->text == b.s->text;
      return in.scan(a.s->text.size());
    case Kind::seq: return equal_seqs(in, *a.seq, *b.seq, depth, out);
    case Kind::dict: return equal_dicts(in, *a.dict, *b.dict, depth, out);
    default: out = a.dict == b.dict; return true;  // the same object
  }
}

bool less_at(Context& in, const Value& a, const Value& b, int depth, bool& out);

bool less_seqs(Context& in, const Seq& a, const Seq& b, int depth, bool& out) {
  for (size_t i = 0; i < a.size && i < b.size; ++i) {
    bool same = false;
    if (!equal_at(in, a.items[i], b.items[i], depth + 1, same)) return false;
    if (!same) return less_at(in, a.items[i], b.items[i], depth + 1, out);
  }
  out = a.size < b.size;
  return true;
}

bool less_at(Context& in, const Value& a, const Value& b, int depth, bool& out) {
  if (!in.step()) return false;
  if (depth > kMaxValueDepth) return in.fail("a value is nested too deeply to be compared");
  if (a.is(Kind::undefined)) return in.fail_undefined(a);
  if (b.is(Kind::undefined)) return in.fail_undefined(b);
  if (a.is_number() && b.is_number()) {
    out = order(a, b) == -1;
    return true;
  }
  if (a.is_text() && b.is_text()) {
    out = a.s->text < b.s->text;  // UTF-8 sorts as its code points do
    return in.scan(std::min(a.s->text.size(), b.s->text.size()));
  }
  if (is_array(a) && is_array(b) && a.seq->kind == b.seq->kind) return less_seqs(in, *a.seq, *b.seq, depth, out);
  return unsupported(in, Operator::lt, a, b);
}

}  // namespace

bool is_true(const Value& v) {
  switch (v.kind) {
    case Kind::absent:
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return v.b;
    case Kind::integer: return v.i != 0;
    case Kind::real: return v.d != 0;
    case Kind::string: return !v.s->text.empty();
    case Kind::seq: return v.seq->size > 0 || v.seq->kind == SeqKind::generator;
    case Kind::dict: return v.dict->size > 0;
    default: return true;
  }
}

bool binary(Context& in, Operator op, const Value& a, const Value& b, Value& out) {
  if (op <= Operator::pow) return arithmetic(in, op, a, b, out);
  bool result = false;
  if (!compare(in, op, a, b, result)) return false;
  out = make_bool(result);
  return true;
}

bool negate(Context& in, const Value& v, Value& out) {
  if (v.is(Kind::undefined)) return in.fail_undefined(v);
  if (v.is(Kind::real)) {
    out = make_real(-v.d);
    return true;
  }
  if (v.is_whole()) return int_arithmetic(in, Operator::sub, 0, v.whole(), out);
  return in.fail("unary - does not take '" + std::string(kind_name(v)) + "'");
}

bool equal(Context& in, const Value& a, const Value& b, bool& out) { return equal_at(in, a, b, 0, out); }
bool less(Context& in, const Value& a, const Value& b, bool& out) { return less_at(in, a, b, 0, out); }

bool compare(Context& in, Operator op, const Value& a, const Value& b, bool& out) {
  if (op == Operator::in || op == Operator::not_in) {
    if (!contains(in, b, a, out)) return false;
    out = out == (op == Operator::in);
    return true;
  }
  if (op == Operator::eq || op == Operator::ne) {
    if (!equal(in, a, b, out)) return false;
    out = out == (op == Operator::eq);
    return true;
  }
  if (a.is_number() && b.is_number()) {  // NaN makes every order false, which negating `less` would not
    const int o = order(a, b);
    out = op == Operator::lt   ? o == -1
          : op == Operator::le ? o == -1 || o == 0
          : op == Operator::gt ? o == 1
                               : o == 1 || o == 0;
    return true;
  }
  const bool swapped = op == Operator::gt || op == Operator::le;
  if (!(swapped ? less(in, b, a, out) : less(in, a, b, out))) return false;
  if (op == Operator::le || op == Operator::ge) out = !out;
  return true;
}

}  // namespace quire::jinja
