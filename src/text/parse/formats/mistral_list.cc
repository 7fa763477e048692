// Mistral before its tokenizers of version 11: [TOOL_CALLS][{"name": …, "arguments": …}, …].
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "[TOOL_CALLS]",
    .lead = "[TOOL_CALLS][",
    .between = ", ",
    .tail = "]",
    .name_key = "name",
    .arguments_key = "arguments",
};
QR_REGISTER(CallForm, "mistral_list", kForm);

}  // namespace
}  // namespace quire
