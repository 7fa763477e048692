// Functionary 3.2: messages, each to somebody: >>>NAME, a line end and JSON, or >>>all and text. The prompt has the
// first mark.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .trigger = ">>>",
    .lead = ">>>",
    .between = ">>>",
    .name_end = "\n",
    .said = "all\n",
};
QR_REGISTER(CallForm, "functionary_v32", kForm);

}  // namespace
}  // namespace quire
