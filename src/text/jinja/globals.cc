// Global functions: range, dict, namespace, raise_exception, strftime_now.
#include <limits>

#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/strftime.h"

namespace quire::jinja {
namespace {

constexpr size_t kMaxRange = 100000;  // the sandbox of the reference has the same

bool range_function(const Call& call, Value& out) {
  int64_t start = 0, stop = 0, step = 1;
  if (!want_int(call, call[0], "range: an argument", stop)) return false;
  if (call.given(1)) {
    start = stop;
    if (!want_int(call, call[1], "range: an argument", stop)) return false;
  }
  if (!int_or(call, 2, 1, step)) return false;
  if (step == 0) return call.in.fail("range: the step cannot be zero");
  // Differences as unsigned, so that the widest range does not overflow.
  const bool up = step > 0;
  const uint64_t span = up ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                           : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = up ? static_cast<uint64_t>(step) : ~static_cast<uint64_t>(step) + 1;
  const bool empty = up ? start >= stop : start <= stop;
  const uint64_t n = empty ? 0 : (span - 1) / stride + 1;
  if (n > kMaxRange) {
    return call.in.fail("range: " + std::to_string(n) + " elements, the limit is " + std::to_string(kMaxRange));
  }
  if (!call.in.step(static_cast<int64_t>(n / 16))) return false;
  Seq* seq = new_seq(call.in.arena(), SeqKind::range, n);
  int64_t v = start;
  for (uint64_t i = 0; i < n; ++i) {
    push(call.in.arena(), *seq, make_int(v));
    if (i + 1 < n) v += step;
  }
  out = make_seq(seq);
  return true;
}

bool fill_dict(const Call& call, Dict& d) {
  if (call.args.size() > 1) return call.in.fail("takes at most one positional argument");
  if (!call.args.empty() && call.args[0].is(Kind::dict)) {
    const Dict& from = *call.args[0].dict;
    for (size_t i = 0; i < from.size; ++i) {
      if (!store(call.in, d, from.entries[i].key, from.entries[i].value)) return false;
    }
  } else if (!call.args.empty()) {
    Seq* pairs = nullptr;
    if (!iterate(call.in, call.args[0], pairs)) return false;
    for (size_t i = 0; i < pairs->size; ++i) {
      Seq* pair = nullptr;
      if (!iterate(call.in, pairs->items[i], pair)) return false;
      if (pair->size != 2) return call.in.fail("dict: needs pairs of key and value");
      if (!store(call.in, d, pair->items[0], pair->items[1])) return false;
    }
  }
  for (const Named& n : call.named) {
    if (!store(call.in, d, make_string(n.name), n.value)) return false;
  }
  return true;
}

bool dict_function(const Call& call, Value& out) {
  Dict* d = new_dict(call.in.arena(), call.named.size());
  out = make_dict(d);
  return fill_dict(call, *d);
}

bool namespace_function(const Call& call, Value& out) {
  Dict* d = new_dict(call.in.arena(), call.named.size());
  out = make_dict(d, Kind::space);
  if (!fill_dict(call, *d)) return false;
  for (size_t i = 0; i < d->size; ++i) {
    const Value& key = d->entries[i].key;
    if (key.is_text() && key.s->text.starts_with('_')) {
      return call.in.fail("a namespace attribute cannot start with '_'");
    }
  }
  return true;
}

bool raise_function(const Call& call, Value&) {
  const Str* message = nullptr;
  if (!to_str(call.in, call[0], message)) return false;
  return call.in.fail("raise_exception: " + excerpt(message->text));
}

bool strftime_function(const Call& call, Value& out) {
  const Str* format = nullptr;
  if (!want_text(call, call[0], "strftime_now: the format", format)) return false;
  const auto text = format_time(call.in.now(), format->text);
  if (!text) return call.in.fail("strftime_now: " + text.error().message);
  out = make_string(copy_str(call.in.arena(), *text, has_user(*format)));
  return true;
}

constexpr Builtin kFunctions[] = {
    {"range", range_function, 1, {"start", "stop", "step"}}, {"dict", dict_function, 0, {kAnyParams}},
    {"namespace", namespace_function, 0, {kAnyParams}},      {"raise_exception", raise_function, 1, {"message"}},
    {"strftime_now", strftime_function, 1, {"format"}},
};

}  // namespace

std::span<const Builtin> global_functions() { return kFunctions; }

}  // namespace quire::jinja
