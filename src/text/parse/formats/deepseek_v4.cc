// DeepSeek V4: parameters say whether they are strings.
// <｜DSML｜tool_calls>
// <｜DSML｜invoke name="NAME">
// <｜DSML｜parameter name="KEY" string="true">VALUE</｜DSML｜parameter>
// </｜DSML｜invoke>
// </｜DSML｜tool_calls>
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<｜DSML｜tool_calls>",
    .lead = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"",
    .between = "\n<｜DSML｜invoke name=\"",
    .tail = "\n</｜DSML｜tool_calls>",
    .name_end = "\">\n",
    .key_begin = "<｜DSML｜parameter name=\"",
    .key_end = "\" string=\"true\">",
    .value_end = "</｜DSML｜parameter>",
    .call_end = "</｜DSML｜invoke>",
    .json_key_end = "\" string=\"false\">",
};
QR_REGISTER(CallForm, "deepseek_v4", kForm);

}  // namespace
}  // namespace quire
