// Mistral before its tokenizers of version 11: [TOOL_CALLS][{"name": …, "arguments": …}, …].
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "[TOOL_CALLS]",
    .lead = "[TOOL_CALLS][",
    .between = ", ",
    .tail = "]",
    .objects = true,
    .name_key = "name",
    .arguments_key = "arguments",
    .name_begin = "{\"name\": \"",
    .name_end = "\", \"arguments\": ",
    .call_end = "}",
};
QR_REGISTER(CallForm, "mistral_list", kForm);

}  // namespace
}  // namespace quire
