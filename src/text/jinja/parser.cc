// Statements and scopes.
#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/parser_impl.h"

namespace quire::jinja {

bool Parser::skip_op(std::string_view op) {
  if (!now().is_op(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!now().is_name(name)) return false;
  next();
  return true;
}

tl::unexpected<Error> Parser::error(std::string_view message) const {
  return template_error(Code::invalid, now().line, message);
}

tl::unexpected<Error> Parser::unexpected(std::string_view wanted) const {
  const TokenView& t = now();
  std::string got = "'" + excerpt(t.text, 40) + "'";
  if (t.type == Tok::end || t.type == Tok::data) got = t.type == Tok::end ? "the end of the template" : "text";
  if (t.type == Tok::print_end || t.type == Tok::block_end) got = "the end of the tag";
  return error("expected " + std::string(wanted) + ", got " + got);
}

Status Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) return unexpected("'" + std::string(op) + "'");
  return {};
}

Status Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) return unexpected("'" + std::string(name) + "'");
  return {};
}

Status Parser::expect(Tok type, std::string_view what) {
  if (now().type != type) return unexpected(what);
  next();
  return {};
}

Result<std::string> Parser::take_name(std::string_view what) {
  if (now().type != Tok::name) return unexpected(what);
  std::string name = now().text;
  next();
  return name;
}

Status Parser::check_depth() const {
  if (depth_ <= limits_.nesting) return {};
  return error("nested deeper than the limit of " + std::to_string(limits_.nesting));
}

// Scopes ----------------------------------------------------------------------------------------------------------

Parser::Scope* Parser::open_scope(MacroStmt* macro) {
  scope_ = &scopes_.emplace_back(Scope{.parent = scope_, .macro = macro});
  return scope_;
}

uint32_t Parser::close_scope() {
  const auto n_slots = static_cast<uint32_t>(scope_->slots.size());
  scope_ = scope_->parent;
  return n_slots;
}

uint32_t Parser::declare(const std::string& name, bool is_parameter) {
  const bool hides = !is_parameter && scope_->ifs == 0 && !scope_->reads.contains(name);
  const Slot slot{static_cast<uint32_t>(scope_->slots.size()), hides};
  return scope_->slots.emplace(name, slot).first->second.index;
}

NameExpr* Parser::use(std::string_view name, int line) {
  auto* e = make_expr<NameExpr>(line);
  e->name = constant(name);
  scope_->reads.emplace(name);
  uses_.push_back({e, scope_});
  return e;
}

Target Parser::declare_target(const TargetSyntax& syntax, bool is_parameter) {
  Target out;
  out.line = syntax.line;
  if (syntax.is_tuple) {
    out.type = Target::Type::tuple;
    for (const TargetSyntax& item : syntax.items) out.items.push_back(declare_target(item, is_parameter));
  } else if (!syntax.attribute.empty()) {
    out.type = Target::Type::attribute;
    out.space = use(syntax.name, syntax.line);
    out.attribute = constant(syntax.attribute);
  } else {
    out.slot = declare(syntax.name, is_parameter);
  }
  return out;
}

uint32_t Parser::global(std::string_view name) {
  if (const auto known = globals_.find(name); known != globals_.end()) return known->second;
  const auto number = static_cast<uint32_t>(program_->globals.size());
  program_->globals.push_back(constant(name));
  globals_.emplace(program_->globals.back()->text, number);
  return number;
}

// Finds the slots that a use may read, innermost first. All scopes are complete by now.
void Parser::resolve(const Use& use) {
  const std::string name(use.name->name->text);
  bool outside = true;
  uint32_t up = 0;
  for (const Scope* s = use.scope; s; s = s->parent, ++up) {
    const auto slot = s->slots.find(name);
    if (slot == s->slots.end()) {
      outside = outside || s->reads.contains(name);
      continue;
    }
    use.name->slots.push_back({up, slot->second.index});
    outside = !slot->second.hides;
    if (!s->macro) continue;
    s->macro->uses_caller = s->macro->uses_caller || name == "caller";
    s->macro->uses_varargs = s->macro->uses_varargs || name == "varargs";
    s->macro->uses_kwargs = s->macro->uses_kwargs || name == "kwargs";
  }
  use.name->global = outside ? global(name) : kNoGlobal;
}

