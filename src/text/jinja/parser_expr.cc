// Expressions: the grammar and the precedence of Jinja 3.
#include <algorithm>

#include "text/jinja/parser_impl.h"

namespace quire::jinja {
namespace {

Operator operator_of(std::string_view op) {
  constexpr std::pair<std::string_view, Operator> kOps[] = {
      {"+", Operator::add},        {"-", Operator::sub}, {"*", Operator::mul},  {"/", Operator::div},
      {"//", Operator::floor_div}, {"%", Operator::mod}, {"**", Operator::pow}, {"==", Operator::eq},
      {"!=", Operator::ne},        {"<", Operator::lt},  {"<=", Operator::le},  {">", Operator::gt},
      {">=", Operator::ge}};
  return std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) { return o.first == op; })->second;
}

bool is_one_of(const TokenView& token, EndNames ops) {
  return token.type == Tok::op && std::find(ops.begin(), ops.end(), token.text) != ops.end();
}

}  // namespace

const Expr* Parser::constant_expr(int line, Value value) {
  auto* e = make_expr<ConstantExpr>(line);
  e->value = value;
  return e;
}

bool Parser::at_tuple_end(EndNames end_names) const {
  const TokenView& t = now();
  if (t.type == Tok::print_end || t.type == Tok::block_end || t.is_op(")")) return true;
  return t.type == Tok::name && std::find(end_names.begin(), end_names.end(), t.text) != end_names.end();
}

