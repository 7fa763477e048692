// DeepSeek V3.1: a section of calls, each a name, a mark and JSON.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<｜tool▁calls▁begin｜>",
    .lead = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
    .between = "<｜tool▁call▁end｜><｜tool▁call▁begin｜>",
    .tail = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    .name_end = "<｜tool▁sep｜>",
};
QR_REGISTER(CallForm, "deepseek_v31", kForm);

}  // namespace
}  // namespace quire