// Statements ------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<const Program>> Parser::run() {
  open_scope();
  QR_TRY_VOID(block(program_->body, {}));
  program_->n_slots = close_scope();
  for (const Use& use : uses_) resolve(use);
  return std::unique_ptr<const Program>(std::move(program_));
}

// Reads statements up to a tag named in `ends`, whose name is taken too and can be read from tokens_[at_ - 1].
// Without ends, up to the end of the source.
Status Parser::block(Block& out, EndNames ends) {
  const Nest nest(depth_);
  QR_TRY_VOID(check_depth());
  while (now().type != Tok::end) {
    const TokenView& t = now();
    if (t.type == Tok::data) {
      auto* text = make_stmt<TextStmt>(t.line);
      text->text = constant(t.text);
      out.push_back(text);
      next();
    } else if (t.type == Tok::print_begin) {
      auto* print = make_stmt<OutputStmt>(t.line);
      next();
      QR_TRY(print->value, tuple(true, false));
      out.push_back(print);
      QR_TRY_VOID(expect(Tok::print_end, "'}}'"));
    } else {
      next();
      if (now().type == Tok::name && std::find(ends.begin(), ends.end(), now().text) != ends.end()) {
        next();
        return {};
      }
      QR_TRY_VOID(statement(out));
    }
  }
  if (ends.size() == 0) return {};
  return error("a block is not closed: '" + std::string(*(ends.end() - 1)) + "' is missing");
}

Status Parser::statement(Block& out) {
  const int line = now().line;
  if (now().type != Tok::name) return unexpected("a tag's name");
  const std::string name = now().text;
  next();
  if (name == "if") return if_statement(out, line);
  if (name == "for") return for_statement(out, line);
  if (name == "set") return set_statement(out, line);
  if (name == "macro") return macro_statement(out, line);
  if (name == "call") return call_statement(out, line);
  if (name == "filter") return filter_statement(out, line);
  if (name == "with") return with_statement(out, line);
  if (name == "generation") return generation_statement(out, line);
  if (name == "break") return jump_statement(out, line, StmtType::break_loop);
  if (name == "continue") return jump_statement(out, line, StmtType::continue_loop);
  constexpr std::string_view kUnsupported[] = {"include", "import",     "from", "extends",
                                               "block",   "autoescape", "do",   "trans"};
  if (std::find(std::begin(kUnsupported), std::end(kUnsupported), name) != std::end(kUnsupported)) {
    return template_error(Code::unsupported, line, "the tag '" + name + "' is not supported");
  }
  return template_error(Code::invalid, line, "unexpected tag '" + excerpt(name, 40) + "'");
}

Status Parser::if_statement(Block& out, int line) {
  auto* stmt = make_stmt<BranchStmt>(line);
  out.push_back(stmt);
  std::string end = "elif";
  Scope* const scope = scope_;
  while (end == "elif") {
    auto& branch = stmt->branches.emplace_back();
    QR_TRY(branch.first, tuple(false, false));
    skip_op(":");
    QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
    ++scope->ifs;
    QR_TRY_VOID(block(branch.second, {"elif", "else", "endif"}));
    --scope->ifs;
    end = tokens_[at_ - 1].text;
  }
  if (end == "else") {
    skip_op(":");
    QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
    ++scope->ifs;
    QR_TRY_VOID(block(stmt->otherwise, {"endif"}));
    --scope->ifs;
  }
  return expect(Tok::block_end, "'%}'");
}

bool Parser::assigns_loop(const TargetSyntax& names) {
  return names.name == "loop" || std::any_of(names.items.begin(), names.items.end(), assigns_loop);
}

Status Parser::for_statement(Block& out, int line) {
  auto* loop = make_stmt<LoopStmt>(line);
  out.push_back(loop);
  QR_TRY(const TargetSyntax names, target(false));
  if (assigns_loop(names)) return error("a for loop cannot assign to 'loop'");
  QR_TRY_VOID(expect_name("in"));
  QR_TRY(loop->source, tuple(false, false, {"recursive"}));
  if (skip_name("if")) {
    open_scope();
    loop->filter_target = declare_target(names, true);
    QR_TRY(loop->filter, expression());
    loop->n_filter_slots = close_scope();
  }
  if (now().is_name("recursive")) return template_error(Code::unsupported, line, "recursive loops are not supported");
  skip_op(":");
  QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
  ++loops_;
  const Status body = loop_body(*loop, names);
  --loops_;
  QR_TRY_VOID(body);
  if (tokens_[at_ - 1].text == "else") {
    skip_op(":");
    QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
    open_scope();
    QR_TRY_VOID(block(loop->otherwise, {"endfor"}));
    loop->n_otherwise_slots = close_scope();
  }
  return expect(Tok::block_end, "'%}'");
}

