// MiniMax M2: <minimax:tool_call> with <invoke name="NAME"> and <parameter name="KEY">.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<minimax:tool_call>",
    .lead = "<minimax:tool_call>\n<invoke name=\"",
    .between = "\n<invoke name=\"",
    .tail = "\n</minimax:tool_call>",
    .name_end = "\">\n",
    .key_begin = "<parameter name=\"",
    .key_end = "\">",
    .value_end = "</parameter>",
    .call_end = "</invoke>",
};
QR_REGISTER(CallForm, "minimax", kForm);

}  // namespace
}  // namespace quire
