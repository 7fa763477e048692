// Statements, variables and loops.
#include <algorithm>
#include <utility>

#include "text/jinja/evaluator.h"
#include "text/jinja/print.h"

namespace quire::jinja {

Evaluator::Evaluator(Context& in, const Program& program, Variables& variables)
    : in_(in), program_(program), variables_(variables), globals_(program.globals.size()) {}

bool Evaluator::run(TextBuilder& out) {
  out_ = &out;
  return exec(program_.body, new_frame(program_.n_slots, nullptr)) != Flow::failed;
}

Frame* Evaluator::new_frame(uint32_t n_slots, Frame* parent) {
  return in_.arena().make<Frame>(in_.arena().make_array<Value>(n_slots), parent);
}

const Value& Evaluator::variable(const NameExpr& name, Frame* frame) {
  uint32_t up = 0;
  for (const SlotRef& ref : name.slots) {
    for (; up < ref.up; ++up) frame = frame->parent;
    const Value& v = frame->slots[ref.slot];
    if (!v.is(Kind::absent)) return v;
  }
  if (name.global != kNoGlobal) return outside(name.global);
  hidden_ = make_undefined(Lack::name, name.name);
  return hidden_;
}

// Context variables and global functions, found on first use. A failure to find leaves undefined and a failed Context.
const Value& Evaluator::outside(uint32_t global) {
  Value& v = globals_[global];
  if (!v.is(Kind::absent)) return v;
  const Str* name = program_.globals[global];
  if (variables_.find(in_, name->text, v) && v.is(Kind::absent)) {
    if (const Builtin* fn = find_global(name->text)) {
      v.kind = Kind::builtin;
      v.builtin = fn;
    }
  }
  if (v.is(Kind::absent)) v = make_undefined(Lack::name, name);
  return v;
}

Evaluator::Flow Evaluator::exec(const Block& block, Frame* frame) {
  if (++depth_ > kMaxDepth) {
    in_.fail("statements are nested too deeply at run time");
    return Flow::failed;
  }
  Flow flow = Flow::go_on;
  for (const Stmt* stmt : block) {
    if (!in_.step()) return Flow::failed;
    in_.at_line(stmt->line);
    flow = exec_one(*stmt, frame);
    if (flow != Flow::go_on) break;
  }
  --depth_;
  return flow;
}

Evaluator::Flow Evaluator::exec_one(const Stmt& stmt, Frame* frame) {
  const auto done = [](bool ok) { return ok ? Flow::go_on : Flow::failed; };
  switch (stmt.type) {
    case StmtType::text: return done(write(*static_cast<const TextStmt&>(stmt).text));
    case StmtType::output: return done(output(*static_cast<const OutputStmt&>(stmt).value, frame));
    case StmtType::branch: return exec_branch(static_cast<const BranchStmt&>(stmt), frame);
    case StmtType::loop: return exec_loop(static_cast<const LoopStmt&>(stmt), frame);
    case StmtType::assign: {
      const auto& set = static_cast<const AssignStmt&>(stmt);
      Value v;
      return done(eval(*set.value, frame, v) && assign(set.target, v, frame));
    }
    case StmtType::assign_block:
    case StmtType::filter_block: return done(exec_capture(static_cast<const CaptureStmt&>(stmt), frame));
    case StmtType::with: return exec_with(static_cast<const WithStmt&>(stmt), frame);
    case StmtType::macro: return done(exec_macro(static_cast<const MacroStmt&>(stmt), frame));
    case StmtType::call_block: return done(exec_call_block(static_cast<const CallBlockStmt&>(stmt), frame));
    case StmtType::break_loop: return Flow::break_loop;
    case StmtType::continue_loop: return Flow::continue_loop;
  }
  return Flow::failed;
}

bool Evaluator::write(const Str& s) {
  if (out_->size() + s.text.size() > in_.limits().output_bytes) {
    return in_.fail("the output is longer than the limit of " + std::to_string(in_.limits().output_bytes) + " bytes");
  }
  out_->add(s);
  return in_.scan(s.text.size());
}

bool Evaluator::output(const Expr& value, Frame* frame) {
  Value v;
  const Str* text = nullptr;
  return eval(value, frame, v) && to_str(in_, v, text) && write(*text);
}

Evaluator::Flow Evaluator::exec_branch(const BranchStmt& stmt, Frame* frame) {
  for (const auto& [condition, body] : stmt.branches) {
    Value v;
    if (!eval(*condition, frame, v)) return Flow::failed;
    if (is_true(v)) return exec(body, frame);
  }
  return exec(stmt.otherwise, frame);
}

// Loops -----------------------------------------------------------------------------------------------------------

// The next element that passes the filter; absent at the end.
bool Evaluator::advance(Loop& loop, Value& out) {
  out = std::exchange(loop.following, Value{});
  if (!out.is(Kind::absent)) return true;
  while (loop.next < loop.source->size) {
    const Value candidate = loop.source->items[loop.next++];
    if (!in_.step()) return false;
    if (loop.filter_frame) {
      Value keep;
      if (!assign(loop.node->filter_target, candidate, loop.filter_frame)) return false;
      if (!eval(*loop.node->filter, loop.filter_frame, keep)) return false;
      if (!is_true(keep)) continue;
    }
    out = candidate;
    return true;
  }
  return true;
}

// Makes `following` the element after this one, if there is one.
bool Evaluator::peek(Loop& loop) { return !loop.following.is(Kind::absent) || advance(loop, loop.following); }

// The number of elements. With a filter all that is left must be tested now; what passes becomes the source.
bool Evaluator::count(Loop& loop, int64_t& out) {
  if (loop.filter_frame) {
    Seq* rest = new_seq(in_.arena(), SeqKind::list, 0);
    Value v;
    while (advance(loop, v) && !v.is(Kind::absent)) push(in_.arena(), *rest, v);
    if (in_.failed()) return false;
    loop.source = rest;
    loop.next = 0;
    loop.filter_frame = nullptr;
  }
  const auto left = static_cast<int64_t>(loop.source->size - std::min(loop.next, loop.source->size));
  out = loop.index0 + 1 + left + (loop.following.is(Kind::absent) ? 0 : 1);
  return true;
}

Evaluator::Flow Evaluator::exec_loop(const LoopStmt& stmt, Frame* frame) {
  Value source;
  if (!eval(*stmt.source, frame, source)) return Flow::failed;
  in_.at_line(stmt.line);
  Loop& loop = *in_.arena().make<Loop>();
  if (!iterate(in_, source, loop.source)) return Flow::failed;
  loop.owner = this;
  loop.node = &stmt;
  if (stmt.filter) loop.filter_frame = new_frame(stmt.n_filter_slots, frame);
  const Flow flow = exec_loop_body(loop, frame);
  // Jinja's `else` runs unless some round of the body came to its end: break and continue do not count.
  if (flow == Flow::failed || loop.completed || stmt.otherwise.empty()) return flow;
  return exec(stmt.otherwise, new_frame(stmt.n_otherwise_slots, frame));
}

Evaluator::Flow Evaluator::exec_loop_body(Loop& loop, Frame* outer) {
  const LoopStmt& stmt = *loop.node;
  Frame* frame = new_frame(stmt.n_slots, outer);
  while (true) {
    Value item;
    if (!advance(loop, item)) return Flow::failed;
    if (item.is(Kind::absent)) return Flow::go_on;
    loop.previous = loop.current;
    loop.current = item;
    ++loop.index0;
    std::fill_n(frame->slots, stmt.n_slots, Value{});
    frame->slots[stmt.loop_slot].kind = Kind::loop;
    frame->slots[stmt.loop_slot].loop = &loop;
    if (!assign(stmt.target, item, frame)) return Flow::failed;
    const Flow flow = exec(stmt.body, frame);
    if (flow == Flow::failed) return flow;
    if (flow == Flow::break_loop) return Flow::go_on;
    loop.completed = loop.completed || flow == Flow::go_on;
  }
}

// Assignments -----------------------------------------------------------------------------------------------------

bool Evaluator::assign(const Target& target, Value v, Frame* frame) {
  switch (target.type) {
    case Target::Type::slot: frame->slots[target.slot] = v; return true;
    case Target::Type::tuple: return assign_tuple(target, v, frame);
    case Target::Type::attribute: break;
  }
  in_.at_line(target.line);
  const Value& space = variable(*target.space, frame);
  if (!space.is(Kind::space)) return in_.fail("attributes can be set on a namespace only");
  if (target.attribute->text.starts_with('_')) return in_.fail("a namespace attribute cannot start with '_'");
  return store(in_, *space.dict, make_string(target.attribute), v);
}

bool Evaluator::assign_tuple(const Target& target, const Value& v, Frame* frame) {
  in_.at_line(target.line);
  Seq* items = nullptr;
  if (!iterate(in_, v, items)) return false;
  if (items->size != target.items.size()) {
    return in_.fail("cannot unpack " + std::to_string(items->size) + " values into " +
                    std::to_string(target.items.size()));
  }
  // Copies first: `a, b = b, a` has made its tuple already, but a live list may be assigned to itself.
  const std::vector<Value> values(items->items, items->items + items->size);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!assign(target.items[i], values[i], frame)) return false;
  }
  return true;
}