ExprResult Parser::tuple(bool with_condition, bool in_parentheses, EndNames end_names) {
  const int line = now().line;
  std::vector<const Expr*> items;
  bool is_tuple = false;
  while (!at_tuple_end(end_names)) {
    QR_TRY(const Expr* item, expression(with_condition));
    items.push_back(item);
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return items[0];
  if (!is_tuple && !in_parentheses) return unexpected("an expression");
  auto* e = make_expr<SequenceExpr>(line);
  e->kind = SeqKind::tuple;
  e->items = std::move(items);
  return e;
}

ExprResult Parser::expression(bool with_condition) {
  const Nest nest(depth_);
  QR_TRY_VOID(check_depth());
  return with_condition ? conditional() : logic_or();
}

ExprResult Parser::conditional() {
  const int line = now().line;
  QR_TRY(const Expr* value, logic_or());
  if (!now().is_name("if")) return value;
  auto* e = make_expr<ConditionalExpr>(line);
  while (skip_name("if")) {
    QR_TRY(const Expr* condition, logic_or());
    e->branches.emplace_back(condition, value);
    if (!skip_name("else")) return e;
    QR_TRY(value, logic_or());
  }
  e->otherwise = value;
  return e;
}

ExprResult Parser::logic_or() {
  QR_TRY(const Expr* first, logic_and());
  if (!now().is_name("or")) return first;
  auto* e = make_expr<LogicExpr>(first->line);
  e->operands.push_back(first);
  while (skip_name("or")) {
    QR_TRY(const Expr* operand, logic_and());
    e->operands.push_back(operand);
  }
  return e;
}

ExprResult Parser::logic_and() {
  QR_TRY(const Expr* first, logic_not());
  if (!now().is_name("and")) return first;
  auto* e = make_expr<LogicExpr>(first->line);
  e->is_and = true;
  e->operands.push_back(first);
  while (skip_name("and")) {
    QR_TRY(const Expr* operand, logic_not());
    e->operands.push_back(operand);
  }
  return e;
}

ExprResult Parser::logic_not() {
  const int line = now().line;
  int n_nots = 0;
  while (skip_name("not")) ++n_nots;
  QR_TRY(const Expr* operand, comparison());
  for (int i = 0; i < std::min(n_nots, 2 - n_nots % 2); ++i) {  // not not not x is not x
    auto* e = make_expr<UnaryExpr>(line);
    e->operand = operand;
    operand = e;
  }
  return operand;
}

ExprResult Parser::comparison() {
  QR_TRY(const Expr* first, sum());
  ChainExpr* e = nullptr;
  while (true) {
    Operator op = Operator::in;
    if (is_one_of(now(), {"==", "!=", "<", "<=", ">", ">="})) {
      op = operator_of(now().text);
    } else if (now().is_name("not") && ahead().is_name("in")) {
      op = Operator::not_in;
      next();
    } else if (!now().is_name("in")) {
      break;
    }
    if (!e) e = make_expr<ChainExpr>(ExprType::compare, now().line);
    next();
    QR_TRY(const Expr* operand, sum());
    e->first = first;
    e->rest.emplace_back(op, operand);
  }
  return e ? e : first;
}

ExprResult Parser::chain(ExprResult (Parser::*operand)(), EndNames ops) {
  QR_TRY(const Expr* first, (this->*operand)());
  if (!is_one_of(now(), ops)) return first;
  auto* e = make_expr<ChainExpr>(ExprType::chain, now().line);
  e->first = first;
  while (is_one_of(now(), ops)) {
    const Operator op = operator_of(now().text);
    next();
    QR_TRY(const Expr* right, (this->*operand)());
    e->rest.emplace_back(op, right);
  }
  return e;
}

ExprResult Parser::sum() { return chain(&Parser::concatenation, {"+", "-"}); }

ExprResult Parser::concatenation() {
  QR_TRY(const Expr* first, product());
  if (!now().is_op("~")) return first;
  auto* e = make_expr<ConcatExpr>(first->line);
  e->pieces.push_back(first);
  while (skip_op("~")) {
    QR_TRY(const Expr* piece, product());
    e->pieces.push_back(piece);
  }
  return e;
}

ExprResult Parser::product() { return chain(&Parser::power, {"*", "/", "//", "%"}); }

ExprResult Parser::power() {
  const auto operand = [this] { return unary(true); };
  QR_TRY(const Expr* first, operand());
  if (!now().is_op("**")) return first;
  auto* e = make_expr<ChainExpr>(ExprType::chain, now().line);
  e->first = first;
  while (skip_op("**")) {
    QR_TRY(const Expr* right, operand());
    e->rest.emplace_back(Operator::pow, right);
  }
  return e;
}

ExprResult Parser::unary(bool with_filters) {
  const int line = now().line;
  const bool minus = now().is_op("-");
  if (!minus && !now().is_op("+")) {
    QR_TRY(const Expr* base, primary());
    return postfix(base, with_filters);
  }
  const Nest nest(depth_);
  QR_TRY_VOID(check_depth());
  next();
  QR_TRY(const Expr* operand, unary(false));
  auto* e = make_expr<UnaryExpr>(line);
  e->op = minus ? UnaryOp::negative : UnaryOp::positive;
  e->operand = operand;
  return postfix(e, with_filters);
}

ExprResult Parser::primary() {
  const TokenView& t = now();
  const int line = t.line;
  if (t.type == Tok::name) {
    const std::string name = t.text;
    next();
    if (name == "true" || name == "True") return constant_expr(line, make_bool(true));
    if (name == "false" || name == "False") return constant_expr(line, make_bool(false));
    if (name == "none" || name == "None") return constant_expr(line, make_none());
    return use(name, line);
  }
  if (t.type == Tok::text) {
    std::string text;
    for (; now().type == Tok::text; next()) text += now().text;
    return constant_expr(line, make_string(constant(text)));
  }
  if (t.type == Tok::integer || t.type == Tok::real) {
    const Value value = t.type == Tok::integer ? make_int(t.integer) : make_real(t.real);
    next();
    return constant_expr(line, value);
  }
  if (skip_op("(")) {
    QR_TRY(const Expr* e, tuple(true, true));
    QR_TRY_VOID(expect_op(")"));
    return e;
  }
  if (t.is_op("[")) return list_literal();
  if (t.is_op("{")) return dict_literal();
  return unexpected("an expression");
}

ExprResult Parser::list_literal() {
  auto* e = make_expr<SequenceExpr>(now().line);
  next();
  while (!now().is_op("]")) {
    QR_TRY(const Expr* item, expression());
    e->items.push_back(item);
    if (!skip_op(",")) break;
  }
  QR_TRY_VOID(expect_op("]"));
  return e;
}

ExprResult Parser::dict_literal() {
  auto* e = make_expr<DictExpr>(now().line);
  next();
  while (!now().is_op("}")) {
    QR_TRY(const Expr* key, expression());
    QR_TRY_VOID(expect_op(":"));
    QR_TRY(const Expr* value, expression());
    e->entries.emplace_back(key, value);
    if (!skip_op(",")) break;
  }
  QR_TRY_VOID(expect_op("}"));
  return e;
}

ExprResult Parser::postfix(const Expr* base, bool with_filters) {
  const bool starts = is_one_of(now(), {".", "[", "("});
  const bool filters = with_filters && (now().is_op("|") || now().is_name("is"));
  if (!starts && !filters) return base;
  auto* e = make_expr<PostfixExpr>(base->line);
  e->base = base;
  QR_TRY_VOID(postfix_steps(*e, with_filters));
  return e;
}

// Attributes, subscripts and calls first; once a filter or test was seen, only calls, filters and tests follow.
Status Parser::postfix_steps(PostfixExpr& out, bool with_filters) {
  bool filtered = false;
  while (true) {
    if (!filtered && is_one_of(now(), {".", "["})) {
      QR_TRY_VOID(subscript(out));
    } else if (now().is_op("(")) {
      out.steps.push_back({.type = StepType::call, .line = now().line});
      QR_TRY_VOID(call_arguments(out.steps.back().arguments));
    } else if (with_filters && now().is_op("|")) {
      filtered = true;
      next();
      QR_TRY_VOID(filter_step(out));
    } else if (with_filters && now().is_name("is")) {
      filtered = true;
      QR_TRY_VOID(test_step(out));
    } else {
      return {};
    }
  }
}

Status Parser::subscript(PostfixExpr& out) {
  PostfixStep step{.type = StepType::attribute, .line = now().line};
  if (skip_op(".")) {
    if (now().type == Tok::integer) {
      step.type = StepType::item;
      step.item = constant_expr(step.line, make_int(now().integer));
      next();
    } else {
      QR_TRY(const std::string name, take_name("an attribute name"));
      step.name = constant(name);
      step.methods = find_methods(name);
    }
    out.steps.push_back(std::move(step));
    return {};
  }
  next();
  step.type = StepType::item;
  const int line = now().line;
  if (now().is_op(":")) {
    QR_TRY_VOID(slice(step));
  } else {
    QR_TRY(step.item, expression());
    if (now().is_op(":")) QR_TRY_VOID(slice(step));
  }
  if (now().is_op(",")) {
    if (step.type == StepType::slice) return unexpected("]");
    auto* items = make_expr<SequenceExpr>(line);
    items->kind = SeqKind::tuple;
    items->items.push_back(step.item);
    while (skip_op(",")) {
      QR_TRY(const Expr* item, expression());
      items->items.push_back(item);
    }
    step.item = items;
  }
  QR_TRY_VOID(expect_op("]"));
  out.steps.push_back(std::move(step));
  return {};
}

// At the first ":" of a slice.
Status Parser::slice(PostfixStep& step) {
  step.type = StepType::slice;
  next();
  if (!now().is_op(":") && !now().is_op("]")) {
    QR_TRY(step.stop, expression());
  }
  if (skip_op(":") && !now().is_op("]")) {
    QR_TRY(step.step, expression());
  }
  return {};
}

Status Parser::filter_step(PostfixExpr& out) {
  PostfixStep step{.type = StepType::filter, .line = now().line};
  QR_TRY(std::string name, take_name("a filter's name"));
  while (skip_op(".")) {
    QR_TRY(const std::string part, take_name("a filter's name"));
    name += "." + part;
  }
  step.name = constant(name);
  step.builtin = find_filter(name);
  if (now().is_op("(")) QR_TRY_VOID(call_arguments(step.arguments));
  out.steps.push_back(std::move(step));
  return {};
}

bool Parser::starts_test_argument() const {
  const TokenView& t = now();
  if (t.type == Tok::name) return !t.is_name("else") && !t.is_name("or") && !t.is_name("and");
  return t.type == Tok::text || t.type == Tok::integer || t.type == Tok::real || is_one_of(t, {"(", "[", "{"});
}

Status Parser::test_step(PostfixExpr& out) {
  PostfixStep step{.type = StepType::test, .line = now().line};
  next();
  step.negated = skip_name("not");
  QR_TRY(const std::string name, take_name("a test's name"));
  step.name = constant(name);
  step.builtin = find_test(name);
  if (now().is_op("(")) {
    QR_TRY_VOID(call_arguments(step.arguments));
  } else if (starts_test_argument()) {
    if (now().is_name("is")) return error("tests cannot be chained with 'is'");
    QR_TRY(const Expr* base, primary());
    QR_TRY(const Expr* argument, postfix(base, false));
    step.arguments.positional.push_back(argument);
  }
  out.steps.push_back(std::move(step));
  return {};
}

Status Parser::call_arguments(Arguments& out) {
  QR_TRY_VOID(expect_op("("));
  while (!now().is_op(")")) {
    if (skip_op("*")) {
      if (out.star || out.star_star) return error("only one * argument is allowed, before **");
      QR_TRY(out.star, expression());
    } else if (skip_op("**")) {
      if (out.star_star) return error("only one ** argument is allowed");
      QR_TRY(out.star_star, expression());
    } else if (now().type == Tok::name && ahead().is_op("=")) {
      const Str* name = constant(now().text);
      next();
      next();
      QR_TRY(const Expr* value, expression());
      out.named.emplace_back(name, value);
    } else {
      if (!out.named.empty() || out.star || out.star_star) return error("positional arguments come before named ones");
      QR_TRY(const Expr* value, expression());
      out.positional.push_back(value);
    }
    if (!skip_op(",")) break;
  }
  return expect_op(")");
}

}  // namespace quire::jinja
