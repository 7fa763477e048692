// The parser's state, shared by its two halves: parser.cc (statements, scopes) and parser_expr.cc (expressions).
// Recursive descent; every recursion passes through nest(), which enforces the nesting limit of the source.
#pragma once
#include <algorithm>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/limits.h"

namespace quire::jinja {

using ExprResult = Result<const Expr*>;
using EndNames = std::initializer_list<std::string_view>;

class Parser {
 public:
  Parser(std::vector<TokenView> tokens, const TemplateLimits& limits) : tokens_(std::move(tokens)), limits_(limits) {}
  Result<std::unique_ptr<const Program>> run();

 private:
  // A region with variables of its own, and what Jinja's symbol analysis wants to know about it.
  struct Slot {
    uint32_t index;
    // A variable that the scope sets before it reads it hides one from outside even before it is set (Jinja loads it as
    // undefined), unless an enclosing scope mentions it too. Not so for `set` inside an `if`.
    bool hides;
  };
  struct Scope {
    Scope* parent = nullptr;
    MacroStmt* macro = nullptr;
    std::unordered_map<std::string, Slot> slots{};
    std::unordered_set<std::string> reads{};  // by the scope's own statements, inner scopes not counted
    int ifs = 0;                              // open around the statement that is being read
  };
  struct Use {
    NameExpr* name;
    const Scope* scope;
  };
  // A target as it stands in the source; it becomes a Target in the scope that it assigns to.
  struct TargetSyntax {
    std::string name{}, attribute{};
    bool is_tuple = false;
    std::vector<TargetSyntax> items{};
    int line = 0;
  };
  struct Nest {
    explicit Nest(int& d) : depth(d) { ++depth; }
    ~Nest() { --depth; }
    int& depth;
  };

  // Tokens.
  const TokenView& now() const { return tokens_[at_]; }
  const TokenView& ahead(size_t n = 1) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
  void next() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  Status expect_op(std::string_view op);
  Status expect_name(std::string_view name);
  Status expect(Tok type, std::string_view what);
  Result<std::string> take_name(std::string_view what);
  tl::unexpected<Error> error(std::string_view message) const;
  tl::unexpected<Error> unexpected(std::string_view wanted) const;
  Status check_depth() const;

  // Making nodes.
  template <class T, class... A>
  T* make_expr(A&&... args) {
    auto made = std::make_unique<T>(std::forward<A>(args)...);
    T* node = made.get();
    program_->exprs.push_back(std::move(made));
    return node;
  }
  template <class T, class... A>
  T* make_stmt(A&&... args) {
    auto made = std::make_unique<T>(std::forward<A>(args)...);
    T* node = made.get();
    program_->stmts.push_back(std::move(made));
    return node;
  }
  const Str* constant(std::string_view text) { return copy_str(program_->constants, text, false); }
  const Expr* constant_expr(int line, Value value);

  // Scopes.
  Scope* open_scope(MacroStmt* macro = nullptr);
  uint32_t close_scope();  // number of slots
  uint32_t declare(const std::string& name, bool is_parameter);
  NameExpr* use(std::string_view name, int line);
  Target declare_target(const TargetSyntax& syntax, bool is_parameter);
  void resolve(const Use& use);
  uint32_t global(std::string_view name);

  // Statements: each is called behind its tag's name and leaves behind its last tag.
  Status block(Block& out, EndNames ends);
  Status statement(Block& out);
  Status if_statement(Block& out, int line);
  Status for_statement(Block& out, int line);
  Status set_statement(Block& out, int line);
  Status filter_statement(Block& out, int line);
  Status with_statement(Block& out, int line);
  Status generation_statement(Block& out, int line);
  Status macro_statement(Block& out, int line);
  Status call_statement(Block& out, int line);
  Status jump_statement(Block& out, int line, StmtType type);
  Status macro_signature(MacroStmt& macro);
  Status macro_body(MacroStmt& macro, std::string_view end_name);
  Status loop_body(LoopStmt& loop, const TargetSyntax& target);
  static bool assigns_loop(const TargetSyntax& names);
  Result<TargetSyntax> target(bool with_attributes);
  Result<TargetSyntax> target_item(bool with_attributes);

  // Expressions, loosest first.
  ExprResult tuple(bool with_condition, bool in_parentheses, EndNames end_names = {});
  ExprResult expression(bool with_condition = true);
  ExprResult conditional();
  ExprResult logic_or();
  ExprResult logic_and();
  ExprResult logic_not();
  ExprResult comparison();
  ExprResult sum();
  ExprResult concatenation();
  ExprResult product();
  ExprResult power();
  ExprResult unary(bool with_filters);
  ExprResult primary();
  ExprResult list_literal();
  ExprResult dict_literal();
  ExprResult chain(ExprResult (Parser::*operand)(), EndNames ops);
  ExprResult postfix(const Expr* base, bool with_filters);
  Status postfix_steps(PostfixExpr& out, bool with_filters);
  Status subscript(PostfixExpr& out);
  Status slice(PostfixStep& step);
  Status filter_step(PostfixExpr& out);
  Status test_step(PostfixExpr& out);
  Status call_arguments(Arguments& out);
  bool starts_test_argument() const;
  bool at_tuple_end(EndNames end_names) const;

  std::vector<TokenView> tokens_;
  const TemplateLimits& limits_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;             // that a break here would leave
  std::deque<Scope> scopes_;  // all, until the uses are resolved
  std::vector<Use> uses_;
  std::unordered_map<std::string_view, uint32_t> globals_;
  Scope* scope_ = nullptr;
  std::unique_ptr<Program> program_ = std::make_unique<Program>();
};

}  // namespace quire::jinja
