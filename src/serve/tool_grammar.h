// What an answer has to be where tools may be called: calls as the model's family writes them, with arguments that obey
// where the request wants it, beside what else the request asks of an answer.
#pragma once
#include "serve/structured.h"
#include "serve/tools.h"
#include "text/parse/call_form.h"

namespace quire {

// Joins the calls to what is wanted already. Refuses parameters that are not of an object where arguments have to obey
// them, and a notation that cannot stand beside calls. REQUIRES tools.given().
ApiResult<void> add_call_grammar(const Tools& tools, const CallForm& form, MaybeGrammar& wanted);

}  // namespace quire
