// LFM2: <|tool_call_start|>[NAME(KEY=VALUE, …), …]<|tool_call_end|>.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<|tool_call_start|>",
    .lead = "<|tool_call_start|>[",
    .between = ", ",
    .tail = "]<|tool_call_end|>",
    .name_end = "(",
    .call_end = ")",
    .prompt_mark = "<|im_start|>system\nList of tools: ",
    .keywords = true,
};
QR_REGISTER(CallForm, "lfm2", kForm);

}  // namespace
}  // namespace quire
