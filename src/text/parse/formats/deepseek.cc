// DeepSeek V3 and R1: a section of calls, each of the type function, a name and JSON in a fence.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = "<｜tool▁calls▁begin｜>",
    .lead = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    .between = "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    .tail = "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    .name_end = "\n```json\n",
};
QR_REGISTER(CallForm, "deepseek", kForm);

}  // namespace
}  // namespace quire
