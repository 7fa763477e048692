// Llama 3.1 and 3.2: the answer is {"name": …, "parameters": …}; of several, semicolons stand between.
#include "text/parse/call_form.h"

namespace quire {
namespace {

constexpr CallForm kForm{
    .between = "; ",
    .objects = true,
    .name_key = "name",
    .arguments_key = "parameters",
    .name_begin = "{\"name\": \"",
    .name_end = "\", \"parameters\": ",
    .call_end = "}",
};
QR_REGISTER(CallForm, "llama3_json", kForm);

}  // namespace
}  // namespace quire