Status Parser::loop_body(LoopStmt& loop, const TargetSyntax& names) {
  open_scope();
  loop.loop_slot = declare("loop", true);
  loop.target = declare_target(names, true);
  QR_TRY_VOID(block(loop.body, {"else", "endfor"}));
  loop.n_slots = close_scope();
  return {};
}

Status Parser::set_statement(Block& out, int line) {
  QR_TRY(const TargetSyntax names, target(true));
  if (skip_op("=")) {
    auto* stmt = make_stmt<AssignStmt>(line);
    out.push_back(stmt);
    QR_TRY(stmt->value, tuple(true, false));
    stmt->target = declare_target(names, false);
    return expect(Tok::block_end, "'%}'");
  }
  auto* stmt = make_stmt<CaptureStmt>(StmtType::assign_block, line);
  out.push_back(stmt);
  if (now().is_op("|")) {
    auto* filters = make_expr<PostfixExpr>(line);
    QR_TRY_VOID(postfix_steps(*filters, true));
    stmt->filters = filters;
  }
  skip_op(":");
  QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
  open_scope();
  QR_TRY_VOID(block(stmt->body, {"endset"}));
  stmt->n_slots = close_scope();
  stmt->target = declare_target(names, false);
  return expect(Tok::block_end, "'%}'");
}

Status Parser::filter_statement(Block& out, int line) {
  auto* stmt = make_stmt<CaptureStmt>(StmtType::filter_block, line);
  out.push_back(stmt);
  auto* filters = make_expr<PostfixExpr>(line);
  QR_TRY_VOID(filter_step(*filters));
  QR_TRY_VOID(postfix_steps(*filters, true));
  stmt->filters = filters;
  skip_op(":");
  QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
  open_scope();
  QR_TRY_VOID(block(stmt->body, {"endfilter"}));
  stmt->n_slots = close_scope();
  return expect(Tok::block_end, "'%}'");
}

Status Parser::with_statement(Block& out, int line) {
  auto* stmt = make_stmt<WithStmt>(line);
  out.push_back(stmt);
  std::vector<TargetSyntax> names;
  while (now().type != Tok::block_end) {
    QR_TRY(TargetSyntax name, target(false));
    names.push_back(std::move(name));
    QR_TRY_VOID(expect_op("="));
    QR_TRY(const Expr* value, expression());
    stmt->assignments.emplace_back(Target{}, value);
    if (!skip_op(",")) break;
  }
  QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
  open_scope();
  for (size_t i = 0; i < names.size(); ++i) stmt->assignments[i].first = declare_target(names[i], true);
  QR_TRY_VOID(block(stmt->body, {"endwith"}));
  stmt->n_slots = close_scope();
  return expect(Tok::block_end, "'%}'");
}

Status Parser::generation_statement(Block& out, int line) {
  auto* stmt = make_stmt<WithStmt>(line);
  out.push_back(stmt);
  QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
  open_scope();
  const int loops = std::exchange(loops_, 0);  // the reference renders the body as a function: no jump leaves it
  QR_TRY_VOID(block(stmt->body, {"endgeneration"}));
  loops_ = loops;
  stmt->n_slots = close_scope();
  return expect(Tok::block_end, "'%}'");
}

Status Parser::jump_statement(Block& out, int line, StmtType type) {
  if (loops_ == 0) return template_error(Code::invalid, line, "break or continue outside a loop");
  out.push_back(make_stmt<JumpStmt>(type, line));
  return expect(Tok::block_end, "'%}'");
}

