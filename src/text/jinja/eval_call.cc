// Attributes, subscripts, filters, tests and calls: everything that follows a value.
#include "text/jinja/evaluator.h"

namespace quire::jinja {
namespace {

// loop.cycle(a, b, …) and loop.changed(…).
bool loop_cycle(const Call& call, Value& out) {
  if (call.args.empty()) return call.in.fail("loop.cycle needs arguments");
  const auto n = static_cast<int64_t>(call.args.size());
  out = call.args[static_cast<size_t>(call.self.loop->index0 % n)];
  return true;
}

bool loop_changed(const Call& call, Value& out) {
  Seq* now = new_seq(call.in.arena(), SeqKind::tuple, call.args.size());
  for (const Value& v : call.args) push(call.in.arena(), *now, v);
  Value& last = call.self.loop->last_changed;
  bool same = false;
  if (!last.is(Kind::absent) && !equal(call.in, last, make_seq(now), same)) return false;
  last = make_seq(now);
  out = make_bool(!same);
  return true;
}

constexpr Builtin kCycle{"cycle", loop_cycle, 0, {kAnyParams}};
constexpr Builtin kChanged{"changed", loop_changed, 0, {kAnyParams}};

Value bind_method(Context& in, const Builtin& method, const Value& self) {
  Value v;
  v.kind = Kind::bound;
  v.bound = in.arena().make<Bound>(&method, self);
  return v;
}

}  // namespace

// `base` is given for blocks, whose text the steps start from; `caller` goes to the last step's call.
bool Evaluator::eval_postfix(const PostfixExpr& e, Value* base, const Value* caller, Frame* frame, Value& out) {
  Value v;
  if (base) {
    v = *base;
  } else if (!eval(*e.base, frame, v)) {
    return false;
  }
  for (size_t i = 0; i < e.steps.size(); ++i) {
    const PostfixStep& step = e.steps[i];
    if (!in_.step()) return false;
    in_.at_line(step.line);
    const bool is_last = i + 1 == e.steps.size();
    if (caller && is_last) {
      CallArgs args;
      if (!eval_arguments(step.arguments, frame, args) || !call(v, args, caller, v)) return false;
      break;
    }
    // A method that is called at once needs no bound value.
    const bool is_call =
        step.methods && !is_last && e.steps[i + 1].type == StepType::call && !(caller && i + 2 == e.steps.size());
    const Builtin* method = is_call ? step.methods->of(v) : nullptr;
    if (method) {
      if (!eval_method(*method, e.steps[++i], frame, v)) return false;
    } else if (!eval_step(step, frame, v)) {
      return false;
    }
  }
  out = v;
  return true;
}

bool Evaluator::eval_step(const PostfixStep& step, Frame* frame, Value& v) {
  switch (step.type) {
    case StepType::attribute: return eval_attribute(step, v);
    case StepType::item: return eval_item(step, frame, v);
    case StepType::slice: return eval_slice(step, frame, v);
    case StepType::filter:
    case StepType::test: return eval_builtin(step, frame, v);
    case StepType::call: break;
  }
  CallArgs args;
  if (!eval_arguments(step.arguments, frame, args)) return false;
  in_.at_line(step.line);
  Value result;
  if (!call(v, args, nullptr, result)) return false;
  v = result;
  return true;
}

bool Evaluator::eval_method(const Builtin& method, const PostfixStep& step, Frame* frame, Value& v) {
  CallArgs args;
  if (!eval_arguments(step.arguments, frame, args)) return false;
  in_.at_line(step.line);
  Value result;
  if (!call_builtin(in_, method, v, args.given, result)) return false;
  v = result;
  return true;
}

bool Evaluator::eval_attribute(const PostfixStep& step, Value& v) {
  Value result;
  const bool ok = v.is(Kind::loop) ? loop_attribute(*v.loop, step.name->text, result)
                                   : get_attribute(in_, v, *step.name, step.methods, result);
  v = result;
  return ok;
}

bool Evaluator::eval_item(const PostfixStep& step, Frame* frame, Value& v) {
  Value key, result;
  if (!eval(*step.item, frame, key)) return false;
  in_.at_line(step.line);
  const bool is_loop = v.is(Kind::loop) && key.is_text();
  if (!(is_loop ? loop_attribute(*v.loop, key.s->text, result) : get_subscript(in_, v, key, result))) return false;
  v = result;
  return true;
}

bool Evaluator::eval_slice(const PostfixStep& step, Frame* frame, Value& v) {
  SliceBounds bounds;
  if (step.item && !eval(*step.item, frame, bounds.start)) return false;
  if (step.stop && !eval(*step.stop, frame, bounds.stop)) return false;
  if (step.step && !eval(*step.step, frame, bounds.step)) return false;
  in_.at_line(step.line);
  Value result;
  if (!get_slice(in_, v, bounds, result)) return false;
  v = result;
  return true;
}

bool Evaluator::eval_builtin(const PostfixStep& step, Frame* frame, Value& v) {
  const bool is_test = step.type == StepType::test;
  if (!step.builtin) {
    return in_.fail((is_test ? "there is no test '" : "there is no filter '") + std::string(step.name->text) + "'");
  }
  CallArgs args;
  if (!eval_arguments(step.arguments, frame, args)) return false;
  in_.at_line(step.line);
  Value result;
  if (!call_builtin(in_, *step.builtin, v, args.given, result)) return false;
  v = is_test ? make_bool(is_true(result) != step.negated) : result;
  return true;
}

// Arguments and calls ---------------------------------------------------------------------------------------------

bool Evaluator::eval_arguments(const Arguments& args, Frame* frame, CallArgs& out) {
  const size_t n = args.positional.size();
  Value* values = n <= out.room.size() ? out.room.data() : in_.arena().make_array<Value>(n);
  for (size_t i = 0; i < n; ++i) {
    if (!eval(*args.positional[i], frame, values[i])) return false;
  }
  out.given.args = {values, n};
  if (args.named.empty() && !args.star && !args.star_star) return true;
  Named* named = in_.arena().make_array<Named>(args.named.size());
  for (size_t i = 0; i < args.named.size(); ++i) {
    named[i].name = args.named[i].first;
    if (!eval(*args.named[i].second, frame, named[i].value)) return false;
  }
  out.given.named = {named, args.named.size()};
  return spread(args, frame, out);
}

// *list and **dict.
bool Evaluator::spread(const Arguments& args, Frame* frame, CallArgs& out) {
  if (args.star) {
    Value v;
    Seq* more = nullptr;
    if (!eval(*args.star, frame, v) || !iterate(in_, v, more)) return false;
    if (!in_.step(static_cast<int64_t>(more->size))) return false;
    Value* values = in_.arena().make_array<Value>(out.given.args.size() + more->size);
    std::copy_n(more->items, more->size, std::copy(out.given.args.begin(), out.given.args.end(), values));
    out.given.args = {values, out.given.args.size() + more->size};
  }
  if (args.star_star) {
    Value v;
    if (!eval(*args.star_star, frame, v)) return false;
    if (!v.is(Kind::dict)) return in_.fail("the argument after ** must be a dict");
    if (!in_.step(static_cast<int64_t>(v.dict->size))) return false;
    Named* named = in_.arena().make_array<Named>(out.given.named.size() + v.dict->size);
    Named* at = std::copy(out.given.named.begin(), out.given.named.end(), named);
    for (size_t i = 0; i < v.dict->size; ++i) {
      const Entry& e = v.dict->entries[i];
      if (!e.key.is_text()) return in_.fail("keys after ** must be strings");
      *at++ = {e.key.s, e.value};
    }
    out.given.named = {named, out.given.named.size() + v.dict->size};
  }
  return true;
}

bool Evaluator::call(const Value& callee, const CallArgs& args, const Value* caller, Value& out) {
  switch (callee.kind) {
    case Kind::macro: return call_macro(*callee.macro, args, caller, out);
    case Kind::builtin: return call_builtin(in_, *callee.builtin, Value{}, args.given, out);
    case Kind::bound: return call_builtin(in_, *callee.bound->method, callee.bound->self, args.given, out);
    case Kind::undefined: return in_.fail_undefined(callee);
    default: return in_.fail("a value of type '" + std::string(kind_name(callee)) + "' cannot be called");
  }
}

bool Evaluator::call_macro(const Macro& macro, const CallArgs& args, const Value* caller, Value& out) {
  if (macros_ == in_.limits().recursion) {
    return in_.fail("macros call one another deeper than the limit of " + std::to_string(in_.limits().recursion));
  }
  Frame* frame = new_frame(macro.node->n_slots, macro.closure);
  if (!bind_macro(macro, args, caller, *frame)) return false;
  ++macros_;
  const bool ok = capture(macro.node->body, frame, out);
  --macros_;
  return ok;
}

bool Evaluator::bind_macro(const Macro& macro, const CallArgs& args, const Value* caller, Frame& frame) {
  const MacroStmt& node = *macro.node;
  const std::string name = "macro '" + std::string(node.name->text) + "'";
  const size_t n = std::min(args.given.args.size(), node.params.size());
  for (size_t i = 0; i < n; ++i) frame.slots[node.params[i].slot] = args.given.args[i];
  if (args.given.args.size() > n && !node.uses_varargs) {
    return in_.fail(name + " takes at most " + std::to_string(n) + " arguments, " +
                    std::to_string(args.given.args.size()) + " were given");
  }
  if (node.uses_varargs) {
    Seq* rest = new_seq(in_.arena(), SeqKind::tuple, args.given.args.size() - n);
    for (size_t i = n; i < args.given.args.size(); ++i) push(in_.arena(), *rest, args.given.args[i]);
    frame.slots[node.varargs_slot] = make_seq(rest);
  }
  if (caller && !node.uses_caller) return in_.fail(name + " does not use caller()");
  if (node.uses_caller) {
    static constexpr Str kCaller{.text = "caller"};
    frame.slots[node.caller_slot] = caller ? *caller : make_undefined(Lack::name, &kCaller);
  }
  if (!bind_named(node, args, frame)) return false;
  for (const MacroStmt::Param& p : node.params) {
    Value& slot = frame.slots[p.slot];
    if (!slot.is(Kind::absent)) continue;
    slot = make_undefined(Lack::parameter, p.name);
    if (p.otherwise && !eval(*p.otherwise, &frame, slot)) return false;
  }
  return true;
}

bool Evaluator::bind_named(const MacroStmt& node, const CallArgs& args, Frame& frame) {
  Dict* rest = node.uses_kwargs ? new_dict(in_.arena(), args.given.named.size()) : nullptr;
  for (const Named& n : args.given.named) {
    const auto same = [&](const MacroStmt::Param& p) { return p.name->text == n.name->text; };
    const auto param = std::find_if(node.params.begin(), node.params.end(), same);
    const std::string what =
        "macro '" + std::string(node.name->text) + "': argument '" + excerpt(n.name->text, 100) + "'";
    if (param != node.params.end()) {
      Value& slot = frame.slots[param->slot];
      if (!slot.is(Kind::absent)) return in_.fail(what + " was given twice");
      slot = n.value;
    } else if (!rest) {
      return in_.fail(what + " is not a parameter");
    } else if (!store(in_, *rest, make_string(n.name), n.value)) {
      return false;
    }
  }
  if (rest) frame.slots[node.kwargs_slot] = make_dict(rest);
  return true;
}

bool Evaluator::loop_attribute(Loop& loop, std::string_view name, Value& out) {
  static constexpr Str kPrevious{.text = "previtem"}, kNext{.text = "nextitem"};
  int64_t n = 0;
  if (name == "index") {
    out = make_int(loop.index0 + 1);
  } else if (name == "index0") {
    out = make_int(loop.index0);
  } else if (name == "first") {
    out = make_bool(loop.index0 == 0);
  } else if (name == "last") {
    if (!peek(loop)) return false;
    out = make_bool(loop.following.is(Kind::absent));
  } else if (name == "previtem") {
    out = loop.index0 > 0 ? loop.previous : make_undefined(Lack::name, &kPrevious);
  } else if (name == "nextitem") {
    if (!peek(loop)) return false;
    out = loop.following.is(Kind::absent) ? make_undefined(Lack::name, &kNext) : loop.following;
  } else if (name == "length") {
    if (!count(loop, n)) return false;
    out = make_int(n);
  } else if (name == "revindex" || name == "revindex0") {
    if (!count(loop, n)) return false;
    out = make_int(n - loop.index0 - (name == "revindex0" ? 1 : 0));
  } else if (name == "depth" || name == "depth0") {
    out = make_int(int64_t{name == "depth" ? 1 : 0});
  } else if (name == "cycle" || name == "changed") {
    Value self;
    self.kind = Kind::loop;
    self.loop = &loop;
    out = bind_method(in_, name == "cycle" ? kCycle : kChanged, self);
  } else {
    const Str* shown = copy_str(in_.arena(), name, false);
    out = make_undefined(Lack::attribute, shown, Kind::loop);
  }
  return true;
}

}  // namespace quire::jinja
