// Hermes and Qwen 2.5 and 3: <tool_call>{"name": …, "arguments": …}</tool_call>, one after another.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<tool_call>",
    .lead = "<tool_call>\n",
    .between = "\n</tool_call>\n<tool_call>\n",
    .tail = "\n</tool_call>",
    .name_key = "name",
    .arguments_key = "arguments",
};
QR_REGISTER(CallForm, "hermes", kForm);

}  // namespace
}  // namespace quire
