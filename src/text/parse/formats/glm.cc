// GLM 4.5 and later: <tool_call>NAME, then each argument as <arg_key> and <arg_value>.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<tool_call>",
    .lead = "<tool_call>",
    .between = "\n<tool_call>",
    .name_end = "\n",
    .key_begin = "<arg_key>",
    .key_end = "</arg_key>\n<arg_value>",
    .value_end = "</arg_value>",
    .call_end = "</tool_call>",
};
QR_REGISTER(CallForm, "glm", kForm);

}  // namespace
}  // namespace quire
