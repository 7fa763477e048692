// Runs a Program: a tree walk over plain values. One Evaluator renders once, on one thread; the Program is shared.
// Bounded by the Context's fuel and memory, by the output limit, and by depth: macros may nest `recursion` deep and the
// walk itself kMaxDepth, so the machine stack never depends on the template or the input.
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/context.h"

namespace quire::jinja {

inline constexpr int kMaxDepth = 800;  // expressions and blocks inside one another, over all macro calls

// The slots of one scope at run time. In the arena: a macro may outlive the scope that it was made in.
struct Frame {
  Value* slots = nullptr;
  Frame* parent = nullptr;
};

struct Macro {
  const MacroStmt* node;
  Frame* closure;
};

// Where variables from outside come from. `find` leaves `out` absent when there is no such variable.
class Variables {
 public:
  virtual ~Variables() = default;
  virtual bool find(Context& in, std::string_view name, Value& out) = 0;
};

class Evaluator;

// `loop` inside a for statement. Filtered loops look for their next element only when they must, as Jinja does.
struct Loop {
  Evaluator* owner = nullptr;
  const LoopStmt* node = nullptr;
  Frame* filter_frame = nullptr;  // nullptr: no filter, or nothing left to test
  Seq* source = nullptr;
  size_t next = 0;  // in source
  int64_t index0 = -1;
  bool completed = false;              // a round of the body ran to its end
  Value previous, current, following;  // absent where there is none; `following` may not be looked for yet
  Value last_changed;
};

class Evaluator {
 public:
  Evaluator(Context& in, const Program& program, Variables& variables);
  // Appends the rendering to `out`. On false the Context has the error.
  bool run(TextBuilder& out);

  // For the methods of `loop`.
  bool peek(Loop& loop);
  bool count(Loop& loop, int64_t& out);

 private:
  enum class Flow : uint8_t { go_on, break_loop, continue_loop, failed };
  struct CallArgs {
    std::array<Value, 6> room;
    Given given;
  };

  // eval_stmt.cc
  Flow exec(const Block& block, Frame* frame);
  Flow exec_one(const Stmt& stmt, Frame* frame);
  Flow exec_branch(const BranchStmt& stmt, Frame* frame);
  Flow exec_loop(const LoopStmt& stmt, Frame* frame);
  Flow exec_loop_body(Loop& loop, Frame* frame);
  Flow exec_with(const WithStmt& stmt, Frame* frame);
  bool exec_capture(const CaptureStmt& stmt, Frame* frame);
  bool exec_call_block(const CallBlockStmt& stmt, Frame* frame);
  bool exec_macro(const MacroStmt& stmt, Frame* frame);
  bool output(const Expr& value, Frame* frame);
  bool write(const Str& s);
  bool capture(const Block& body, Frame* frame, Value& out);
  bool assign(const Target& target, Value v, Frame* frame);
  bool assign_tuple(const Target& target, const Value& v, Frame* frame);
  bool advance(Loop& loop, Value& out);
  Frame* new_frame(uint32_t n_slots, Frame* parent);
  const Value& variable(const NameExpr& name, Frame* frame);
  const Value& outside(uint32_t global);

  // eval_expr.cc
  bool eval(const Expr& e, Frame* frame, Value& out);
  bool eval_node(const Expr& e, Frame* frame, Value& out);
  bool eval_sequence(const SequenceExpr& e, Frame* frame, Value& out);
  bool eval_dict(const DictExpr& e, Frame* frame, Value& out);
  bool eval_unary(const UnaryExpr& e, Frame* frame, Value& out);
  bool eval_chain(const ChainExpr& e, Frame* frame, Value& out);
  bool eval_compare(const ChainExpr& e, Frame* frame, Value& out);
  bool eval_concat(const ConcatExpr& e, Frame* frame, Value& out);
  bool eval_logic(const LogicExpr& e, Frame* frame, Value& out);
  bool eval_conditional(const ConditionalExpr& e, Frame* frame, Value& out);

  // eval_call.cc
  bool eval_postfix(const PostfixExpr& e, Value* base, const Value* caller, Frame* frame, Value& out);
  bool eval_step(const PostfixStep& step, Frame* frame, Value& v);
  bool eval_attribute(const PostfixStep& step, Value& v);
  bool eval_item(const PostfixStep& step, Frame* frame, Value& v);
  bool eval_slice(const PostfixStep& step, Frame* frame, Value& v);
  bool eval_builtin(const PostfixStep& step, Frame* frame, Value& v);
  bool eval_method(const Builtin& method, const PostfixStep& call, Frame* frame, Value& v);
  bool eval_arguments(const Arguments& args, Frame* frame, CallArgs& out);
  bool spread(const Arguments& args, Frame* frame, CallArgs& out);
  bool call(const Value& callee, const CallArgs& args, const Value* caller, Value& out);
  bool call_macro(const Macro& macro, const CallArgs& args, const Value* caller, Value& out);
  bool bind_macro(const Macro& macro, const CallArgs& args, const Value* caller, Frame& frame);
  bool bind_named(const MacroStmt& node, const CallArgs& args, Frame& frame);
  bool loop_attribute(Loop& loop, std::string_view name, Value& out);

  Context& in_;
  const Program& program_;
  Variables& variables_;
  std::vector<Value> globals_;  // absent: not asked for yet
  Value hidden_;                // what variable() returns for a name that is nowhere
  TextBuilder* out_ = nullptr;
  int depth_ = 0;
  int macros_ = 0;
};

}  // namespace quire::jinja
