// The arguments of one tagged call (call_form.h), read byte by byte and told as JSON: elements <KEY>VALUE</KEY>, a mark
// before each tag, whose values are text or elements again; those of a list are named item. Of what kind a text is, the
// tool's parameters say. One thread at a time.
#pragma once
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/parse/argument_kinds.h"
#include "text/parse/call_form.h"

namespace quire {

inline constexpr std::string_view kListItem = "item";

class TaggedArguments {
 public:
  enum class Step { more, whole, broken };
  // Both outlive it.
  TaggedArguments(const CallForm& form, const ArgumentKinds& kinds);

  // The next byte behind the name; appends to `json` what is certain. `whole`: the call has ended. Elements nest as
  // deep as JSON does (kMaxJsonDepth). Of a name that comes again in an object, the first counts. Which element a
  // closing tag names is not looked at.
  Step push(char c, std::string& json);
  bool in_text() const { return !in_tag_ && open_.size() > 1; }

 private:
  struct Element {
    const Json* schema = nullptr;  // null: nothing is known
    ValueKinds kinds = kEveryKind;
    enum class Holds : uint8_t { nothing, text, object, list } holds = Holds::nothing;
    bool mute = false;  // what it is came before
    std::unordered_set<std::string> told{};
    bool any = false;  // of a list: an item came
  };
  Step push_tag(std::string& json);
  Step open(const std::string& name, std::string& json);
  Step close(std::string& json);
  void tell_text(size_t n, std::string& json);
  bool begin_inner(const std::string& name, std::string& json);
  Element inner(const Element& outer, const std::string& name) const;
  static void tell(const Element& element, std::string_view text, std::string& json);

  const CallForm& form_;
  const Json* const root_;
  std::vector<Element> open_;  // the arguments first
  std::string text_;           // since the last tag, as far as it was not told
  size_t n_blank_ = 0;         // bytes of it known to be white space
  bool in_tag_ = false;
  std::string tag_;
};

}  // namespace quire
