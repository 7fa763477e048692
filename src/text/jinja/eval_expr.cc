// Expressions other than calls.
#include "text/jinja/evaluator.h"
#include "text/jinja/print.h"

namespace quire::jinja {

bool Evaluator::eval(const Expr& e, Frame* frame, Value& out) {
  if (!in_.step()) return false;
  if (e.type == ExprType::constant) {
    out = static_cast<const ConstantExpr&>(e).value;
    return true;
  }
  if (e.type == ExprType::name) {
    out = variable(static_cast<const NameExpr&>(e), frame);
    return !in_.failed();
  }
  in_.at_line(e.line);
  if (++depth_ > kMaxDepth) return in_.fail("expressions are nested too deeply at run time");
  const bool ok = eval_node(e, frame, out);
  --depth_;
  return ok;
}

bool Evaluator::eval_node(const Expr& e, Frame* frame, Value& out) {
  switch (e.type) {
    case ExprType::sequence: return eval_sequence(static_cast<const SequenceExpr&>(e), frame, out);
    case ExprType::dict: return eval_dict(static_cast<const DictExpr&>(e), frame, out);
    case ExprType::unary: return eval_unary(static_cast<const UnaryExpr&>(e), frame, out);
    case ExprType::chain: return eval_chain(static_cast<const ChainExpr&>(e), frame, out);
    case ExprType::compare: return eval_compare(static_cast<const ChainExpr&>(e), frame, out);
    case ExprType::concat: return eval_concat(static_cast<const ConcatExpr&>(e), frame, out);
    case ExprType::logic: return eval_logic(static_cast<const LogicExpr&>(e), frame, out);
    case ExprType::conditional: return eval_conditional(static_cast<const ConditionalExpr&>(e), frame, out);
    case ExprType::postfix: return eval_postfix(static_cast<const PostfixExpr&>(e), nullptr, nullptr, frame, out);
    case ExprType::constant:
    case ExprType::name: break;  // handled in eval
  }
  return in_.fail("an expression of unknown type");
}

bool Evaluator::eval_sequence(const SequenceExpr& e, Frame* frame, Value& out) {
  Seq* seq = new_seq(in_.arena(), e.kind, e.items.size());
  for (const Expr* item : e.items) {
    Value v;
    if (!eval(*item, frame, v)) return false;
    push(in_.arena(), *seq, v);
  }
  out = make_seq(seq);
  return true;
}

bool Evaluator::eval_dict(const DictExpr& e, Frame* frame, Value& out) {
  Dict* dict = new_dict(in_.arena(), e.entries.size());
  for (const auto& [key_expr, value_expr] : e.entries) {
    Value key, value;
    if (!eval(*key_expr, frame, key) || !eval(*value_expr, frame, value)) return false;
    in_.at_line(e.line);
    if (!store(in_, *dict, key, value)) return false;
  }
  out = make_dict(dict);
  return true;
}

bool Evaluator::eval_unary(const UnaryExpr& e, Frame* frame, Value& out) {
  Value v;
  if (!eval(*e.operand, frame, v)) return false;
  if (e.op == UnaryOp::negation) {
    out = make_bool(!is_true(v));
    return true;
  }
  in_.at_line(e.line);
  if (!negate(in_, v, out)) return false;
  return e.op == UnaryOp::negative || negate(in_, out, out);
}

bool Evaluator::eval_chain(const ChainExpr& e, Frame* frame, Value& out) {
  Value left;
  if (!eval(*e.first, frame, left)) return false;
  for (const auto& [op, operand] : e.rest) {
    Value right, result;
    if (!eval(*operand, frame, right)) return false;
    in_.at_line(e.line);
    if (!binary(in_, op, left, right, result)) return false;
    left = result;
  }
  out = left;
  return true;
}

bool Evaluator::eval_compare(const ChainExpr& e, Frame* frame, Value& out) {
  Value left;
  if (!eval(*e.first, frame, left)) return false;
  bool holds = true;
  for (const auto& [op, operand] : e.rest) {
    Value right;
    if (!eval(*operand, frame, right)) return false;
    in_.at_line(e.line);
    if (!compare(in_, op, left, right, holds)) return false;
    if (!holds) break;
    left = right;
  }
  out = make_bool(holds);
  return true;
}

bool Evaluator::eval_concat(const ConcatExpr& e, Frame* frame, Value& out) {
  std::vector<const Str*> pieces(e.pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    Value v;
    if (!eval(*e.pieces[i], frame, v) || !to_str(in_, v, pieces[i])) return false;
  }
  const Str* joined = nullptr;
  if (!concat(in_, pieces, joined)) return false;
  out = make_string(joined);
  return true;
}

bool Evaluator::eval_logic(const LogicExpr& e, Frame* frame, Value& out) {
  for (const Expr* operand : e.operands) {
    if (!eval(*operand, frame, out)) return false;
    if (is_true(out) != e.is_and) return true;
  }
  return true;
}

bool Evaluator::eval_conditional(const ConditionalExpr& e, Frame* frame, Value& out) {
  for (const auto& [condition, value] : e.branches) {
    Value v;
    if (!eval(*condition, frame, v)) return false;
    if (is_true(v)) return eval(*value, frame, out);
  }
  if (e.otherwise) return eval(*e.otherwise, frame, out);
  out = make_undefined(Lack::branch, nullptr);
  return true;
}

}  // namespace quire::jinja
