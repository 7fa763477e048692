// Granite 3: <|tool_call|>[{"name": …, "arguments": …}, …].
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|tool_call|>",
    .lead = "<|tool_call|>[",
    .between = ", ",
    .tail = "]",
    .name_key = "name",
    .arguments_key = "arguments",
};
QR_REGISTER(CallForm, "granite", kForm);

}  // namespace
}  // namespace quire
