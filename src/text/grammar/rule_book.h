// What grammars in text notations (bnf.h, lark.h) have in common: named rules of literals, sequences, alternatives,
// counts and references, and their way into a network. Rules and parts of rules that refer to nothing but themselves
// unrolled, that is all that is regular, become lexemes, as large as they can be; what is left becomes rules. Because a
// lexeme may end wherever it can, that changes no text of the grammar.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/network.h"
#include "text/grammar/rx.h"

namespace quire::grammar {

class RuleBook {
 public:
  using Expr = uint32_t;
  static constexpr int kMaxDepth = 64;  // of groups in groups

  explicit RuleBook(std::string notation) : notation_(std::move(notation)) {}

  Expr text(Rx rx);  // a lexeme, or part of one
  Expr literal(RxStore& rx, std::string_view bytes);
  Expr reference(std::string_view name, size_t offset);
  Expr sequence(std::vector<Expr> parts);
  Expr choice(std::vector<Expr> parts);
  Expr repeat(Expr what, uint32_t min, uint32_t max);
  // What `what` matches and `but` does not; both must be regular.
  Expr except(Expr what, Expr but, size_t offset);
  Expr empty() { return sequence({}); }

  // Code::invalid when there is one of the name.
  Status define(std::string_view name, Expr body, size_t offset);
  bool defines(std::string_view name) const { return rules_.contains(name); }

  // The rule of `root` with all that it refers to. Code::invalid names what is not defined, with its offset.
  Result<Rule> build(NetworkBuilder& net, std::string_view root);

  tl::unexpected<Error> error(size_t offset, std::string_view what) const;

 private:
  enum class Kind : uint8_t { text, reference, sequence, choice, repeat, except };
  struct Node {
    Kind kind;
    Rx rx = RxStore::kNever;    // text; of what is regular: all of it
    uint32_t min = 0, max = 0;  // repeat
    size_t offset = 0;          // reference, except
    std::string name{};         // reference; of a literal its bytes
    bool literal = false;
    std::vector<Expr> parts{};
    bool regular = false;  // rx is known
  };
  struct Named {
    Expr body = 0;
    enum class State : uint8_t { fresh, open, regular, rule } state = State::fresh;
    bool has_rule = false;
    Rule rule = 0;
  };

  Expr add(Node node);
  Status settle(RxStore& rx, std::string_view root);
  Status settle_rule(RxStore& rx, Named& named);
  bool fold(RxStore& rx, Expr e);
  Status emit(NetworkBuilder& net, Expr e, Rule rule, State from, State to);
  Rule rule_for(NetworkBuilder& net, Named& named);

  std::string notation_;
  std::vector<Node> nodes_;
  std::map<std::string, Named, std::less<>> rules_;
  std::vector<Named*> todo_;
};

}  // namespace quire::grammar
