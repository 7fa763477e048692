// Apriel: a list between marks.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<tool_calls>",
    .lead = "<tool_calls>[",
    .between = ", ",
    .tail = "]</tool_calls>",
    .name_key = "name",
    .arguments_key = "arguments",
};
QR_REGISTER(CallForm, "apriel", kForm);

}  // namespace
}  // namespace quire
