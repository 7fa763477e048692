// How a family of models writes calls of tools: one description, which gives the parser of its answers (call_parser.h)
// and the grammar that they are held to (call_grammar.h). A family is one file in formats/, registered under its name.
#pragma once
#include <string_view>

#include "base/registry.h"

namespace quire {

// An answer that calls is free text, `lead`, calls with `between` between them, and `tail`. Models write white space in
// these as they please, so the parser passes over it.
//   named calls     name_begin NAME name_end ARGUMENTS call_end
//   `objects`       JSON objects with the keys name_key and arguments_key; other keys are passed over. As grammars have
//                   them: name_begin NAME name_end ARGUMENTS call_end
struct CallForm {
  std::string_view trigger{};  // of `lead`, what it begins with; empty: nothing comes before calls
  std::string_view lead{}, between{}, tail{};
  bool objects = false;
  std::string_view name_key{}, arguments_key{};
  std::string_view name_begin{}, name_end{}, call_end{};
  std::string_view id_mark{};  // between the name and what else stands before name_end
};

// QR_REGISTER(CallForm, "hermes", kForm).

}  // namespace quire