// Blocks with text of their own -----------------------------------------------------------------------------------

bool Evaluator::capture(const Block& body, Frame* frame, Value& out) {
  TextBuilder text;
  TextBuilder* const kept = std::exchange(out_, &text);
  const bool ok = exec(body, frame) != Flow::failed;
  out_ = kept;
  if (!ok || !in_.room(text.size())) return false;
  out = make_string(text.finish(in_.arena()));
  return true;
}

bool Evaluator::exec_capture(const CaptureStmt& stmt, Frame* frame) {
  Value v;
  if (!capture(stmt.body, new_frame(stmt.n_slots, frame), v)) return false;
  if (stmt.filters && !eval_postfix(*stmt.filters, &v, nullptr, frame, v)) return false;
  if (stmt.type == StmtType::assign_block) return assign(stmt.target, v, frame);
  const Str* text = nullptr;
  return to_str(in_, v, text) && write(*text);
}

Evaluator::Flow Evaluator::exec_with(const WithStmt& stmt, Frame* frame) {
  Frame* inner = new_frame(stmt.n_slots, frame);
  for (const auto& [target, expr] : stmt.assignments) {
    Value v;
    if (!eval(*expr, frame, v) || !assign(target, v, inner)) return Flow::failed;
  }
  return exec(stmt.body, inner);
}

bool Evaluator::exec_macro(const MacroStmt& stmt, Frame* frame) {
  Value v;
  v.kind = Kind::macro;
  v.macro = in_.arena().make<Macro>(&stmt, frame);
  return assign(stmt.target, v, frame);
}

bool Evaluator::exec_call_block(const CallBlockStmt& stmt, Frame* frame) {
  Value caller;
  caller.kind = Kind::macro;
  caller.macro = in_.arena().make<Macro>(stmt.body, frame);
  Value v;
  const Str* text = nullptr;
  return eval_postfix(*stmt.call, nullptr, &caller, frame, v) && to_str(in_, v, text) && write(*text);
}

}  // namespace quire::jinja
