// Where a document meets what may stand around it. A reader of the model's answers takes a document that begins with a
// mark of thoughts, responses or calls for these, and cuts off its end what ends a response. JSON neither begins nor
// ends so; a regular expression or a choice may.
#pragma once
#include "serve/structured.h"
#include "text/parse/call_form.h"
#include "text/reasoning.h"

namespace quire {

// A regular expression is held to texts that begin and end otherwise; a choice with one that does not is a 400 that
// names it. Other notations are left as they are. `calls` null: no tools.
ApiResult<void> keep_from_marks(ReasoningForm::Kind reasoning, const CallForm* calls, WantedGrammar& wanted);

}  // namespace quire
