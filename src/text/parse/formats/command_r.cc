// Command R and R+ of 2024: a list in a fence behind "Action:".
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "Action:\n```json",
    .lead = "Action:\n```json\n[\n    ",
    .between = ",\n    ",
    .tail = "\n]```",
    .short_lead = "Action: ```json\n[",
    .name_key = "tool_name",
    .arguments_key = "parameters",
    .no_tool = "directly_answer",
};
QR_REGISTER(CallForm, "command_r", kForm);

}  // namespace
}  // namespace quire
