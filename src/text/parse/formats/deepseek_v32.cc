// DeepSeek V3.2: parameters say whether they are strings.
// <｜DSML｜function_calls>
// <｜DSML｜invoke name="NAME">
// <｜DSML｜parameter name="KEY" string="true">VALUE</｜DSML｜parameter>
// </｜DSML｜invoke>
// </｜DSML｜function_calls>
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<｜DSML｜function_calls>",
    .lead = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"",
    .between = "\n<｜DSML｜invoke name=\"",
    .tail = "\n</｜DSML｜function_calls>",
    .name_end = "\">\n",
    .key_begin = "<｜DSML｜parameter name=\"",
    .key_end = "\" string=\"true\">",
    .value_end = "</｜DSML｜parameter>",
    .call_end = "</｜DSML｜invoke>",
    .json_key_end = "\" string=\"false\">",
};
QR_REGISTER(CallForm, "deepseek_v32", kForm);

}  // namespace
}  // namespace quire
