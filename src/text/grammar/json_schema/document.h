// A JSON Schema as a document: its parsed JSON, where each part lies (for errors), what references mean. Only
// references into the document are followed; nothing is ever fetched. Immutable once read.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace quire::grammar {

enum class Draft : uint8_t { draft7, draft2020 };

class SchemaDocument {
 public:
  // `fallback` is the draft of schemas that name none.
  static std::unique_ptr<SchemaDocument> of(Json schema, Draft fallback);

  const Json& root() const { return root_; }
  Draft draft() const { return draft_; }
  // "#/properties/a" of a part of this document.
  std::string pointer(const Json* part) const;
  // Where a part comes in the text, counted in parts.
  size_t order(const Json* part) const {
    const auto it = places_.find(part);
    return it == places_.end() ? 0 : it->second.order;
  }
  // What `ref`, written in `from`, refers to. Code::unsupported for what is not in the document, Code::not_found for
  // what should be in it and is not.
  Result<const Json*> resolve(const Json* from, std::string_view ref) const;
  // An error about a part: "json_schema: #/a/b: what".
  tl::unexpected<Error> error(Code code, const Json* part, std::string_view keyword, std::string_view what) const;

 private:
  struct Place {
    const Json* parent = nullptr;
    std::string_view key;  // in an object
    size_t index = 0;      // in an array
    int base = 0;          // into bases_
    size_t order = 0;      // in a walk from the beginning of the text to its end
  };
  void index();
  void enter(const Json* part, const Place& place, bool is_schema);
  const Json* at_pointer(const Json* from, std::string_view pointer) const;

  Json root_;
  Draft draft_ = Draft::draft2020;
  std::unordered_map<const Json*, Place> places_;
  std::vector<std::string> bases_;
  std::map<std::string, const Json*, std::less<>> by_id_;  // absolute identifiers, with #anchor
};

}  // namespace quire::grammar
