// Granite 3: <|tool_call|>[{"name": …, "arguments": …}, …].
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|tool_call|>",
    .lead = "<|tool_call|>[",
    .between = ", ",
    .tail = "]",
    .objects = true,
    .name_key = "name",
    .arguments_key = "arguments",
    .name_begin = "{\"name\": \"",
    .name_end = "\", \"arguments\": ",
    .call_end = "}",
};
QR_REGISTER(CallForm, "granite", kForm);

}  // namespace
}  // namespace quire
