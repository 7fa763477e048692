// Grammars put together from parts: literals, tokens, schemas, patterns, other notations, free text, in sequences,
// alternatives and repetitions. What structural tags and the tool calls of model families are made of. One thread; used
// up by finish().
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/grammar.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/network.h"

namespace quire {

class GrammarComposer {
 public:
  using Part = grammar::Rule;
  // A control token by the text that people write for it, such as "<tool_call>".
  using Control = std::pair<std::string, Token>;
  // A tag: what may follow free text. `begin` starts with one of the triggers.
  struct Tag {
    std::string begin;
    Part rest;  // all behind `begin`
  };
  struct TagRules {
    bool at_least_one = false;
    bool stop_after_first = false;  // nothing, no text either, behind the first tag
  };

  // Where a literal or a trigger contains the text of one of `controls`, that token stands for it and its text does
  // not.
  GrammarComposer(const GrammarLimits& limits, std::vector<Control> controls);

  Part literal(std::string_view text);
  Part token(Token id);
  Result<Part> json_schema(const Json& schema, JsonSchemaOptions options);
  Result<Part> regex(std::string_view pattern);
  Result<Part> gbnf(std::string_view source);
  Result<Part> ebnf(std::string_view source);
  Result<Part> lark(std::string_view source);
  // One of `texts`, byte for byte. REQUIRES some.
  Part one_of(std::vector<std::string> texts);
  Part sequence(std::span<const Part> parts);
  Part choice(std::span<const Part> parts);
  Part repeat(Part what, uint32_t min, uint32_t max);  // grammar::kNoLimit: no end
  // Any text without control tokens.
  Part free_text();
  // Any text up to the first time that one of `ends` comes, that end included. None of them may be empty. Where an end
  // begins with a control token, that token alone is it, and the text cannot spell it with others.
  Part text_until(std::span<const std::string> ends);
  // Free text in which each trigger, the first time it is whole, begins one of the tags. Where a trigger begins with a
  // control token, that token alone does, and text cannot spell it with others: whoever reads the text would take it
  // for the token. Code::invalid where a tag begins with none of the triggers, or a trigger is empty.
  Result<Part> triggered(std::span<const std::string> triggers, std::span<const Tag> tags, TagRules rules);

  Result<std::shared_ptr<const Grammar>> finish(Part root);

 private:
  std::vector<grammar::Rx> marks_in_text(std::span<const std::string> marks);
  grammar::Rx first_time(std::span<const grammar::Rx> ends, grammar::Rx end);
  const Control* control_at(std::string_view text) const;
  Result<Part> tags_of(std::string_view trigger, std::span<const Tag> tags);

  GrammarLimits limits_;
  std::unordered_map<std::string, Control> controls_;  // by text
  std::vector<size_t> control_bytes_;                  // lengths of their texts, falling
  grammar::RxStore rx_;
  grammar::NetworkBuilder net_;
  std::vector<std::string> warnings_;
  grammar::Rx text_ = 0;  // any UTF-8
};

}  // namespace quire
