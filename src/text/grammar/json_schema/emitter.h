// From shapes to the network: each key is a rule, made when it is first asked for; scalars are one lexeme, objects and
// arrays automata over lexemes and the rules of their parts. Properties come in the order of the schema, others behind
// them.
#pragma once
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/json_schema/context.h"
#include "text/grammar/json_schema/tableau.h"
#include "text/grammar/network.h"

namespace quire::grammar {

class Emitter {
 public:
  Emitter(SchemaContext& context, NetworkBuilder& net) : c_(context), net_(net), tableau_(context) {}

  // The rule of a key and of all that it needs. Errors name the part that cannot be kept.
  Result<Rule> emit(const Key& key);

 private:
  static constexpr size_t kMaxPatterns = 6;     // of one object: their combinations are told apart
  static constexpr size_t kMaxUnrolled = 1000;  // states of one array or counted object
  static constexpr size_t kMaxContains = 3;     // conditions on some item, or some property, at once
  static constexpr size_t kMaxLoose = 5;        // required names that no `properties` lists: in any order
  static constexpr size_t kMaxDistinct = 8;     // values that items may have where they must differ

  Rule rule_of(Key key);
  bool is_never(Key key) const;
  const Json* property(const Json* group, std::string_view name);
  Key never() { return {c_.sign(&c_.document.root(), false), c_.sign(&c_.document.root(), true)}; }
  Status fill(const Key& key, Rule rule);

  // object.cc
  struct Name {
    std::string text;
    Key value;
    bool required = false;
  };
  struct Other {  // names beyond the listed ones
    Rx name;
    Key value;
  };
  struct ObjectPlan {
    std::vector<Name> names;  // in order
    std::vector<Name> loose;  // all required, in any order behind `names`, others between them
    std::vector<Other> others;
    uint64_t min = 0, max = Shape::kUnbounded;
    std::optional<Other> some;  // one such property must be the last
    const Json* at = nullptr;
  };
  struct ObjectStates;
  Status object(const Shape& shape, Rule rule, State end);
  Result<ObjectPlan> plan_object(const Shape& shape);
  Status list_names(const Shape& shape, const Rx* allowed, ObjectPlan& plan);
  Result<Key> value_of(const Shape& shape, const std::string& name);
  Status list_others(const Shape& shape, const Rx* allowed, ObjectPlan& plan);
  Status with_some(const Shape& shape, const ObjectPlan& plan, Rule rule, State end);
  Status object_automaton(ObjectPlan plan, Rule rule, State end);
  Status check_counts(const ObjectPlan& plan, ObjectStates& s) const;
  void join_states(const ObjectPlan& plan, const ObjectStates& s, Rule rule, State end);
  const Json* where(const Shape& shape) const;

  // array.cc
  struct ArrayPlan {
    std::vector<Key> listed;  // of the first items
    Key rest;
    uint64_t min = 0, max = Shape::kUnbounded;
    const Json* at = nullptr;
  };
  Status array(const Shape& shape, Rule rule, State end);
  ArrayPlan plan_array(const Shape& shape);
  Status plain_array(const ArrayPlan& plan, Rule rule, State end);
  Status counting_array(const ArrayPlan& plan, const std::vector<Shape::Contains>& contains, Rule rule, State end);
  Status distinct_array(const ArrayPlan& plan, Rule rule, State end);

  Rx text(char mark) { return c_.rx.byte(static_cast<uint8_t>(mark)); }
  Rx opening(char mark) { return c_.rx.cat(text(mark), space_); }
  Rx closing(char mark) { return c_.rx.cat(space_, text(mark)); }
  Rx empty(const char* marks) { return c_.rx.cat({text(marks[0]), space_, text(marks[1])}); }

  SchemaContext& c_;
  NetworkBuilder& net_;
  Tableau tableau_;
  std::map<Key, Rule> rules_;
  std::vector<std::pair<Key, Rule>> todo_;
  std::unordered_map<const Json*, std::unordered_map<std::string_view, const Json*>> members_;  // of large objects
  std::vector<std::string> plan_seen_;  // names that the object being planned lists or forbids
  Rx space_ = RxStore::kEmpty, comma_ = RxStore::kEmpty, colon_ = RxStore::kEmpty;
};

}  // namespace quire::grammar
