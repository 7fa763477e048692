// Qwen 3 Coder: <tool_call><function=NAME><parameter=KEY>, values on lines of their own.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<tool_call>",
    .lead = "<tool_call>\n<function=",
    .between = "\n</tool_call>\n<tool_call>\n<function=",
    .tail = "\n</tool_call>",
    .short_lead = "<function=",
    .name_end = ">\n",
    .key_begin = "<parameter=",
    .key_end = ">",
    .value_end = "</parameter>",
    .call_end = "</function>",
    .padded = true,
};
QR_REGISTER(CallForm, "qwen_coder", kForm);

}  // namespace
}  // namespace quire
