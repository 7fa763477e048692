// MiniMax M3: a section of <invoke name="NAME">, whose arguments are tags of their names, lists and objects in tags
// again; the model's own mark stands before each tag.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "]<]minimax[>[<tool_call>",
    .lead = "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"",
    .between = "\n]<]minimax[>[<invoke name=\"",
    .tail = "\n]<]minimax[>[</tool_call>",
    .name_end = "\">",
    .call_end = "]<]minimax[>[</invoke>",
    .tag_mark = "]<]minimax[>[",
};
QR_REGISTER(CallForm, "minimax_m3", kForm);

}  // namespace
}  // namespace quire
