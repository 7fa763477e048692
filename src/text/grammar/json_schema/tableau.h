// Takes the logic of schemas apart: a key (schemas that hold or are broken, all at once) becomes a list of shapes, one
// of which a value fits exactly when the key holds of it. A branch is a shape so far and what is still to be looked at;
// keywords narrow it or split it (the method of analytic tableaux). A broken schema is one of whose keywords one is
// broken, so `not`, `oneOf`, `if` and dependencies need nothing of their own.
#pragma once
#include <string_view>
#include <vector>

#include "text/grammar/json_schema/context.h"
#include "text/grammar/json_schema/shape.h"
#include "text/grammar/json_schema/validator.h"

namespace quire::grammar {

class Tableau {
 public:
  static constexpr size_t kMaxShapes = 1024;  // of one key

  explicit Tableau(SchemaContext& context) : c_(context), validator_(context) {}

  // Errors: what is no schema (Code::invalid), what cannot be decided (Code::unsupported), both with its pointer.
  Result<std::vector<Shape>> expand(const Key& key);
  // The strings that a key admits, as spellings; all other types are left out.
  Result<Rx> strings_of(const Key& key);
  Validator& validator() { return validator_; }

 private:
  // A schema, or one keyword of it, or one part of one keyword, that must hold or be broken.
  struct Todo {
    const Json* schema = nullptr;
    bool broken = false;
    std::string_view keyword = {};         // empty: the whole schema
    const Json::Member* member = nullptr;  // of keyword's object; null: all of it
    size_t index = kAll;                   // in keyword's array
    static constexpr size_t kAll = ~size_t{0};
  };
  struct Branch {
    Shape shape;
    std::vector<Todo> todo;  // the last first
    Key done;                // whole schemas that were looked at
    void die() { shape.types = 0; }
    void only(Types t) { shape.types &= t; }
  };
  using Ways = std::vector<std::vector<Todo>>;
  // Narrows the branch, or says by which todos it goes on, one branch each.
  using Handler = Status (Tableau::*)(const Todo&, const Json&, Branch&, Ways&);

  static Handler handler_of(std::string_view keyword);

  Status look_at(const Todo& todo, Branch& branch, Ways& ways);
  Status look_at_schema(const Todo& todo, Branch& branch, Ways& ways);
  void break_schema(const Json* schema, Branch& branch, Ways& ways);
  bool has_effect(const Json* schema, std::string_view keyword) const;
  Status finish(Branch& branch, std::vector<Shape>& out);
  Status settle_not_values(Branch& branch);

  // keywords_value.cc
  Status type(const Todo&, const Json&, Branch&, Ways&);
  Status listed(const Todo&, const Json&, Branch&, Ways&);
  Status bound(const Todo&, const Json&, Branch&, Ways&);
  Status multiple_of(const Todo&, const Json&, Branch&, Ways&);
  Status length(const Todo&, const Json&, Branch&, Ways&);
  Status pattern(const Todo&, const Json&, Branch&, Ways&);
  // keywords_logic.cc
  Status reference(const Todo&, const Json&, Branch&, Ways&);
  Status all_of(const Todo&, const Json&, Branch&, Ways&);
  Status any_of(const Todo&, const Json&, Branch&, Ways&);
  Status one_of(const Todo&, const Json&, Branch&, Ways&);
  Status negation(const Todo&, const Json&, Branch&, Ways&);
  Status condition(const Todo&, const Json&, Branch&, Ways&);
  Status refuse(const Todo&, const Json&, Branch&, Ways&);
  bool disjoint(const Json* a, const Json* b, int depth);
  const Json* plain(const Json* schema, int depth) const;
  // keywords_object.cc
  Status object_count(const Todo&, const Json&, Branch&, Ways&);
  Status required(const Todo&, const Json&, Branch&, Ways&);
  Status properties(const Todo&, const Json&, Branch&, Ways&);
  Status pattern_properties(const Todo&, const Json&, Branch&, Ways&);
  Status additional_properties(const Todo&, const Json&, Branch&, Ways&);
  Status property_names(const Todo&, const Json&, Branch&, Ways&);
  Status dependencies(const Todo&, const Json&, Branch&, Ways&);
  Status unevaluated_properties(const Todo&, const Json&, Branch&, Ways&);
  // keywords_array.cc
  Status array_count(const Todo&, const Json&, Branch&, Ways&);
  Status items(const Todo&, const Json&, Branch&, Ways&);
  Status contains(const Todo&, const Json&, Branch&, Ways&);
  Status unique_items(const Todo&, const Json&, Branch&, Ways&);

  SchemaContext& c_;
  Validator validator_;
  const Key* key_ = nullptr;  // the one being expanded
  int depth_ = 0;             // of expansions within expansions
};

}  // namespace quire::grammar
