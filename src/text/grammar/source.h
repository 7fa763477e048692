// What an answer has to be, as data: a notation, a text in it, and the reasoning that may come first. It has a written
// form of its own, which names it in caches and recordings; equal ones give equal grammars of the same tokenizer.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/grammar/composer.h"
#include "text/grammar/grammar.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

namespace quire {

struct GrammarSource {
  enum class Notation : uint8_t { json_object, json_schema, regex, choice, gbnf, ebnf, lark, structural_tag };
  Notation notation = Notation::json_object;
  std::string text{};  // JSON of a schema or a tag, and an array of strings of choices; empty of json_object
  ReasoningForm::Kind reasoning = ReasoningForm::Kind::none;  // what may come before, by its marks
  bool reasoning_open = false;                                // it has begun already: it does come before
  bool reasoning_over = false;                                // it has ended already: it does not

  std::string written() const;
  // Code::corrupt where `text` is not what written() gives.
  static Result<GrammarSource> read(std::string_view text);
};

// Errors name the notation and the place in the text: Code::invalid what is wrong, Code::unsupported what cannot be
// kept, Code::exhausted what is larger than `limits`.
Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSource& source,
                                                       const Tokenizer& tokenizer,
                                                       const GrammarLimits& limits);

// The control tokens of a vocabulary by their texts, as literals of a GrammarComposer name them.
std::vector<GrammarComposer::Control> control_tokens(const Tokenizer& tokenizer);

// `answer` behind the reasoning that a model writes first as `source` has it. Between the two is white space at most.
Result<GrammarComposer::Part> behind_reasoning(GrammarComposer& composer,
                                               const GrammarSource& source,
                                               GrammarComposer::Part answer);

}  // namespace quire
