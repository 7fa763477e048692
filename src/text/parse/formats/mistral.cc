// Mistral since its tokenizers of version 11: [TOOL_CALLS]NAME[ARGS]{…}, with [CALL_ID]ID behind the name in some.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "[TOOL_CALLS]",
    .lead = "[TOOL_CALLS]",
    .between = "[TOOL_CALLS]",
    .name_end = "[ARGS]",
    .id_mark = "[CALL_ID]",
};
QR_REGISTER(CallForm, "mistral", kForm);

}  // namespace
}  // namespace quire
