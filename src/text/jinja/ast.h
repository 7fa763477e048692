// A parsed template: immutable, shared by all threads that render it. Chains (a.b.c|f, a + b + c, a and b, if/elif) are
// flat lists, so the depth of the tree is the nesting of the source, which the parser limits.
// Variables are resolved when a scope closes: each use knows the slots that may hold it, innermost first, then its
// number among the variables that come from outside.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/arena.h"
#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/value.h"

namespace quire::jinja {

enum class ExprType : uint8_t {
  constant,
  name,
  sequence,
  dict,
  unary,
  chain,
  compare,
  concat,
  logic,
  conditional,
  postfix
};

struct Expr {
  ExprType type;
  int line;
  Expr(ExprType t, int l) : type(t), line(l) {}
  virtual ~Expr() = default;
};

struct ConstantExpr final : Expr {
  Value value;
  explicit ConstantExpr(int l) : Expr(ExprType::constant, l) {}
};

struct SlotRef {
  uint32_t up;  // scopes outward from the use
  uint32_t slot;
};
inline constexpr uint32_t kNoGlobal = 0xffffffff;
struct NameExpr final : Expr {
  const Str* name = nullptr;
  std::vector<SlotRef> slots;
  uint32_t global = 0;  // kNoGlobal: a scope hides what may come from outside
  explicit NameExpr(int l) : Expr(ExprType::name, l) {}
};

struct SequenceExpr final : Expr {
  SeqKind kind = SeqKind::list;
  std::vector<const Expr*> items;
  explicit SequenceExpr(int l) : Expr(ExprType::sequence, l) {}
};

struct DictExpr final : Expr {
  std::vector<std::pair<const Expr*, const Expr*>> entries;
  explicit DictExpr(int l) : Expr(ExprType::dict, l) {}
};

enum class UnaryOp : uint8_t { negative, positive, negation };
struct UnaryExpr final : Expr {
  UnaryOp op = UnaryOp::negation;
  const Expr* operand = nullptr;
  explicit UnaryExpr(int l) : Expr(ExprType::unary, l) {}
};

// first op operand op operand …: arithmetic from left to right, or a chained comparison.
struct ChainExpr final : Expr {
  const Expr* first = nullptr;
  std::vector<std::pair<Operator, const Expr*>> rest;
  ChainExpr(ExprType t, int l) : Expr(t, l) {}
};

struct ConcatExpr final : Expr {
  std::vector<const Expr*> pieces;
  explicit ConcatExpr(int l) : Expr(ExprType::concat, l) {}
};

struct LogicExpr final : Expr {
  bool is_and = false;
  std::vector<const Expr*> operands;
  explicit LogicExpr(int l) : Expr(ExprType::logic, l) {}
};

// value if condition else value if condition … else otherwise (nullptr: undefined)
struct ConditionalExpr final : Expr {
  std::vector<std::pair<const Expr*, const Expr*>> branches;  // condition, value
  const Expr* otherwise = nullptr;
  explicit ConditionalExpr(int l) : Expr(ExprType::conditional, l) {}
};

struct Arguments {
  std::vector<const Expr*> positional;
  std::vector<std::pair<const Str*, const Expr*>> named;
  const Expr* star = nullptr;       // *list
  const Expr* star_star = nullptr;  // **dict
};

enum class StepType : uint8_t { attribute, item, slice, call, filter, test };
struct PostfixStep {
  StepType type;
  int line;
  const Str* name = nullptr;           // of an attribute, filter or test
  const MethodSet* methods = nullptr;  // of an attribute
  const Builtin* builtin = nullptr;    // of a filter or test; nullptr: unknown, an error when it is reached
  bool negated = false;                // `is not`
  const Expr* item = nullptr;          // subscript, or start of a slice
  const Expr* stop = nullptr;
  const Expr* step = nullptr;
  Arguments arguments{};
};
struct PostfixExpr final : Expr {
  const Expr* base = nullptr;  // nullptr: the text of a block that filters are applied to
  std::vector<PostfixStep> steps;
  explicit PostfixExpr(int l) : Expr(ExprType::postfix, l) {}
};

// What is assigned to: a variable of the innermost scope, an attribute of a namespace, or a tuple of targets.
struct Target {
  enum class Type : uint8_t { slot, attribute, tuple } type = Type::slot;
  uint32_t slot = 0;
  const NameExpr* space = nullptr;
  const Str* attribute = nullptr;
  std::vector<Target> items;
  int line = 0;
};

enum class StmtType : uint8_t {
  text,
  output,
  branch,
  loop,
  assign,
  assign_block,
  filter_block,
  with,
  macro,
  call_block,
  break_loop,
  continue_loop
};
struct Stmt {
  StmtType type;
  int line;
  Stmt(StmtType t, int l) : type(t), line(l) {}
  virtual ~Stmt() = default;
};
using Block = std::vector<const Stmt*>;

struct TextStmt final : Stmt {
  const Str* text = nullptr;
  explicit TextStmt(int l) : Stmt(StmtType::text, l) {}
};
struct OutputStmt final : Stmt {
  const Expr* value = nullptr;
  explicit OutputStmt(int l) : Stmt(StmtType::output, l) {}
};
struct BranchStmt final : Stmt {
  std::vector<std::pair<const Expr*, Block>> branches;
  Block otherwise;
  explicit BranchStmt(int l) : Stmt(StmtType::branch, l) {}
};
struct LoopStmt final : Stmt {
  Target target;
  const Expr* source = nullptr;
  const Expr* filter = nullptr;  // `if` after the source; sees the target in a scope of its own
  Target filter_target;
  uint32_t n_filter_slots = 0;
  Block body, otherwise;
  uint32_t n_slots = 0;
  uint32_t loop_slot = 0;
  uint32_t n_otherwise_slots = 0;
  explicit LoopStmt(int l) : Stmt(StmtType::loop, l) {}
};
struct AssignStmt final : Stmt {
  Target target;
  const Expr* value = nullptr;
  explicit AssignStmt(int l) : Stmt(StmtType::assign, l) {}
};
// {% set x %}…{% endset %}, {% filter f %}…{% endfilter %}
struct CaptureStmt final : Stmt {
  Target target;                         // of assign_block
  const PostfixExpr* filters = nullptr;  // may be nullptr
  Block body;
  uint32_t n_slots = 0;
  CaptureStmt(StmtType t, int l) : Stmt(t, l) {}
};
// {% with %} and, without assignments, {% generation %}
struct WithStmt final : Stmt {
  std::vector<std::pair<Target, const Expr*>> assignments;
  Block body;
  uint32_t n_slots = 0;
  explicit WithStmt(int l) : Stmt(StmtType::with, l) {}
};
struct MacroStmt final : Stmt {
  struct Param {
    const Str* name;
    uint32_t slot;
    const Expr* otherwise;  // nullptr: no default
  };
  const Str* name = nullptr;
  Target target;
  std::vector<Param> params;
  Block body;
  uint32_t n_slots = 0;
  uint32_t caller_slot = 0, varargs_slot = 0, kwargs_slot = 0;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  explicit MacroStmt(int l) : Stmt(StmtType::macro, l) {}
};
struct CallBlockStmt final : Stmt {
  const MacroStmt* body = nullptr;
  const PostfixExpr* call = nullptr;  // its last step is the call that gets `caller`
  explicit CallBlockStmt(int l) : Stmt(StmtType::call_block, l) {}
};
struct JumpStmt final : Stmt {
  JumpStmt(StmtType t, int l) : Stmt(t, l) {}
};

struct Program {
  Block body;
  uint32_t n_slots = 0;
  std::vector<const Str*> globals;  // names that may come from outside
  Arena constants;
  std::vector<std::unique_ptr<Expr>> exprs;
  std::vector<std::unique_ptr<Stmt>> stmts;
};

}  // namespace quire::jinja
