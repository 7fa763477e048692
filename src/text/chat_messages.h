// The forms in which clients write messages, brought into the one that templates take. Pure functions, any thread.
#pragma once
#include "base/json.h"

namespace quire {

// Results of calls ("tool_call_id") without a name get that of the call whose id they have.
void name_results(Json::Array& messages);

// `messages` as the server shows them to a template: content that is a list of text parts is one string, its parts
// joined by line breaks; content that is null or absent is ""; the role developer is system; results have their names.
// What has another form stays as it is, for the template to take or refuse.
void unify_messages(Json::Array& messages);

}  // namespace quire
