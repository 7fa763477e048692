// Kimi K2: a section of calls, each functions.NAME:N, a mark and JSON.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|tool_calls_section_begin|>",
    .lead = "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
    .between = "<|tool_call_end|><|tool_call_begin|>functions.",
    .tail = "<|tool_call_end|><|tool_calls_section_end|>",
    .short_lead = "<|tool_call_begin|>functions.",
    .name_end = "<|tool_call_argument_begin|>",
    .id_mark = ":",
    .id_pattern = "[0-9]{1,3}",
};
QR_REGISTER(CallForm, "kimi", kForm);

}  // namespace
}  // namespace quire