// "(a, b=1)", read in the macro's own scope: a default may use the parameters before it.
Status Parser::macro_signature(MacroStmt& macro) {
  QR_TRY_VOID(expect_op("("));
  while (!now().is_op(")")) {
    QR_TRY(const std::string name, take_name("a parameter's name"));
    const auto same = [&](const MacroStmt::Param& p) { return p.name->text == name; };
    if (std::any_of(macro.params.begin(), macro.params.end(), same)) {
      return error("parameter '" + name + "' appears twice");
    }
    macro.params.push_back({constant(name), declare(name, true), nullptr});
    if (skip_op("=")) {
      QR_TRY(macro.params.back().otherwise, expression());
    } else if (macro.params.size() > 1 && macro.params[macro.params.size() - 2].otherwise) {
      return error("a parameter without a default follows one with a default");
    }
    if (!skip_op(",")) break;
  }
  return expect_op(")");
}

// From the end of the opening tag to the end of the closing one; closes the macro's scope.
Status Parser::macro_body(MacroStmt& macro, std::string_view end_name) {
  macro.caller_slot = declare("caller", true);
  macro.varargs_slot = declare("varargs", true);
  macro.kwargs_slot = declare("kwargs", true);
  skip_op(":");
  QR_TRY_VOID(expect(Tok::block_end, "'%}'"));
  const int loops = std::exchange(loops_, 0);
  QR_TRY_VOID(block(macro.body, {end_name}));
  loops_ = loops;
  macro.n_slots = close_scope();
  return expect(Tok::block_end, "'%}'");
}

Status Parser::macro_statement(Block& out, int line) {
  auto* macro = make_stmt<MacroStmt>(line);
  out.push_back(macro);
  QR_TRY(const std::string name, take_name("a macro's name"));
  macro->name = constant(name);
  macro->target = declare_target({.name = name, .line = line}, false);
  open_scope(macro);
  QR_TRY_VOID(macro_signature(*macro));
  return macro_body(*macro, "endmacro");
}

Status Parser::call_statement(Block& out, int line) {
  auto* stmt = make_stmt<CallBlockStmt>(line);
  out.push_back(stmt);
  auto* macro = make_stmt<MacroStmt>(line);
  macro->name = constant("caller");
  stmt->body = macro;
  Scope* const inside = open_scope(macro);
  if (now().is_op("(")) QR_TRY_VOID(macro_signature(*macro));
  scope_ = inside->parent;  // the call itself stands outside
  QR_TRY(const Expr* call, expression());
  scope_ = inside;
  stmt->call = call->type == ExprType::postfix ? static_cast<const PostfixExpr*>(call) : nullptr;
  if (!stmt->call || stmt->call->steps.back().type != StepType::call) return error("expected a call");
  return macro_body(*macro, "endcall");
}

// Targets ---------------------------------------------------------------------------------------------------------

Result<Parser::TargetSyntax> Parser::target_item(bool with_attributes) {
  const Nest nest(depth_);
  QR_TRY_VOID(check_depth());
  if (skip_op("(")) {
    QR_TRY(TargetSyntax inner, target(with_attributes));
    QR_TRY_VOID(expect_op(")"));
    return inner;
  }
  TargetSyntax out{.line = now().line};
  QR_TRY(out.name, take_name("a variable"));
  constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), out.name) != std::end(kConstants)) {
    return error("'" + out.name + "' cannot be assigned to");
  }
  if (with_attributes && skip_op(".")) {
    QR_TRY(out.attribute, take_name("an attribute name"));
  }
  return out;
}

Result<Parser::TargetSyntax> Parser::target(bool with_attributes) {
  QR_TRY(TargetSyntax first, target_item(with_attributes));
  if (!now().is_op(",")) return first;
  TargetSyntax out{.is_tuple = true, .line = first.line};
  out.items.push_back(std::move(first));
  while (skip_op(",") && (now().type == Tok::name || now().is_op("(")) && !now().is_name("in")) {
    QR_TRY(TargetSyntax item, target_item(with_attributes));
    out.items.push_back(std::move(item));
  }
  return out;
}

Result<std::unique_ptr<const Program>> parse_template(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > limits.source_bytes) {
    return fail(Code::invalid, "chat template: " + std::to_string(source.size()) + " bytes, the limit is " +
                                   std::to_string(limits.source_bytes));
  }
  QR_TRY(std::vector<TokenView> tokens, lex_template(source));
  return Parser(std::move(tokens), limits).run();
}

}  // namespace quire::jinja
