// Command R: <|START_ACTION|>[{"tool_call_id": …, "tool_name": …, "parameters": …}, …]<|END_ACTION|>.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|START_ACTION|>",
    .lead = "<|START_ACTION|>[\n    ",
    .between = ",\n    ",
    .tail = "\n]<|END_ACTION|>",
    .name_key = "tool_name",
    .arguments_key = "parameters",
    .id_mark = "tool_call_id",
    .id_pattern = "[0-9]{1,4}",
};
QR_REGISTER(CallForm, "command", kForm);

}  // namespace
}  // namespace quire
